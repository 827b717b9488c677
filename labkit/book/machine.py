"""Say what computes here: the facts that decide the last digits of a result."""

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


@cache
def provenance(size: str = "book") -> dict[str, str]:
    """Name the device, the CPU model and the versions that a ledger's values came from."""
    return {
        "device": device(size),
        "cpu": cpu(),
        "python": platform.python_version(),
        "torch": torch(),
    }


def device(size: str) -> str:
    """Name the class of devices on which a size's runs train."""
    if size != "gpu":
        return "cpu"
    from labkit.experiments.lab import device_of  # needs torch

    return device_of(size)


def cpu() -> str:
    """Name the CPU model as the system does; on Linux with its numbers, for names are coarse."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
        pairs = [line.partition(":") for line in lines]
        facts = {key.strip(): value.strip() for key, _, value in reversed(pairs)}
        if "model name" in facts:
            numbers = f"family {facts.get('cpu family')}, model {facts.get('model')}"
            return f"{facts['model name']} ({numbers})"
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
