"""What a task took: its wall and processor time, and the largest memory while it trained.

CPU   the largest resident size of the process: Linux counts it anew for each task (VmHWM, set back
      through /proc/self/clear_refs); elsewhere it is the largest since the process began
CUDA  the most that torch had taken from the device, what it kept for later too
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.run import CPU

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@contextmanager
def measure_usage(device: str = CPU) -> Iterator[dict[str, Any]]:
    """Fill a dictionary, when the block ends: `seconds`, `cpu_seconds` and `peak_bytes`."""
    taken: dict[str, Any] = {}
    reset_peak(device)
    wall, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken["seconds"] = time.perf_counter() - wall
    taken["cpu_seconds"] = time.process_time() - cpu
    taken["peak_bytes"] = peak_bytes(device)


def reset_peak(device: str = CPU) -> None:
    """Count the peak from here, where the system allows it."""
    if _on_cuda(device):
        torch.cuda.reset_peak_memory_stats()
        return
    # Where this is no Linux, or a container forbids it, the process' own peak stands.
    with suppress(OSError):
        _CLEAR.write_text("5")


def peak_bytes(device: str = CPU) -> int:
    """Return the largest memory since `reset_peak`."""
    if _on_cuda(device):
        return torch.cuda.max_memory_reserved()
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # POSIX only, as the pool is
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes there, KiB elsewhere


def _on_cuda(device: str) -> bool:
    return device != CPU and torch.cuda.is_available()
