"""Processor of this machine; its model determines the last digits of a result."""

import platform
import subprocess
from functools import cache
from pathlib import Path


@cache
def name_processor() -> str:
    """Return the CPU's model name; on Linux with its model numbers, because names are ambiguous."""
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
