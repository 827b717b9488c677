"""The backward pass of `dynamic_tanh` and `dynamic_erf`: all gradients from one pass.

    z = α · x + s      y = g · f(z) + b      u = g · dy · f'(z)

    dx = α · u      dg = Σ_rows dy · f(z)      db = Σ_rows dy      dα = Σ u · x      ds = Σ u

dα and ds are sums over all values. A fixed number of programs processes the rows of one chunk of
columns, and keeps all sums in float32 registers until its last row. Bytes per value: read dy and x,
write dx (3s), then 8·P·N for each of dg and db from P programs per chunk, and one number per
program for each of dα and ds.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.curves import evaluate_curve, read_number
from normkernels.launch import count_processors, is_fake, launch
from normkernels.partials import column_sums, make_partials
from normkernels.rows import Tile, allocate_rows, as_rows, pack_parameter
from normkernels.sizes import cdiv, next_power_of_2


@triton.jit
def _backward(
    dy_ptr, x_ptr, alpha_ptr, shift_ptr, weight_ptr, dx_ptr, partials_ptr, numbers_ptr,
    alpha, shift, M, dy_stride, x_stride,
    N: tl.constexpr, ERF: tl.constexpr, SHIFT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Process all rows in one chunk of columns; store a row of dg (and db), and a dα (and ds)."""
    program = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = columns < N
    gain = tl.full((1, BLOCK), 1.0, tl.float32)
    if weight_ptr is not None:
        gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    alpha, shift = read_number(alpha_ptr, alpha), read_number(shift_ptr, shift)
    dweight = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    GROUP: tl.constexpr = min(BLOCK, 4)  # values of one thread, which are summed without waiting
    dalpha = tl.zeros((ROWS, BLOCK // GROUP), tl.float32)
    dshift = tl.zeros((ROWS, BLOCK // GROUP), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]  # int32 in the interpreter
        here = (rows < M) & inside
        x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=here, other=0).to(tl.float32)
        y, rise = evaluate_curve(alpha * x + shift, ERF)
        u = dy * gain * rise
        tl.store(dx_ptr + rows * N + columns, u * alpha, mask=here)
        if partials_ptr is not None:
            # f(z) is recomputed: saving it would take two more passes over memory.
            dweight += dy * y
            if SHIFT:
                dbias += dy
        if numbers_ptr is not None:
            dalpha += tl.sum(tl.reshape(u * x, (ROWS, BLOCK // GROUP, GROUP)), axis=2)
            if ERF:
                dshift += tl.sum(tl.reshape(u, (ROWS, BLOCK // GROUP, GROUP)), axis=2)
    if partials_ptr is not None:
        place = program * N + columns
        tl.store(partials_ptr + place, tl.sum(dweight, axis=0, keep_dims=True), mask=inside)
        if SHIFT:
            place += tl.num_programs(0).to(tl.int64) * N
            tl.store(partials_ptr + place, tl.sum(dbias, axis=0, keep_dims=True), mask=inside)
    if numbers_ptr is not None:
        numbers_ptr += program * tl.num_programs(1) + tl.program_id(1)
        tl.store(numbers_ptr, tl.sum(dalpha))
        if ERF:
            tl.store(numbers_ptr + tl.num_programs(0) * tl.num_programs(1), tl.sum(dshift))


@cache
def _backward_tile(n: int) -> Tile:
    """Choose a tile with at most 16 values per thread, because each has up to four sums."""
    block = min(1024, next_power_of_2(n))
    return Tile(2 if block == 1024 else 1024 // block, block, 4, 4, 4)


def squash_backward(
    dy: Tensor,
    x: Tensor,
    alpha: Tensor | None,
    slope: float,
    shift: Tensor | None,
    offset: float,
    weight: Tensor | None,
    bias: Tensor | None,
    learns: bool,
    steers: bool,
    erf: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return dx, dweight, dbias (if `learns`), dalpha, dshift (if `steers`); else empty."""
    n, shifts = x.shape[-1], bias is not None
    dx = allocate_rows(x)
    dweight, dbias = (_allocate_like(p, learns, x) for p in (weight, bias))
    dalpha, dshift = (_allocate_like(p, steers, x) for p in (alpha, shift))
    if is_fake(x):
        return dx, dweight, dbias, dalpha, dshift
    (dy, m, dy_stride), (x, _, x_stride) = as_rows(dy), as_rows(x)
    tile = _backward_tile(n)
    chunks = cdiv(n, tile.block)
    most = max(1, count_processors(x.device) * tile.per_processor // max(1, chunks))
    programs = min(cdiv(m, tile.rows), most)
    partials = make_partials(1 + shifts, programs, n, x.device) if learns else None
    numbers = make_partials(1 + erf, programs * chunks, 1, x.device) if steers else None
    launch(
        _backward,
        (programs, chunks),
        dy,
        x,
        alpha,
        shift,
        pack_parameter(weight),
        dx,
        partials,
        numbers,
        slope,
        offset,
        m,
        dy_stride,
        x_stride,
        N=n,
        ERF=erf,
        SHIFT=shifts,
        ROWS=tile.rows,
        BLOCK=tile.block,
        STAGES=tile.stages_for(dy, x),
        warps=tile.warps,
        registers=tile.registers,
    )
    if partials is not None:
        column_sums(partials, _allocate_room(dweight, n), dbias if shifts else None)
    if numbers is not None:
        column_sums(numbers, _allocate_room(dalpha, 1), _allocate_room(dshift, 1) if erf else None)
    return dx, dweight, dbias, dalpha, dshift


def _allocate_like(parameter: Tensor | None, wanted: bool, x: Tensor) -> Tensor:
    """Allocate a gradient if there is a parameter and its gradient is needed."""
    return x.new_empty(0) if parameter is None or not wanted else torch.empty_like(parameter)


def _allocate_room(gradient: Tensor, size: int) -> Tensor:
    """Return memory for a sum that the kernel computes anyway, even if it is not needed."""
    return gradient if gradient.numel() else gradient.new_empty(size)
