"""RMSNorm of a sublayer's output, the residual addition, and the next RMSNorm in one kernel.

    h = residual + norm(x)     `rms_norm_add`: OLMo 2
    y = next_norm(h)           `rms_norm_add_norm` returns it too: the sandwich of Gemma 2 and 3

In half precision norm(x) is rounded to x's dtype, also where the weight is wider, h to the wider
dtype of x and residual, and y to h's dtype, as in unfused code. Bytes per value, if s is the size
of every value: read x and residual, write h and y (3s for `rms_norm_add`, 4s for the pair), while
separate kernels move 5s and 7s.

The backward pass has no kernel of its own. The residual's gradient is h's total gradient; only x's
passes a norm. `norm_backward` runs once for `rms_norm_add` (3s) and twice for the pair (4s + 3s):

    dz = (next_norm's gradient of dy) + dh        dresidual = dz        dx = norm's gradient of dz

Sources: OLMo team 2025, arXiv 2501.00656; Gemma team 2024, arXiv 2408.00118. Formulas:
`normkernels.formulas.rms_norm_add`, `rms_norm_add_norm`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.norm_backward import norm_backward
from normkernels.operator import make_differentiable
from normkernels.rms_norm import apply_gain, rms_norm_backward
from normkernels.rows import (
    all_columns,
    allocate_rows,
    allocate_statistics,
    as_rows,
    forward_tile,
    pack_parameter,
    within,
)
from normkernels.sizes import cdiv


@triton.jit
def _forward(
    x_ptr, residual_ptr, weight_ptr, next_weight_ptr, h_ptr, y_ptr, rstd_ptr, next_rstd_ptr,
    eps, M, x_stride, residual_stride,
    N: tl.constexpr, OFFSET: tl.constexpr, FIRST: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Process ROWS rows; columns beyond the first BLOCK are read twice, or three times with y."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    x_ptr += rows * x_stride + columns
    residual_ptr += rows * residual_stride + columns
    h_ptr += rows * N + columns
    x = tl.load(x_ptr, mask=here, other=0).to(tl.float32)
    squares = tl.sum(x * x, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + start, mask=there, other=0).to(tl.float32)
        squares += tl.sum(more * more, axis=1, keep_dims=True)
    rstd = tl.rsqrt(squares / N + eps)
    tl.store(rstd_ptr + rows, rstd, mask=rows < M)
    h = _add_norm(x, rstd, weight_ptr, residual_ptr, x_ptr, h_ptr, columns, here, N, OFFSET, FIRST)
    tl.store(h_ptr, h, mask=here)
    squares = tl.sum(h * h, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + start, mask=there, other=0).to(tl.float32)
        more = _add_norm(
            more, rstd, weight_ptr, residual_ptr + start, x_ptr, h_ptr, start + columns, there,
            N, OFFSET, FIRST,
        )  # fmt: skip
        tl.store(h_ptr + start, more, mask=there)
        squares += tl.sum(more * more, axis=1, keep_dims=True)
    if y_ptr is not None:
        y_ptr += rows * N + columns
        next_rstd = tl.rsqrt(squares / N + eps)
        tl.store(next_rstd_ptr + rows, next_rstd, mask=rows < M)
        y = apply_gain(h * next_rstd, h_ptr, next_weight_ptr, columns, N, OFFSET, FIRST)
        tl.store(y_ptr, y, mask=here)
        for start in range(BLOCK, N, BLOCK):
            there = (rows < M) & within(start + columns, N, BLOCK)
            more = tl.load(x_ptr + start, mask=there, other=0).to(tl.float32)
            more = _add_norm(
                more, rstd, weight_ptr, residual_ptr + start, x_ptr, h_ptr, start + columns, there,
                N, OFFSET, FIRST,
            )  # fmt: skip
            more *= next_rstd
            y = apply_gain(more, h_ptr, next_weight_ptr, start + columns, N, OFFSET, FIRST)
            tl.store(y_ptr + start, y, mask=there)


@triton.jit
def _add_norm(
    x, rstd, weight_ptr, residual_ptr, x_ptr, h_ptr, columns, here,
    N: tl.constexpr, OFFSET: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """Return residual + norm(x) in float32, after both roundings."""
    norm = apply_gain(x * rstd, x_ptr, weight_ptr, columns, N, OFFSET, FIRST)
    h = norm.to(x_ptr.dtype.element_ty).to(tl.float32)
    h += tl.load(residual_ptr, mask=here, other=0).to(tl.float32)
    return h.to(h_ptr.dtype.element_ty).to(tl.float32)


def _start(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    next_weight: Tensor | None,
    eps: float,
    offset: float,
    round_first: bool,
    normalizes: bool,
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """Return h, y and the norms' reciprocal roots; without a next norm, y and its root are None."""
    h = allocate_rows(x, torch.promote_types(x.dtype, residual.dtype))
    y = allocate_rows(h) if normalizes else None
    rstd, *more = allocate_statistics(x, 1 + normalizes)
    next_rstd = more[0] if more else None
    if not is_fake(x):
        (rows, m, x_stride), (skip, _, residual_stride) = as_rows(x), as_rows(residual)
        n = x.shape[-1]
        tile = forward_tile(n)
        launch(
            _forward,
            (cdiv(m, tile.rows),),
            rows,
            skip,
            pack_parameter(weight),
            pack_parameter(next_weight),
            h,
            y,
            rstd,
            next_rstd,
            eps,
            m,
            x_stride,
            residual_stride,
            N=n,
            OFFSET=offset,
            FIRST=round_first,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return h, y, rstd, next_rstd


def _launch_add(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    eps: float,
    offset: float,
    round_first: bool,
) -> tuple[Tensor, Tensor]:
    h, _, rstd, _ = _start(x, residual, weight, None, eps, offset, round_first, False)
    return h, rstd


def _save_add(ctx, inputs, output) -> None:
    x, residual, weight, _, *ctx.order = inputs
    ctx.skip_dtype = residual.dtype
    ctx.save_for_backward(x, weight, output[1])


def _take_add_gradients(ctx, backward, dh, *_) -> tuple:
    x, weight, rstd = ctx.saved_tensors
    if dh is None:
        return (None,) * 6
    learns = weight is not None and ctx.needs_input_grad[2]
    dx, dweight = backward(dh, x, weight, rstd, *ctx.order, learns)
    skips = ctx.needs_input_grad[1]
    return dx, dh.to(ctx.skip_dtype) if skips else None, dweight if learns else None, *[None] * 3


_rms_norm_add = make_differentiable(
    "rms_norm_add",
    _launch_add,
    rms_norm_backward,
    save=_save_add,
    gradients=_take_add_gradients,
    rowwise=2,
)


def _launch_pair(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None,
    next_weight: Tensor | None,
    eps: float,
    offset: float,
    round_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    h, y, rstd, next_rstd = _start(x, residual, weight, next_weight, eps, offset, round_first, True)
    assert y is not None and next_rstd is not None
    return y, h, rstd, next_rstd


def _launch_pair_backward(
    dy: Tensor | None,
    dh: Tensor | None,
    x: Tensor,
    h: Tensor,
    weight: Tensor | None,
    next_weight: Tensor | None,
    rstd: Tensor,
    next_rstd: Tensor,
    offset: float,
    round_first: bool,
    learns: bool,
    next_learns: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if dy is None:  # only h was used: the next norm has no part in the result
        assert dh is not None
        dx, dweight = rms_norm_backward(dh, x, weight, rstd, offset, round_first, learns)
        return dx, h.new_empty(0), dweight, h.new_empty(0)
    dz, _, dnext_weight, _ = norm_backward(
        dy,
        h,
        next_rstd,
        next_weight,
        dh=dh,
        learns=next_learns,
        offset=offset,
        round_first=round_first,
    )
    dx, dweight = rms_norm_backward(dz, x, weight, rstd, offset, round_first, learns)
    return dx, dz, dweight, dnext_weight


def _save_pair(ctx, inputs, output) -> None:
    x, residual, weight, next_weight, _, *ctx.order = inputs
    _, h, rstd, next_rstd = output
    ctx.skip_dtype = residual.dtype
    ctx.save_for_backward(x, h, weight, next_weight, rstd, next_rstd)


def _take_pair_gradients(ctx, backward, dy, dh, *_) -> tuple:
    x, h, weight, next_weight, rstd, next_rstd = ctx.saved_tensors
    if dy is None and dh is None:
        return (None,) * 7
    learns = weight is not None and ctx.needs_input_grad[2]
    next_learns = dy is not None and next_weight is not None and ctx.needs_input_grad[3]
    dx, dz, dweight, dnext_weight = backward(
        dy,
        dh,
        x,
        h,
        weight,
        next_weight,
        rstd,
        next_rstd,
        *ctx.order,
        learns,
        next_learns,
    )
    dz = dh if dy is None else dz
    return (
        dx,
        dz.to(ctx.skip_dtype) if ctx.needs_input_grad[1] else None,
        dweight if learns else None,
        dnext_weight if next_learns else None,
        *[None] * 3,
    )


_rms_norm_add_norm = make_differentiable(
    "rms_norm_add_norm",
    _launch_pair,
    _launch_pair_backward,
    save=_save_pair,
    gradients=_take_pair_gradients,
    results=2,
    rowwise=2,
)


def rms_norm_add(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    offset: float = 0.0,
    round_first: bool = False,
) -> Tensor:
    """Return residual + RMSNorm(x), the stream, of shape (…, N) and in the wider dtype.

    The gain is weight + `offset` (Gemma: 1); `round_first` rounds x̂ before the gain, as Llama does.
    """
    check_rows("rms_norm_add", x, eps, residual=residual)
    check_parameters("rms_norm_add", x, x.shape[-1], weight=weight)
    return _rms_norm_add(x, residual, weight, eps, offset, round_first)


def rms_norm_add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    next_weight: Tensor | None = None,
    eps: float = 1e-6,
    *,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return (y, h): h = residual + RMSNorm(x), and its RMSNorm y with weight `next_weight`.

    Both have shape (…, N) and the wider dtype. Both norms have the same eps, `offset` and rounding
    order: see `rms_norm_add`.
    """
    check_rows("rms_norm_add_norm", x, eps, residual=residual)
    check_parameters("rms_norm_add_norm", x, x.shape[-1], weight=weight, next_weight=next_weight)
    return _rms_norm_add_norm(x, residual, weight, next_weight, eps, offset, round_first)
