"""nGPT's step: rotate the stream x towards a branch's output, on the unit sphere.

    c = branch / |branch|      z = x + |α| ⊙ (c − x)      h = z / |z|

α has one value per channel. x is not normalized first; a vector of zeros keeps length 0. The two
lengths of each row are saved. Bytes per value: read x and branch, write h (3s forward; 5s backward,
in `ngpt_backward`). Source: Loshchilov et al. 2024, arXiv 2410.01131. Formula:
`labkit.placements.sphere.ngpt_update`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.ngpt_backward import ngpt_backward
from normkernels.operator import make_differentiable
from normkernels.rows import Tile, allocate_rows, as_rows, forward_tile, pack_parameter
from normkernels.sizes import cdiv
from normkernels.sphere import inverse_of, load, share_of


@triton.jit
def _forward(
    x_ptr, branch_ptr, alpha_ptr, h_ptr, lengths_ptr, M, x_stride, branch_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Update ROWS rows; columns beyond the first BLOCK are read three times."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns, valid = tl.arange(0, BLOCK)[None, :], rows < M
    here = valid & (columns < N)
    branch = load(branch_ptr, rows, branch_stride, columns, here)
    x = load(x_ptr, rows, x_stride, columns, here)
    squares = tl.sum(branch * branch, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = load(branch_ptr, rows, branch_stride, more, valid & (more < N))
        squares += tl.sum(c * c, axis=1, keep_dims=True)
    branch_length = tl.sqrt(squares)
    tl.store(lengths_ptr + 2 * rows, branch_length, mask=valid)
    shrink = inverse_of(branch_length)
    z = x + share_of(alpha_ptr, columns, N) * (branch * shrink - x)
    squares = tl.sum(z * z, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = load(branch_ptr, rows, branch_stride, more, valid & (more < N)) * shrink
        x = load(x_ptr, rows, x_stride, more, valid & (more < N))
        far = x + share_of(alpha_ptr, more, N) * (c - x)
        squares += tl.sum(far * far, axis=1, keep_dims=True)
    length = tl.sqrt(squares)
    tl.store(lengths_ptr + 2 * rows + 1, length, mask=valid)
    tl.store(h_ptr + rows * N + columns, z * inverse_of(length), mask=here)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = load(branch_ptr, rows, branch_stride, more, valid & (more < N)) * shrink
        x = load(x_ptr, rows, x_stride, more, valid & (more < N))
        far = x + share_of(alpha_ptr, more, N) * (c - x)
        tl.store(h_ptr + rows * N + more, far * inverse_of(length), mask=valid & (more < N))


def _launch_forward(x: Tensor, branch: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(x.dtype, branch.dtype)
    h = allocate_rows(x, dtype)
    lengths = torch.empty((*x.shape[:-1], 2), dtype=torch.float32, device=x.device)
    if not is_fake(x):
        (x, m, x_stride), (branch, _, branch_stride), n = as_rows(x), as_rows(branch), x.shape[-1]
        # Two tensors of a row are in registers, one for a norm, so rows are split sooner.
        tile = forward_tile(n) if n <= 16384 else Tile(1, 8192, 16)
        launch(
            _forward,
            (cdiv(m, tile.rows),),
            x,
            branch,
            pack_parameter(alpha),
            h,
            lengths,
            m,
            x_stride,
            branch_stride,
            N=n,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return h, lengths


def _save_inputs(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _take_gradients(ctx, backward, dh, *_) -> tuple:
    if dh is None:
        return None, None, None
    learns = ctx.needs_input_grad[2]
    dx, dbranch, dalpha = backward(dh, *ctx.saved_tensors, learns)
    return dx, dbranch, dalpha if learns else None


_ngpt_update = make_differentiable(
    "ngpt_update",
    _launch_forward,
    ngpt_backward,
    save=_save_inputs,
    gradients=_take_gradients,
    rowwise=2,
)


def ngpt_update(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Move x the fraction |alpha| of the way to the branch's direction, on the sphere.

    x and branch have the same shape (…, N), alpha has (N,); the result has the wider dtype of both.
    """
    check_rows("ngpt_update", x, branch=branch)
    check_parameters("ngpt_update", x, x.shape[-1], alpha=alpha)
    return _ngpt_update(x, branch, alpha)
