"""What a chapter declares that its processes hold, what they held, and what is left at its end.

    Lab(…, memory={"kernel": "700M", "run": "900M"})

kernel   the largest resident size of the notebook's process
run      the largest resident size of a worker while it trained one of the chapter's runs

A chapter with n workers holds at most kernel + n · run. Resident sizes count the pages of torch's
libraries in every process that maps them, so the sum says too much rather than too little.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import torch

from labkit import share
from labkit.experiments.engines.limits import count_resident_bytes
from labkit.experiments.run import CPU
from labkit.experiments.store import read_entry
from labkit.units import in_words, parse_bytes

PARTS = ("kernel", "run")


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


def is_comparable(size: str, engine: str) -> bool:
    """Return whether the bytes of this process and its workers are those that a chapter declares.

    They are where worker processes train the sizes that it was measured at, with a torch that
    carries no CUDA libraries: these take memory in each process, used or not.
    """
    return size == "book" and engine == "processes" and torch.version.cuda is None


def format_farewell(held: Mapping[str, int], declares: Mapping[str, int]) -> str:
    """Describe what a chapter's processes held at most, and what this one still holds."""

    def format_declared(part: str) -> str:
        return f" of {in_words(declares[part])} declared" if part in declares else ""

    parts = [f"in this kernel {in_words(held['kernel_bytes'])}{format_declared('kernel')}"]
    if held["run_bytes"]:
        parts.append(f"in a run {in_words(held['run_bytes'])}{format_declared('run')}")
    if held["gpu_bytes"]:
        parts.append(f"of a GPU {in_words(held['gpu_bytes'])} in a run")
    now = [f"{in_words(count_resident_bytes())} here"]
    if held_there := share.count_held_bytes():
        now.append(f"{in_words(held_there)} of the GPU")
    return (
        f"the workers have ended. Most memory: {', '.join(parts)}. "
        f"Still held: {' and '.join(now)}, until the kernel is shut down"
    )
