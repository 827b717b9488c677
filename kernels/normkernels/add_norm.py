"""Residual addition and norm in one kernel: two results from one pass over the data.

    h = residual + x      in the wider dtype of the two: the stream
    y = norm(h)           in x's dtype: the next sublayer's input; norm is RMSNorm or LayerNorm

The statistics are of h after rounding to its dtype, as in unfused code, so the backward pass, which
reads h, differentiates the actual computation. `round_sum=False` computes them, and y, from the
unrounded sum; x̂ in the backward pass then has an error of that rounding.

Backward: y and h both carry a gradient, dz = (norm's gradient of dy) + dh, and both terms of the
sum get it: dx = dresidual = dz, each in its dtype. The gradient through h passes no norm. Bytes per
value, s for x and r for the residual: read x and residual, write y and h (2s + 2r forward); read
dy, dh and h, write dz (2s + 2r backward; one more write if the two dtypes differ).

`sum_norm` is more general, h = alpha · residual + x with dresidual = alpha · dz, for `deep_norm`.
Formulas: `normkernels.formulas.add_rms_norm`, `add_layer_norm`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.layer_norm import apply_affine, finish, first_mean, store_moments
from normkernels.norm_backward import norm_backward
from normkernels.operator import make_differentiable
from normkernels.rows import (
    all_columns,
    allocate_moments,
    allocate_rows,
    allocate_statistics,
    as_rows,
    forward_tile,
    pack_parameter,
    within,
)


@triton.jit
def _forward(
    x_ptr, residual_ptr, weight_ptr, bias_ptr, y_ptr, h_ptr, statistics_ptr,
    eps, alpha, M, x_stride, residual_stride,
    N: tl.constexpr, CENTRED: tl.constexpr, ROUND: tl.constexpr,
    OFFSET: tl.constexpr, FIRST: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add and normalize ROWS rows; columns beyond the first BLOCK are read twice."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    x_ptr += rows * x_stride + columns
    residual_ptr += rows * residual_stride + columns
    h_ptr += rows * N + columns
    h = _sum(x_ptr, residual_ptr, h_ptr, alpha, 0, here, ROUND, True)
    mean = tl.zeros((ROWS, 1), tl.float32)
    total = tl.zeros((ROWS, 1), tl.float32)
    if CENTRED:
        mean = first_mean(tl.sum(h, axis=1, keep_dims=True), N, BLOCK)
        h = tl.where(here, h - mean, 0)
        total = tl.sum(h, axis=1, keep_dims=True)
    squares = tl.sum(h * h, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = _sum(x_ptr, residual_ptr, h_ptr, alpha, start, there, ROUND, True)
        if CENTRED:
            more = tl.where(there, more - mean, 0)
            total += tl.sum(more, axis=1, keep_dims=True)
        squares += tl.sum(more * more, axis=1, keep_dims=True)
    missed = total / N
    rstd = finish(squares, missed, eps, N)
    if CENTRED:
        store_moments(statistics_ptr + 3 * rows, rstd, mean, missed, rows < M)
    else:
        tl.store(statistics_ptr + rows, rstd, mask=rows < M)
    standard = h * rstd - missed * rstd
    if FIRST:  # llama's order rounds before the gain
        standard = standard.to(h_ptr.dtype.element_ty).to(tl.float32)
    y = apply_affine(standard, weight_ptr, bias_ptr, columns, N, OFFSET)
    tl.store(y_ptr + rows * N + columns, y, mask=here)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = _sum(x_ptr, residual_ptr, h_ptr, alpha, start, there, ROUND, False)
        standard = (more - mean) * rstd - missed * rstd
        if FIRST:
            standard = standard.to(h_ptr.dtype.element_ty).to(tl.float32)
        y = apply_affine(standard, weight_ptr, bias_ptr, start + columns, N, OFFSET)
        tl.store(y_ptr + rows * N + start + columns, y, mask=there)


@triton.jit
def _sum(
    x_ptr, residual_ptr, h_ptr, alpha, start, here, ROUND: tl.constexpr, STORE: tl.constexpr
):  # fmt: skip
    """Return the sum, rounded as the norm needs it; store it the first time."""
    h = tl.load(residual_ptr + start, mask=here, other=0).to(tl.float32) * alpha
    h += tl.load(x_ptr + start, mask=here, other=0).to(tl.float32)
    # Always rounded, even if the norm reads the unrounded sum, because it is the stream.
    rounded = h.to(h_ptr.dtype.element_ty)
    if STORE:
        tl.store(h_ptr + start, rounded, mask=here)
    if ROUND:
        h = rounded.to(tl.float32)
    return h


def _launch_forward(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    alpha: float,
    centred: bool,
    round_sum: bool,
    widest: bool,
    offset: float,
    round_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = torch.promote_types(x.dtype, residual.dtype)
    h, y = allocate_rows(x, dtype), allocate_rows(x, dtype if widest else x.dtype)
    kept = allocate_moments(x) if centred else allocate_statistics(x)[0]
    if not is_fake(x):
        (rows, m, x_stride), (skip, _, residual_stride) = as_rows(x), as_rows(residual)
        n = x.shape[-1]
        tile = forward_tile(n)
        launch(
            _forward,
            (-(-m // tile.rows),),
            rows,
            skip,
            pack_parameter(weight),
            pack_parameter(bias),
            y,
            h,
            kept,
            eps,
            alpha,
            m,
            x_stride,
            residual_stride,
            N=n,
            CENTRED=centred,
            ROUND=round_sum,
            OFFSET=offset,
            FIRST=round_first,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return y, h, kept


def _launch_backward(
    dy: Tensor,
    dh: Tensor | None,
    h: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    kept: Tensor,
    alpha: float,
    centred: bool,
    learns: bool,
    x_dtype: torch.dtype,
    skip_dtype: torch.dtype | None,
    offset: float,
    round_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return norm_backward(
        dy,
        h,
        kept,
        weight,
        bias,
        dh,
        learns=learns,
        centred=centred,
        dtype=x_dtype,
        alpha=alpha,
        skip_dtype=skip_dtype,
        offset=offset,
        round_first=round_first,
    )


def _save_inputs(ctx, inputs, output) -> None:
    x, residual, weight, bias, _, ctx.alpha, ctx.centred, _, _, *ctx.order = inputs
    ctx.dtypes = x.dtype, residual.dtype
    ctx.save_for_backward(weight, bias, *output[1:])


def _take_gradients(ctx, backward, dy, dh, *_) -> tuple:
    weight, bias, h, kept = ctx.saved_tensors
    x_dtype, skip_dtype = ctx.dtypes
    scales, shifts = ctx.needs_input_grad[2:4]
    dx = dskip = dweight = dbias = None
    if dy is not None:
        # If skip and branch have equal weights, both share one gradient, written once.
        same = x_dtype == skip_dtype and ctx.alpha == 1
        dx, dskip, dweight, dbias = backward(
            dy,
            dh,
            h,
            weight,
            bias,
            kept,
            ctx.alpha,
            ctx.centred,
            scales or shifts,
            x_dtype,
            None if same or not ctx.needs_input_grad[1] else skip_dtype,
            *ctx.order,
        )
        dskip = dx if same else dskip
    elif dh is not None:
        dx, dskip = (
            dh.to(x_dtype),
            dh.to(skip_dtype),
        )  # deep_norm, which has a weight, does not return h
    if not ctx.needs_input_grad[1]:
        dskip = None
    return dx, dskip, dweight if scales else None, dbias if shifts else None, *[None] * 7


# The last five arguments: LayerNorm or not; round the sum first; y as wide as h; the gain's offset;
# round x̂ before the gain.
sum_norm = make_differentiable(
    "sum_norm",
    _launch_forward,
    _launch_backward,
    save=_save_inputs,
    gradients=_take_gradients,
    results=2,
    rowwise=2,
)


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    round_sum: bool = True,
    *,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return (y, h): the normalized stream for the next sublayer, and the stream. Shapes (…, N).

    The gain is weight + `offset` (Gemma: 1); `round_first` rounds x̂ to h's dtype before the gain,
    as Llama does.
    """
    check_rows("add_rms_norm", x, eps, residual=residual)
    check_parameters("add_rms_norm", x, x.shape[-1], weight=weight)
    return sum_norm(
        x, residual, weight, None, eps, 1.0, False, round_sum, False, offset, round_first
    )


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    round_sum: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return (y, h): the normalized stream for the next sublayer, and the stream. Shapes (…, N)."""
    check_rows("add_layer_norm", x, eps, residual=residual)
    check_parameters("add_layer_norm", x, x.shape[-1], weight=weight, bias=bias)
    return sum_norm(x, residual, weight, bias, eps, 1.0, True, round_sum, False, 0.0, False)
