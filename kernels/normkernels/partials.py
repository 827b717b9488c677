"""Parameter gradients: each program stores one float32 row, and the rows are summed.

There are no atomics and no locks: only program p writes row p, and one program sums a column from
the first row to the last. The same launch gives the same bits each time. Bytes: 4 per value of
`partials`, which usually fits in the L2 cache.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.launch import INTERPRETED, launch
from normkernels.sizes import cdiv

# Narrow columns make many programs. In the interpreter each costs a millisecond: few wide ones.
_ROWS, _COLUMNS, _WARPS = (8, 8192, 1) if INTERPRETED else (256, 16, 8)


@triton.jit
def _column_sums(
    partials_ptr, first_ptr, second_ptr, P, N: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum COLUMNS columns of matrix number program_id(1), ROWS rows at a time."""
    matrix = tl.program_id(1).to(tl.int64)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, P, ROWS):
        rows = start + tl.arange(0, ROWS)[:, None]
        here = (rows < P) & (columns < N)
        # ROWS parallel sums, joined at the end: a chain of P additions would wait for each one.
        total += tl.load(partials_ptr + (matrix * P + rows) * N + columns, mask=here, other=0)
    sums = tl.sum(total, axis=0, keep_dims=True)
    if second_ptr is None or matrix == 0:
        tl.store(first_ptr + columns, sums, mask=columns < N)
    else:
        tl.store(second_ptr + columns, sums, mask=columns < N)


def column_sums(partials: Tensor, first: Tensor, second: Tensor | None = None) -> None:
    """Write the sums over axis 1 of `partials` (one or two matrices, P, N) into the outputs."""
    matrices, p, n = partials.shape
    grid = (cdiv(n, _COLUMNS), matrices)
    launch(
        _column_sums,
        grid,
        partials,
        first,
        second,
        p,
        N=n,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
        warps=_WARPS,
    )


def make_partials(matrices: int, programs: int, n: int, device: torch.device) -> Tensor:
    """Allocate the rows that programs will fill; their initial values do not matter."""
    return torch.empty(matrices, programs, n, dtype=torch.float32, device=device)
