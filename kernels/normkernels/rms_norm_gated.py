"""RMSNorm whose result is multiplied by a gate: the output norm of linear attention.

    x̂ = x · rstd      rstd = 1 / sqrt(mean(x²) + eps)      y = g · x̂ · s(z)      s(z) = z · σ(z)

z is the gate, from a projection of its own. One rounding at the end; `round_first` rounds x̂ and
g · x̂ too, as Qwen3-Next does. With u = g · s(z) · dy and s′(z) = σ(z) + s(z) · (1 − σ(z)):

    dx = rstd · (u − x̂ · mean(u · x̂))      dz = dy · g · x̂ · s′(z)      dg = Σ_rows dy · s(z) · x̂

Bytes per value: read x and z, write y (3s forward); read dy, x and z, write dx and dz (5s
backward), then 8·P·N for the gain of P programs: see `norm_backward`. Rows are heads or short
groups, of up to 8192 values: a whole row is in registers.

Sources: transformers' Qwen3NextRMSNormGated; Yang et al. 2024, arXiv 2412.06464 (Gated DeltaNet).
Formula: `normkernels.formulas.rms_norm_gated`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import count_processors, is_fake, launch
from normkernels.operator import make_differentiable
from normkernels.partials import column_sums, make_partials
from normkernels.rms_norm import apply_gain
from normkernels.rows import (
    all_columns,
    allocate_rows,
    allocate_statistics,
    as_rows,
    backward_tile,
    forward_tile,
    is_long,
    pack_parameter,
    within,
)
from normkernels.sizes import cdiv


@triton.jit
def _forward(
    x_ptr, gate_ptr, weight_ptr, y_ptr, rstd_ptr, eps, M, x_stride, gate_stride,
    N: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Normalize and gate ROWS whole rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    gate = tl.load(gate_ptr + rows * gate_stride + columns, mask=here, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, axis=1, keep_dims=True) / N + eps)
    tl.store(rstd_ptr + rows, rstd, mask=rows < M)
    y = apply_gain(x * rstd, x_ptr, weight_ptr, columns, N, 0.0, FIRST)
    if FIRST and weight_ptr is not None:  # noqa: SIM102 (without a weight it has no dtype)
        # The product of two different dtypes is float32.
        if weight_ptr.dtype.element_ty == x_ptr.dtype.element_ty:
            y = y.to(x_ptr.dtype.element_ty).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, y * (gate * tl.sigmoid(gate)), mask=here)


@triton.jit
def _backward(
    dy_ptr, x_ptr, gate_ptr, weight_ptr, rstd_ptr, dx_ptr, dgate_ptr, partials_ptr,
    M, dy_stride, x_stride, gate_stride,
    N: tl.constexpr, FIRST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Process this program's share of the rows, ROWS at a time; store its partial row of dg."""
    program = tl.program_id(0).to(tl.int64)
    columns = all_columns(ROWS, BLOCK)
    inside = within(columns, N, BLOCK)
    gain = tl.full((ROWS, BLOCK), 1.0, tl.float32)
    if weight_ptr is not None:
        gain = tl.load(weight_ptr + columns, mask=inside, other=0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in tl.range(program * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = first + tl.arange(0, ROWS).to(tl.int64)[:, None]
        valid = rows < M
        here = valid & inside
        x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=here, other=0).to(tl.float32)
        gate = tl.load(gate_ptr + rows * gate_stride + columns, mask=here, other=0).to(tl.float32)
        rstd = tl.load(rstd_ptr + rows, mask=valid, other=0)
        standard = x * rstd
        rounded = standard.to(x_ptr.dtype.element_ty).to(tl.float32) if FIRST else standard
        sigma = tl.sigmoid(gate)
        silu = gate * sigma
        place = rows * N + columns
        dgate = dy * gain * rounded * (sigma + silu * (1 - sigma))
        tl.store(dgate_ptr + place, dgate, mask=here)
        dy *= silu
        if partials_ptr is not None:
            dweight += dy * rounded
        u = dy * gain
        dx = rstd * (u - standard * (tl.sum(u * standard, axis=1, keep_dims=True) / N))
        tl.store(dx_ptr + place, dx, mask=here)
    if partials_ptr is not None:
        columns = tl.arange(0, BLOCK)
        tl.store(partials_ptr + program * N + columns, tl.sum(dweight, axis=0), mask=columns < N)


def _launch_forward(
    x: Tensor, gate: Tensor, weight: Tensor | None, eps: float, round_first: bool
) -> tuple[Tensor, Tensor]:
    y = allocate_rows(x)
    (rstd,) = allocate_statistics(x)
    if not is_fake(x):
        (rows, m, stride), (gates, _, gate_stride) = as_rows(x), as_rows(gate)
        n = x.shape[-1]
        tile = forward_tile(n)
        launch(
            _forward,
            (cdiv(m, tile.rows),),
            rows,
            gates,
            pack_parameter(weight),
            y,
            rstd,
            eps,
            m,
            stride,
            gate_stride,
            N=n,
            FIRST=round_first,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return y, rstd


def _launch_backward(
    dy: Tensor,
    x: Tensor,
    gate: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    round_first: bool,
    learns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dgate = allocate_rows(x), allocate_rows(gate)
    dweight = x.new_empty(0) if weight is None or not learns else torch.empty_like(weight)
    if is_fake(x):
        return dx, dgate, dweight
    (dy, m, dy_stride), (x, _, x_stride) = as_rows(dy), as_rows(x)
    gate, _, gate_stride = as_rows(gate)
    n = x.shape[-1]
    tile = backward_tile(n)
    programs = min(cdiv(m, tile.rows), count_processors(x.device) * tile.per_processor)
    partials = make_partials(1, programs, n, x.device) if learns else None
    launch(
        _backward,
        (programs,),
        dy,
        x,
        gate,
        pack_parameter(weight),
        rstd,
        dx,
        dgate,
        partials,
        m,
        dy_stride,
        x_stride,
        gate_stride,
        N=n,
        FIRST=round_first,
        ROWS=tile.rows,
        BLOCK=tile.block,
        STAGES=tile.stages_for(dy, x, gate),
        warps=tile.warps,
        registers=tile.registers,
    )
    if partials is not None:
        column_sums(partials, dweight)
    return dx, dgate, dweight


def _save_inputs(ctx, inputs, output) -> None:
    x, gate, weight, _, ctx.round_first = inputs
    ctx.save_for_backward(x, gate, weight, output[1])


def _take_gradients(ctx, backward, dy, *_) -> tuple:
    x, gate, weight, rstd = ctx.saved_tensors
    if dy is None:
        return (None,) * 5
    learns = weight is not None and ctx.needs_input_grad[2]
    dx, dgate, dweight = backward(dy, x, gate, weight, rstd, ctx.round_first, learns)
    return dx, dgate, dweight if learns else None, None, None


_rms_norm_gated = make_differentiable(
    "rms_norm_gated",
    _launch_forward,
    _launch_backward,
    save=_save_inputs,
    gradients=_take_gradients,
    rowwise=2,
)


def rms_norm_gated(
    x: Tensor,
    gate: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    round_first: bool = False,
) -> Tensor:
    """Return RMSNorm(x) · silu(gate). Shapes (…, N), N up to 8192, in x's dtype.

    `round_first` rounds x̂, and its product with the gain, to their dtype, as Qwen3-Next does.
    """
    check_rows("rms_norm_gated", x, eps, gate=gate)
    check_parameters("rms_norm_gated", x, x.shape[-1], weight=weight)
    if is_long(x.shape[-1]):
        raise ValueError(
            f"kernel rms_norm_gated supports rows of up to 8192 values, got {x.shape[-1]}; use "
            "normkernels.formulas.rms_norm_gated"
        )
    return _rms_norm_gated(x, gate, weight, eps, round_first)
