"""A limited share of a GPU that others use too.

LABKIT_GPU_FRACTION   the fraction of the GPU's memory that all your processes together may use,
                      above 0 and at most 1; without it there is no limit

    bytes of one process = bytes of the GPU · fraction / (workers on it + the process over them)

The limit applies to torch's allocator. The driver's context for each process that uses the GPU
needs memory in addition, and computing time is not limited.
"""

import os
from typing import Any

import torch

NAME = "LABKIT_GPU_FRACTION"


def find_cuda() -> Any:
    """Return torch's CUDA module if it finds a GPU, else None."""
    return torch.cuda if torch.cuda.is_available() else None


def read_fraction() -> float | None:
    """Read our fraction of a GPU from the environment; None if it is not set."""
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


def limit_memory(part: float | None) -> None:
    """Limit this process to a fraction of its GPU's memory; None: no limit.

    Exceeding it raises torch.OutOfMemoryError, as on a full GPU.
    """
    device = find_cuda()
    if device is not None and part is not None:
        device.set_per_process_memory_fraction(part)


def count_free_bytes() -> float:
    """Return the free bytes of the GPU that we may use; 0 without a GPU."""
    device, part = find_cuda(), read_fraction()
    if device is None:
        return 0.0
    left, whole = device.mem_get_info()
    return left if part is None else min(left, part * whole)
