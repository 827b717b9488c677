"""The backward pass of `ngpt_update`: all gradients from one pass over the data.

    c = branch / |branch|      z = x + a ⊙ (c − x)      h = z / |z|      a = |α|

A length of 0 counts as 1; its projection is then 0, because its vector is 0:

    dz = (dh − h · Σ h·dh) / |z|           dx = (1 − a) · dz     dα = sign(α) · Σ_rows (c − x) · dz
    db = (dc − c · Σ c·dc) / |branch|      dc = a · dz

The two lengths of each row are saved by the forward pass; h and c are recomputed. Bytes per value:
read dh, x and branch, write dx and db (5s), then 8·P·N for dα from P programs. Beyond 8192 values
`_row_sums` first computes both sums from the lengths, and then each program processes a chunk of
columns (8s):

    Σ c·dc = (Σ a·c·dh − Σ a·c·h · Σ h·dh) / |z|
"""

from dataclasses import replace
from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.launch import count_processors, is_fake, launch
from normkernels.partials import column_sums, make_partials
from normkernels.rows import Tile, allocate_rows, as_rows, backward_tile, is_long, within
from normkernels.sizes import cdiv
from normkernels.sphere import inverse_of, load, share_of


@triton.jit
def _row_sums(
    dh_ptr, x_ptr, branch_ptr, alpha_ptr, lengths_ptr, sums_ptr,
    dh_stride, x_stride, branch_stride, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute Σ h·dh and Σ c·dc of one long row."""
    row = tl.program_id(0).to(tl.int64)
    shrink = inverse_of(tl.load(lengths_ptr + 2 * row))
    inverse = inverse_of(tl.load(lengths_ptr + 2 * row + 1))
    h_dh = tl.zeros((BLOCK,), tl.float32)
    ac_dh = tl.zeros((BLOCK,), tl.float32)
    ac_h = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        here = columns < N
        dh = load(dh_ptr, row, dh_stride, columns, here)
        c = load(branch_ptr, row, branch_stride, columns, here) * shrink
        x = load(x_ptr, row, x_stride, columns, here)
        share = share_of(alpha_ptr, columns, N)
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
    """Process all rows, ROWS at a time; store one row of dα."""
    program = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = within(columns, N, BLOCK)
    share = share_of(alpha_ptr, columns, N)
    dalpha = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]  # int32 in the interpreter
        valid = rows < M
        here = valid & inside
        dh = load(dh_ptr, rows, dh_stride, columns, here)
        branch = load(branch_ptr, rows, branch_stride, columns, here)
        x = load(x_ptr, rows, x_stride, columns, here)
        shrink = inverse_of(tl.load(lengths_ptr + 2 * rows, mask=valid, other=0))
        inverse = inverse_of(tl.load(lengths_ptr + 2 * rows + 1, mask=valid, other=0))
        turn = branch * shrink - x
        h = (x + share * turn) * inverse
        if sums_ptr is None:
            along = tl.sum(h * dh, axis=1, keep_dims=True)
        else:
            along = tl.load(sums_ptr + 2 * rows, mask=valid, other=0)
        dz = (dh - h * along) * inverse
        if partials_ptr is not None:
            dalpha += turn * dz
        dc = share * dz
        place = rows * N + columns
        tl.store(dx_ptr + place, dz - dc, mask=here)
        if sums_ptr is None:
            across = tl.sum(branch * dc, axis=1, keep_dims=True) * shrink
        else:
            across = tl.load(sums_ptr + 2 * rows + 1, mask=valid, other=0)
        tl.store(dbranch_ptr + place, (dc - branch * (across * shrink)) * shrink, mask=here)
    if partials_ptr is not None:
        total = tl.sum(dalpha, axis=0, keep_dims=True)
        alpha = tl.load(alpha_ptr + columns, mask=inside, other=0).to(tl.float32)
        total = tl.where(alpha > 0, total, tl.where(alpha < 0, -total, 0.0))
        tl.store(partials_ptr + program * N + columns, total, mask=inside)


@cache
def _backward_tile(n: int) -> Tile:
    """Return a tile with half as many rows as usual, because each value has two partners."""
    tile = backward_tile(n)
    return replace(tile, rows=tile.rows // 2) if tile.rows > 2 else tile


def ngpt_backward(
    dh: Tensor, x: Tensor, branch: Tensor, alpha: Tensor, lengths: Tensor, learns: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx, dbranch and dalpha; dalpha is empty unless α `learns`."""
    n = x.shape[-1]
    dx, dbranch = allocate_rows(x), allocate_rows(branch)
    dalpha = torch.empty_like(alpha) if learns else x.new_empty(0)
    if is_fake(x):
        return dx, dbranch, dalpha
    (dh, m, dh_stride), (x, _, x_stride), (branch, _, branch_stride) = map(as_rows, (dh, x, branch))
    alpha, tile, sums = alpha.contiguous(), _backward_tile(n), None
    chunks = cdiv(n, tile.block)
    if is_long(n):
        sums = torch.empty(m, 2, dtype=torch.float32, device=x.device)
        launch(
            _row_sums,
            (m,),
            dh,
            x,
            branch,
            alpha,
            lengths,
            sums,
            dh_stride,
            x_stride,
            branch_stride,
            N=n,
            BLOCK=tile.block // 2,
            warps=tile.warps,
        )
    most = max(1, count_processors(x.device) * tile.per_processor // max(1, chunks))
    programs = min(cdiv(m, tile.rows), most)
    partials = make_partials(1, programs, n, x.device) if learns else None
    launch(
        _backward,
        (programs, chunks),
        dh,
        x,
        branch,
        alpha,
        lengths,
        sums,
        dx,
        dbranch,
        partials,
        m,
        dh_stride,
        x_stride,
        branch_stride,
        N=n,
        ROWS=tile.rows,
        BLOCK=tile.block,
        STAGES=tile.stages_for(dh, x, branch),
        warps=tile.warps,
        registers=tile.registers,
    )
    if partials is not None:
        column_sums(partials, dalpha)
    return dx, dbranch, dalpha
