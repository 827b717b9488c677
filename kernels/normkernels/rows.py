"""Rows: the last axis of a tensor, `N` values, one vector to normalize; `M` rows.

The launch configuration depends only on N, never on M: a row gives the same bits in any batch.
"""

from dataclasses import dataclass
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.launch import count_shared_bytes
from normkernels.sizes import next_power_of_2

MAX_N = 65536  # longest row that the kernels support
_SUMMED = 8192  # longest row of which one program keeps the parameter gradients


@dataclass(frozen=True)
class Tile:
    """Tile of one program: ROWS rows at once, BLOCK values of each at a time."""

    rows: int
    block: int
    warps: int
    per_processor: int = 1  # backward: programs for each multiprocessor
    stages: int = 3  # backward, at most: 3 prefetches the next rows, 2 only makes room

    def stages_for(self, *read: Tensor | None) -> int:
        """Return the number of stages whose rows fit into an A100's shared memory, 160 KB."""
        each = self.rows * self.block * self.per_processor
        size = each * sum(t.element_size() for t in read if t is not None)
        return max(2, min(self.stages, 1 + 160 * 1024 // size))

    @property
    def registers(self) -> int:
        """Return the registers per thread that let all programs of a multiprocessor run at once."""
        return 65536 // (32 * self.warps * self.per_processor)


@cache
def forward_tile(n: int) -> Tile:
    """Choose the tile of a forward kernel: about 2048 values in flight, 16 for each thread."""
    block = next_power_of_2(n)
    if block <= 2048:
        return Tile(max(1, 2048 // block), block, 4)
    if block <= 32768:
        return Tile(1, block, min(32, block // 512))
    return Tile(1, 16384, 32)  # a row in chunks: the first stays in registers, the others do not


@cache
def centred_tile(n: int) -> Tile:
    """Choose LayerNorm's tile: up to 16384 values in two chunks, so that two programs fit.

    A whole centred row of 16384 values would need all registers of a multiprocessor.
    """
    return Tile(1, 8192, 8) if 8192 < n <= 16384 else forward_tile(n)


@cache
def backward_tile(n: int) -> Tile:
    """Choose the tile of a persistent backward kernel, whose gradients stay in registers."""
    block = next_power_of_2(n)
    if block <= 1024:
        return Tile(max(1, 2048 // block), block, 4, 4)
    if block <= 8192:
        return Tile(1, block, max(4, block // 512), max(1, 8192 // block))
    return Tile(1, 4096, 8, 2)  # columns in chunks of 4096, after the sums of each row


def whole_tile(n: int, device: torch.device, *read: Tensor | None) -> Tile | None:
    """Choose the tile of a backward kernel that reads a long row once; None if it does not fit.

    The next row of all tensors, and a gain that is read again with each row, are in shared memory,
    two rows of each: 192 KB in half precision.
    """
    size = 2 * 16384 * sum(t.element_size() for t in read if t is not None)
    if 8192 < n <= 16384 and size < count_shared_bytes(device):
        return Tile(1, 16384, 16)
    return None


def is_long(n: int) -> bool:
    """Return whether a row is too long for one program to keep its parameter gradients."""
    return n > _SUMMED


def as_rows(x: Tensor) -> tuple[Tensor, int, int]:
    """View x as rows: return the tensor, M, and the stride between rows.

    No copy is made if the last axis is dense and the rows are evenly spaced.
    """
    n = x.shape[-1]
    if x.is_contiguous():
        return x, x.numel() // n if n else 0, n
    # A view where the strides allow one; else this is the copy.
    rows = x.reshape(-1, n)
    if rows.stride(-1) != 1:
        rows = rows.contiguous()
    return rows, rows.shape[0], rows.stride(0)


def pack_parameter(parameter: Tensor | None) -> Tensor | None:
    """Return a gain or shift in contiguous memory."""
    return parameter if parameter is None else parameter.contiguous()


def allocate_rows(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Allocate a dense result of x's shape; `torch.empty(shape, …)` takes twice the time."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


def allocate_statistics(x: Tensor, many: int = 1) -> list[Tensor]:
    """Allocate float32 numbers, one for each row of x, `many` times."""
    return [x.new_empty(x.shape[:-1], dtype=torch.float32) for _ in range(many)]


def allocate_moments(x: Tensor) -> Tensor:
    """Allocate LayerNorm's statistics per row: rstd, a mean, and the error of that mean."""
    return x.new_empty((*x.shape[:-1], 3), dtype=torch.float32)


@triton.jit
def all_columns(ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Return the column numbers of a tile, repeated for each of its rows, shape (ROWS, BLOCK).

    Gains are loaded with these, too: a (1, BLOCK) load would use a layout that spreads each row
    over every warp, and the whole kernel would inherit it.
    """
    return tl.zeros((ROWS, 1), tl.int32) + tl.arange(0, BLOCK)[None, :]


@triton.jit
def within(columns, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return which columns are in the row; if all are, this is a constant for the compiler."""
    inside = columns < N
    # Known to be true, the masks of a whole tile vanish from the machine code.
    if N % BLOCK == 0:
        inside = tl.full(columns.shape, True, tl.int1)
    return inside
