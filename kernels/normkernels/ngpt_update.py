"""nGPT's step: turn the stream x towards what a branch proposes, and stay on the unit sphere.

    c = branch / |branch|      z = x + |α| ⊙ (c − x)      h = z / |z|

α has one value for each channel. x is taken as it is; a vector of zeros keeps length 0. Backward,
with a = |α|; a length of 0 counts as 1 and is no projection, since its vector is 0:

    dz = (dh − h · Σ h·dh) / |z|           dx = (1 − a) · dz     dα = sign(α) · Σ_rows (c − x) · dz
    db = (dc − c · Σ c·dc) / |branch|      dc = a · dz

The two lengths of each row are saved, h and c made again. Bytes for each value: read x and branch,
write h (3s forward); read dh, x and branch, write dx and db (5s backward), then 8·P·N for dα from
P programs. Beyond 8192 values `_row_sums` finds both sums first, from the saved lengths:

    Σ c·dc = (Σ a·c·dh − Σ a·c·h · Σ h·dh) / |z|

and programs then own a chunk of columns (8s). Source: Loshchilov et al. 2024, arXiv 2410.01131.
Formula twin: `labkit.placements.sphere.ngpt_update`.
"""

from dataclasses import replace
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch, processors
from normkernels.operator import differentiable
from normkernels.partials import column_sums, make_partials
from normkernels.rows import Tile, as_rows, backward_tile, forward_tile, is_long, packed
from normkernels.sizes import cdiv


@triton.jit
def _load(ptr, rows, stride, columns, here):
    """Read a tile of rows as float32, 0 outside."""
    return tl.load(ptr + rows * stride + columns, mask=here, other=0).to(tl.float32)


@triton.jit
def _share(alpha_ptr, columns, N):
    """Read |α|."""
    return tl.abs(tl.load(alpha_ptr + columns, mask=columns < N, other=0).to(tl.float32))


@triton.jit
def _inverse(length):
    """Give 1 / length; 1 where there is none, so that zeros stay zeros."""
    return 1 / tl.where(length == 0, 1.0, length)


@triton.jit
def _forward(
    x_ptr, branch_ptr, alpha_ptr, h_ptr, lengths_ptr, M, x_stride, branch_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Turn ROWS rows; columns beyond the first BLOCK are read three times."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns, valid = tl.arange(0, BLOCK)[None, :], rows < M
    here = valid & (columns < N)
    branch = _load(branch_ptr, rows, branch_stride, columns, here)
    x = _load(x_ptr, rows, x_stride, columns, here)
    squares = tl.sum(branch * branch, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = _load(branch_ptr, rows, branch_stride, more, valid & (more < N))
        squares += tl.sum(c * c, axis=1, keep_dims=True)
    branch_length = tl.sqrt(squares)
    tl.store(lengths_ptr + 2 * rows, branch_length, mask=valid)
    shrink = _inverse(branch_length)
    z = x + _share(alpha_ptr, columns, N) * (branch * shrink - x)
    squares = tl.sum(z * z, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = _load(branch_ptr, rows, branch_stride, more, valid & (more < N)) * shrink
        x = _load(x_ptr, rows, x_stride, more, valid & (more < N))
        far = x + _share(alpha_ptr, more, N) * (c - x)
        squares += tl.sum(far * far, axis=1, keep_dims=True)
    length = tl.sqrt(squares)
    tl.store(lengths_ptr + 2 * rows + 1, length, mask=valid)
    tl.store(h_ptr + rows * N + columns, z * _inverse(length), mask=here)
    for start in range(BLOCK, N, BLOCK):
        more = start + columns
        c = _load(branch_ptr, rows, branch_stride, more, valid & (more < N)) * shrink
        x = _load(x_ptr, rows, x_stride, more, valid & (more < N))
        far = x + _share(alpha_ptr, more, N) * (c - x)
        tl.store(h_ptr + rows * N + more, far * _inverse(length), mask=valid & (more < N))


@triton.jit
def _row_sums(
    dh_ptr, x_ptr, branch_ptr, alpha_ptr, lengths_ptr, sums_ptr,
    dh_stride, x_stride, branch_stride, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Find Σ h·dh and Σ c·dc of one long row."""
    row = tl.program_id(0).to(tl.int64)
    shrink = _inverse(tl.load(lengths_ptr + 2 * row))
    inverse = _inverse(tl.load(lengths_ptr + 2 * row + 1))
    h_dh = tl.zeros((BLOCK,), tl.float32)
    ac_dh = tl.zeros((BLOCK,), tl.float32)
    ac_h = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        here = columns < N
        dh = _load(dh_ptr, row, dh_stride, columns, here)
        c = _load(branch_ptr, row, branch_stride, columns, here) * shrink
        x = _load(x_ptr, row, x_stride, columns, here)
        share = _share(alpha_ptr, columns, N)
        h = (x + share * (c - x)) * inverse
        h_dh += h * dh
        ac_dh += share * c * dh
        ac_h += share * c * h
    along = tl.sum(h_dh)
    tl.store(sums_ptr + 2 * row, along)
    tl.store(sums_ptr + 2 * row + 1, (tl.sum(ac_dh) - tl.sum(ac_h) * along) * inverse)


@triton.jit
def _backward(
    dh_ptr, x_ptr, branch_ptr, alpha_ptr, lengths_ptr, sums_ptr,
    dx_ptr, dbranch_ptr, partials_ptr, M, dh_stride, x_stride, branch_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Walk over all rows, ROWS at a time; leave one row of dα."""
    program = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = columns < N
    share = _share(alpha_ptr, columns, N)
    dalpha = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        valid = rows < M
        here = valid & inside
        dh = _load(dh_ptr, rows, dh_stride, columns, here)
        branch = _load(branch_ptr, rows, branch_stride, columns, here)
        x = _load(x_ptr, rows, x_stride, columns, here)
        shrink = _inverse(tl.load(lengths_ptr + 2 * rows, mask=valid, other=0))
        inverse = _inverse(tl.load(lengths_ptr + 2 * rows + 1, mask=valid, other=0))
        c = branch * shrink
        turn = c - x
        h = (x + share * turn) * inverse
        if sums_ptr is None:
            along = tl.sum(h * dh, axis=1, keep_dims=True)
        else:
            along = tl.load(sums_ptr + 2 * rows, mask=valid, other=0)
        dz = (dh - h * along) * inverse
        dc = share * dz
        tl.store(dx_ptr + rows * N + columns, dz - dc, mask=here)
        if partials_ptr is not None:
            dalpha += turn * dz
        if sums_ptr is None:
            across = tl.sum(c * dc, axis=1, keep_dims=True)
        else:
            across = tl.load(sums_ptr + 2 * rows + 1, mask=valid, other=0)
        tl.store(dbranch_ptr + rows * N + columns, (dc - c * across) * shrink, mask=here)
    if partials_ptr is not None:
        total = tl.sum(dalpha, axis=0, keep_dims=True)
        alpha = tl.load(alpha_ptr + columns, mask=inside, other=0).to(tl.float32)
        total = tl.where(alpha > 0, total, tl.where(alpha < 0, -total, 0.0))
        tl.store(partials_ptr + program.to(tl.int64) * N + columns, total, mask=inside)


@cache
def _backward_tile(n: int) -> Tile:
    """Half as many rows at once as other kernels have: each value has two partners here."""
    tile = backward_tile(n)
    return replace(tile, rows=tile.rows // 2) if tile.rows > 2 else tile


def _launch_forward(x: Tensor, branch: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    dtype = torch.promote_types(x.dtype, branch.dtype)
    h = torch.empty(x.shape, dtype=dtype, device=x.device)
    lengths = torch.empty((*x.shape[:-1], 2), dtype=torch.float32, device=x.device)
    if not is_fake(x):
        (x, m, x_stride), (branch, _, branch_stride), n = as_rows(x), as_rows(branch), x.shape[-1]
        tile = forward_tile(n) if n <= 16384 else Tile(1, 8192, 16)
        launch(
            _forward, (cdiv(m, tile.rows),), x, branch, packed(alpha), h, lengths,
            m, x_stride, branch_stride, N=n, ROWS=tile.rows, BLOCK=tile.block, warps=tile.warps,
        )  # fmt: skip
    return h, lengths


def _launch_backward(
    dh: Tensor, x: Tensor, branch: Tensor, alpha: Tensor, lengths: Tensor, learns: bool
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    n = x.shape[-1]
    dx, dbranch = (torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (x, branch))
    dalpha = torch.empty_like(alpha) if learns else x.new_empty(0)
    if is_fake(x):
        return dx, dbranch, dalpha
    (dh, m, dh_stride), (x, _, x_stride), (branch, _, branch_stride) = map(as_rows, (dh, x, branch))
    alpha, tile, sums = alpha.contiguous(), _backward_tile(n), None
    chunks = cdiv(n, tile.block)
    if is_long(n):
        sums = torch.empty(m, 2, dtype=torch.float32, device=x.device)
        launch(
            _row_sums, (m,), dh, x, branch, alpha, lengths, sums,
            dh_stride, x_stride, branch_stride,
            N=n, BLOCK=tile.block // 2, warps=tile.warps,
        )  # fmt: skip
    most = max(1, processors(x.device) * tile.per_processor // chunks)
    programs = min(cdiv(m, tile.rows), most)
    partials = make_partials(1, programs, n, x.device) if learns else None
    launch(
        _backward, (programs, chunks), dh, x, branch, alpha, lengths, sums,
        dx, dbranch, partials, m, dh_stride, x_stride, branch_stride,
        N=n, ROWS=tile.rows, BLOCK=tile.block, STAGES=tile.stages, warps=tile.warps,
        registers=tile.registers,
    )  # fmt: skip
    if partials is not None:
        column_sums(partials, dalpha)
    return dx, dbranch, dalpha


def _save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _gradients(ctx, backward, dh, *_) -> tuple:
    if dh is None:
        return None, None, None
    learns = ctx.needs_input_grad[2]
    dx, dbranch, dalpha = backward(dh, *ctx.saved_tensors, learns)
    return dx, dbranch, dalpha if learns else None


_ngpt_update = differentiable(
    "ngpt_update", _launch_forward, _launch_backward, save=_save, gradients=_gradients, rowwise=2
)


def ngpt_update(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Go the share |alpha| of the way from x to the branch's direction, on the sphere.

    x and branch have one shape (…, N), alpha has (N,); the wider dtype of x and branch comes back.
    """
    check_rows("ngpt_update", x, branch=branch)
    check_parameters("ngpt_update", x, x.shape[-1], alpha=alpha)
    return _ngpt_update(x, branch, alpha)
