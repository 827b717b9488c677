"""The peak memory of a task, and the memory that a chapter declares for its processes.

    Lab(…, memory={"kernel": "700M", "run": "900M"})

kernel   the peak resident size of the notebook's process
run      the peak resident size of a worker during one of the chapter's runs

A chapter with n workers holds at most kernel + n · run. Resident sizes count the pages of torch's
libraries in every process that maps them, so the sum is an upper bound. Linux measures the peak of
each task separately (VmHWM, reset through /proc/self/clear_refs); other systems measure it since
the process began. On a GPU it is the peak that torch reserved, including its cache.
"""

import math
import resource  # POSIX only, as the pool is
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.system.units import parse_bytes

PARTS = ("kernel", "run")
_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


@contextmanager
def measure_peak(device: str = CPU) -> Iterator[dict[str, int]]:
    """Fill a dictionary with `peak_bytes` when the block ends."""
    taken: dict[str, int] = {}
    if _on_cuda(device):
        torch.cuda.reset_peak_memory_stats()
    else:
        # Without Linux, or if a container forbids it, the process' own peak is used.
        with suppress(OSError):
            _CLEAR.write_text("5")
    yield taken
    taken["peak_bytes"] = peak_bytes(device)


def peak_bytes(device: str = CPU) -> int:
    """Return the peak memory of this process, or its peak on a GPU."""
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
    """Parse the memory that a chapter declares, in bytes by part; empty if it declares none."""
    if memory is None:
        return {}
    if {*memory} != {*PARTS}:
        raise ValueError(
            f"memory must name {' and '.join(PARTS)}, as in "
            f'{{"kernel": "700M", "run": "1G"}}; got {sorted(memory)}'
        )
    return {part: parse_bytes(memory[part]) for part in PARTS}


def find_peak_memory(store: Store, keys: Iterable[str]) -> dict[str, int]:
    """Return the peak memory of a run trained here, in bytes, on CPUs and on GPUs; 0 if unknown.

    On a GPU, runs that trained together divide their memory, because fewer runs need less. On a CPU
    they are ignored, because most of the memory is the process and its libraries.
    """
    held = [
        (row["peak_bytes"], row["provenance"].get("together", 1))
        for key in keys
        if (row := store.read_own_row(key)) is not None and row["peak_bytes"]
    ]
    if store.device == CPU:
        alone = (peak for peak, together in held if together == 1)
        return {"run_bytes": max(alone, default=0), "gpu_bytes": 0}
    shares = (math.ceil(peak / together) for peak, together in held)
    return {"run_bytes": 0, "gpu_bytes": max(shares, default=0)}
