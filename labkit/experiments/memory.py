"""What a task took, and what a chapter declares that its processes hold.

    Lab(…, memory={"kernel": "700M", "run": "900M"})

kernel   the largest resident size of the notebook's process
run      the largest resident size of a worker while it trained one of the chapter's runs

A chapter with n workers holds at most kernel + n · run. Resident sizes count the pages of torch's
libraries in every process that maps them, so the sum says too much rather than too little. Linux
counts a process' largest size anew for each task (VmHWM, set back through /proc/self/clear_refs);
elsewhere it is the largest since the process began. On a GPU it is the most that torch had taken
from the device, what it kept for later too.
"""

import math
import resource  # POSIX only, as the pool is
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.run import CPU
from labkit.experiments.store import read_entry
from labkit.system.units import parse_bytes

PARTS = ("kernel", "run")
_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@contextmanager
def measure_usage(device: str = CPU) -> Iterator[dict[str, Any]]:
    """Fill a dictionary, when the block ends: `seconds`, `cpu_seconds` and `peak_bytes`."""
    taken: dict[str, Any] = {}
    if _on_cuda(device):
        torch.cuda.reset_peak_memory_stats()
    else:
        # Where this is no Linux, or a container forbids it, the process' own peak stands.
        with suppress(OSError):
            _CLEAR.write_text("5")
    wall, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken["seconds"] = time.perf_counter() - wall
    taken["cpu_seconds"] = time.process_time() - cpu
    taken["peak_bytes"] = peak_bytes(device)


def peak_bytes(device: str = CPU) -> int:
    """Return the largest memory of this process, or what it took of a GPU at most."""
    if _on_cuda(device):
        return torch.cuda.max_memory_reserved()
    with suppress(OSError):
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes there, KiB elsewhere


def _on_cuda(device: str) -> bool:
    return device != CPU and torch.cuda.is_available()


def read_declared_memory(memory: Mapping[str, str] | None) -> dict[str, int]:
    """Read what a chapter declares, in bytes by part; nothing where it declares nothing."""
    if memory is None:
        return {}
    if {*memory} != {*PARTS}:
        raise ValueError(
            f"memory must name {' and '.join(PARTS)}, as in "
            f'{{"kernel": "700M", "run": "1G"}}; got {sorted(memory)}'
        )
    return {part: parse_bytes(memory[part]) for part in PARTS}


def find_peak_memory(folder: Path, keys: Iterable[str]) -> dict[str, int]:
    """Find the most that one run of a store held, in bytes, on CPUs and on GPUs; 0: none did.

    On a GPU, runs that trained together share out what they took: fewer of them take less. On a
    CPU they do not say what one takes alone, for most of it is the process and its libraries.
    """
    peaks = {"run_bytes": 0, "gpu_bytes": 0}
    for key in keys:
        with suppress(OSError, ValueError, KeyError):  # gone since it was read
            made = read_entry(folder / f"{key}.json")["made"]
            together, peak = made.get("together", 1), made["peak_bytes"]
            if made["device"] != CPU:
                peaks["gpu_bytes"] = max(peaks["gpu_bytes"], math.ceil(peak / together))
            elif together == 1:
                peaks["run_bytes"] = max(peaks["run_bytes"], peak)
    return peaks
