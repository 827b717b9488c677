"""Say what computes here: the facts that decide the last digits of a result."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def provenance() -> dict[str, str]:
    """Name the device, the CPU model and the versions that a ledger's values came from."""
    return {"device": "cpu", "cpu": cpu(), "python": platform.python_version(), "torch": torch()}


def cpu() -> str:
    """Name the CPU model as the system does."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True
        )
        if asked.stdout.strip():
            return asked.stdout.strip()
    return platform.processor() or platform.machine()


def torch() -> str:
    """Read torch's public version without importing it; its CPU and CUDA builds count as one."""
    try:
        return version("torch").partition("+")[0]
    except PackageNotFoundError:
        return "absent"
