"""A share of a GPU on which others compute too: take no more of its memory, and give back the rest.

LABKIT_GPU_FRACTION   the part of the GPU's memory that all your processes together may take, above
                      0 and at most 1; without it nothing is limited

    bytes of one process = bytes of the GPU · fraction / (workers on it + the process over them)

The limit holds for what torch's allocator holds. What the driver keeps for each process that uses
the GPU, its context, comes on top, and computing time is not shared out.
"""

import os
from typing import Any

import torch

NAME = "LABKIT_GPU_FRACTION"


def find_cuda() -> Any:
    """Return torch's CUDA module where it sees a GPU, else None."""
    return torch.cuda if torch.cuda.is_available() else None


def read_fraction() -> float | None:
    """Read which part of a GPU is ours; None where nobody said so."""
    text = os.environ.get(NAME)
    if not text:
        return None
    try:
        part = float(text)
    except ValueError:
        part = 0.0
    if not 0 < part <= 1:
        raise ValueError(f"{NAME} must be above 0 and at most 1; got {text!r}")
    return part


def divide_fraction(workers: int) -> float | None:
    """Return what is left of our part for each of so many workers and the process over them."""
    part = read_fraction()
    return None if part is None else part / (workers + 1)


def limit_memory(part: float | None) -> None:
    """Limit this process to a share of its GPU's memory; None: no limit.

    More raises torch.OutOfMemoryError, as on a GPU that is full.
    """
    device = find_cuda()
    if device is not None and part is not None:
        device.set_per_process_memory_fraction(part)


def count_free_bytes() -> float:
    """Count the bytes of the GPU that are free and may be ours; 0 where there is no GPU."""
    device, part = find_cuda(), read_fraction()
    if device is None:
        return 0.0
    left, whole = device.mem_get_info()
    return left if part is None else min(left, part * whole)


def release_cache() -> None:
    """Release GPU memory that torch caches; tensors in use stay."""
    device = find_cuda()
    if device is not None and device.is_initialized():
        device.empty_cache()


def count_held_bytes() -> int:
    """Count the bytes of a GPU that this process holds, the allocator's spare ones too."""
    device = find_cuda()
    return device.memory_reserved() if device is not None and device.is_initialized() else 0
