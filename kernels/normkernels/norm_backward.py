"""The backward pass of RMSNorm and LayerNorm: all gradients from one pass over the data.

With x̂ = (z − mean) · rstd, y = g · x̂ + b and u = g · dy, both statistics depend on all of z:

    dz = rstd · (u − mean(u) − x̂ · mean(u · x̂)) + dh     RMSNorm: without mean and mean(u)
    dg = Σ_rows dy · x̂          db = Σ_rows dy           dh: z's gradient from elsewhere

The projections remove the directions that a norm ignores: Σ dz = 0 for LayerNorm, x · dz ≈ 0 for
both. z may itself be a sum, z = α · skip + branch: then dbranch = dz and dskip = α · dz.

A fixed number of programs processes all rows, prefetching the next rows into shared memory, and
keeps dg and db in float32 registers until its last row. Bytes per value: read dy and z, write dz
(3s), then 8·P·N for each parameter gradient of P programs. Rows of up to 16384 values fit if only
dy, z and a gain in half precision are read: see `whole_tile`. For longer rows `_row_sums` first
computes the means of each row, and then each program processes a chunk of columns (5s). Programs
that share a row and exchange its sums through memory were slower: on an H200, 2048 rows of 32768
took 199 µs that way, and 175 µs in two passes.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.launch import count_processors, is_fake, launch
from normkernels.partials import column_sums, make_partials
from normkernels.rows import (
    all_columns,
    allocate_rows,
    as_rows,
    backward_tile,
    is_long,
    pack_parameter,
    whole_tile,
    within,
)


@triton.jit
def _standard(z, rstd, statistics_ptr, valid, CENTRED: tl.constexpr):
    """Return x̂. LayerNorm stores three numbers per row: rstd, a mean, and the error of that mean.

    In columns beyond N, x̂ is not 0, but its factor is.
    """
    if CENTRED:
        z -= tl.load(statistics_ptr + 1, mask=valid, other=0)
        missed = tl.load(statistics_ptr + 2, mask=valid, other=0)
        standard = z * rstd - missed * rstd
    else:
        standard = z * rstd
    return standard


@triton.jit
def _row_sums(
    dy_ptr, z_ptr, weight_ptr, statistics_ptr, sums_ptr, N, dy_stride, z_stride,
    CENTRED: tl.constexpr, OFFSET: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute mean(u·x̂), and for LayerNorm mean(u), of one long row."""
    row = tl.program_id(0).to(tl.int64)
    statistics_ptr += row * (3 if CENTRED else 1)
    rstd = tl.load(statistics_ptr)
    ux_total = tl.zeros((BLOCK,), tl.float32)
    u_total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        here = columns < N
        z = tl.load(z_ptr + row * z_stride + columns, mask=here, other=0).to(tl.float32)
        u = tl.load(dy_ptr + row * dy_stride + columns, mask=here, other=0).to(tl.float32)
        if weight_ptr is not None:
            u *= tl.load(weight_ptr + columns, mask=here, other=0).to(tl.float32) + OFFSET
        if CENTRED:
            u_total += u
        ux_total += u * _standard(z, rstd, statistics_ptr, True, CENTRED)
    tl.store(sums_ptr + 2 * row, tl.sum(ux_total) / N)
    if CENTRED:
        tl.store(sums_ptr + 2 * row + 1, tl.sum(u_total) / N)


@triton.jit
def _backward(
    dy_ptr, dh_ptr, z_ptr, weight_ptr, statistics_ptr, sums_ptr,
    dz_ptr, dskip_ptr, partials_ptr, alpha, M, dy_stride, dh_stride, z_stride,
    N: tl.constexpr, CENTRED: tl.constexpr, OFFSET: tl.constexpr, ROUND: tl.constexpr,
    SHIFT: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Walk over all rows, ROWS at a time; leave one row of dg, and of db if SHIFT.

    dg and db are updated before the sums of a row are computed: that frees the registers of dy.
    """
    program = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + all_columns(ROWS, BLOCK)
    inside = within(columns, N, BLOCK)
    # Without a gain it is 1, so that the loop below is written once.
    gain = tl.full((ROWS, BLOCK), 1.0, tl.float32)
    if weight_ptr is not None and BLOCK <= 8192:
        gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32) + OFFSET
    dweight = tl.zeros((ROWS, BLOCK), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        if weight_ptr is not None and BLOCK > 8192:  # no registers to keep it in
            gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32) + OFFSET
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]  # first is an int32, interpreted
        valid = rows < M
        here = valid & inside
        z = tl.load(z_ptr + rows * z_stride + columns, mask=here, other=0).to(tl.float32)
        kept = statistics_ptr + rows * (3 if CENTRED else 1)
        rstd = tl.load(kept, mask=valid, other=0)
        standard = _standard(z, rstd, kept, valid, CENTRED)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=here, other=0).to(tl.float32)
        u = dy * gain
        if partials_ptr is not None:
            # llama's gain multiplies the rounded x̂, so dg is of that one.
            rounded = standard.to(z_ptr.dtype.element_ty).to(tl.float32) if ROUND else standard
            dweight += dy * rounded
            if SHIFT:
                dbias += dy
        if sums_ptr is not None:
            ux_mean = tl.load(sums_ptr + 2 * rows, mask=valid, other=0)
        else:
            ux_mean = tl.sum(u * standard, axis=1, keep_dims=True) / N
        dz = u - standard * ux_mean
        if CENTRED:
            if sums_ptr is not None:
                dz -= tl.load(sums_ptr + 2 * rows + 1, mask=valid, other=0)
            else:
                dz -= tl.sum(u, axis=1, keep_dims=True) / N
        dz *= rstd
        if dh_ptr is not None:
            dz += tl.load(dh_ptr + rows * dh_stride + columns, mask=here, other=0).to(tl.float32)
        place = rows * N + columns
        tl.store(dz_ptr + place, dz, mask=here)
        if dskip_ptr is not None:
            tl.store(dskip_ptr + place, dz * alpha, mask=here)
    # No atomics: each program owns its row, so that the same launch gives the same bits.
    if partials_ptr is not None:
        columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        partials_ptr += program.to(tl.int64) * N + columns
        tl.store(partials_ptr, tl.sum(dweight, axis=0), mask=columns < N)
        if SHIFT:
            partials_ptr += tl.num_programs(0).to(tl.int64) * N
            tl.store(partials_ptr, tl.sum(dbias, axis=0), mask=columns < N)


def norm_backward(
    dy: Tensor,
    z: Tensor,
    statistics: Tensor,
    weight: Tensor | None,
    bias: Tensor | None = None,
    dh: Tensor | None = None,
    *,
    learns: bool,
    centred: bool = False,
    dtype: torch.dtype | None = None,
    alpha: float = 1.0,
    skip_dtype: torch.dtype | None = None,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return dz (in `dtype`), dskip (in `skip_dtype`, if requested), dweight, dbias; else empty.

    `statistics` are (…,) for RMSNorm, (…, 3) for LayerNorm (`centred`): see `_standard`. The
    parameter gradients are computed only if `learns`.
    """
    n = z.shape[-1]
    shifts = learns and bias is not None
    dz = allocate_rows(z, dtype)
    # Each empty result is separate, because an operator's results may not share memory. The kernel
    # sums both or only dg: if only a shift learns, dweight is memory for an unused sum.
    dskip = z.new_empty(0) if skip_dtype is None else torch.empty_like(dz, dtype=skip_dtype)
    scaled = bias if weight is None else weight
    dweight = z.new_empty(0) if scaled is None or not learns else torch.empty_like(scaled)
    dbias = z.new_empty(0) if bias is None or not learns else torch.empty_like(bias)
    if is_fake(z):
        return dz, dskip, dweight, dbias
    (dy, m, dy_stride), (z, _, z_stride) = as_rows(dy), as_rows(z)
    dh, _, dh_stride = (None, 0, 0) if dh is None else as_rows(dh)
    weight, tile = pack_parameter(weight), backward_tile(n)
    sums, chunks = None, 1
    alone = dh is None and skip_dtype is None and not centred and not shifts
    whole = whole_tile(n, z.device, dy, z, weight) if alone else None
    if whole is not None:
        tile = whole
    elif is_long(n):
        sums, chunks = torch.empty(m, 2, dtype=torch.float32, device=z.device), -(-n // tile.block)
        launch(
            _row_sums,
            (m,),
            dy,
            z,
            weight,
            statistics,
            sums,
            n,
            dy_stride,
            z_stride,
            CENTRED=centred,
            OFFSET=offset,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    # As many programs as run at once; more would only store more rows to sum.
    fitting = max(1, count_processors(z.device) * tile.per_processor // chunks)
    programs = min(-(-m // tile.rows), fitting)
    partials = make_partials(1 + shifts, programs, n, z.device) if learns else None
    launch(
        _backward,
        (programs, chunks),
        dy,
        dh,
        z,
        weight,
        statistics,
        sums,
        dz,
        None if skip_dtype is None else dskip,
        partials,
        alpha,
        m,
        dy_stride,
        dh_stride,
        z_stride,
        N=n,
        CENTRED=centred,
        OFFSET=offset,
        ROUND=round_first,
        SHIFT=shifts,
        ROWS=tile.rows,
        BLOCK=tile.block,
        STAGES=3 if whole else tile.stages_for(dy, z, dh),
        warps=tile.warps,
        registers=tile.registers,
    )
    if partials is not None:
        column_sums(partials, dweight, dbias if shifts else None)
    return dz, dskip, dweight, dbias
