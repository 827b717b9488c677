"""LayerNorm: centre each row and divide it by its standard deviation.

    x̂ = (x − mean(x)) · rstd      rstd = 1 / sqrt(var(x) + eps)      y = g · x̂ + b

The variance is of the centred row, never mean(x²) − mean(x)², which loses every digit if the mean
is large. A float32 mean is rounded at the size of x; its error, mean(x − mean), is computed
together with the squares, subtracted, and stored next to it:

    c = x − mean      missed = mean(c)      var = mean(c²) − missed²      x̂ = (c − missed) · rstd

These equations hold for any number near the mean. For rows in chunks that number is the mean of the
first chunk, a quarter of the row or more: then missed² is at most three times the variance.

Bytes per value: read x, write y (2s forward, s bytes per value), and 12 per row; the backward is in
`norm_backward`, which moves 3s. Source: Ba, Kiros and Hinton 2016, arXiv 1607.06450. Formula:
`labkit.norms.layer_norm`.
"""

import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.norm_backward import norm_backward
from normkernels.operator import make_differentiable
from normkernels.rows import (
    all_columns,
    allocate_moments,
    allocate_rows,
    as_rows,
    centred_tile,
    pack_parameter,
    within,
)


@triton.jit
def _forward(
    x_ptr, weight_ptr, bias_ptr, y_ptr, moments_ptr, eps, M, x_stride,
    N: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Normalize ROWS rows; columns beyond the first BLOCK are read twice."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    mean = first_mean(tl.sum(x, axis=1, keep_dims=True), N, BLOCK)
    # Beyond the row x is 0 but x − mean is not: without the mask it would count.
    centred = tl.where(here, x - mean, 0)
    total = tl.sum(centred, axis=1, keep_dims=True)
    squares = tl.sum(centred * centred, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + rows * x_stride + start + columns, mask=there, other=0)
        more = tl.where(there, more.to(tl.float32) - mean, 0)
        total += tl.sum(more, axis=1, keep_dims=True)
        squares += tl.sum(more * more, axis=1, keep_dims=True)
    missed = total / N
    rstd = finish(squares, missed, eps, N)
    store_moments(moments_ptr + 3 * rows, rstd, mean, missed, rows < M)
    # missed · rstd is one number per row, which leaves one multiply-add per value.
    y = apply_affine(centred * rstd - missed * rstd, weight_ptr, bias_ptr, columns, N, 0.0)
    tl.store(y_ptr + rows * N + columns, y, mask=here)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + rows * x_stride + start + columns, mask=there, other=0)
        standard = (more.to(tl.float32) - mean) * rstd - missed * rstd
        y = apply_affine(standard, weight_ptr, bias_ptr, start + columns, N, 0.0)
        tl.store(y_ptr + rows * N + start + columns, y, mask=there)


@triton.jit
def first_mean(total, N: tl.constexpr, BLOCK: tl.constexpr):
    """Return the rounded mean of a row's first chunk, the number that is subtracted and stored.

    Triton's own division is a product with a reciprocal, which the assembler fuses with the next
    subtraction (on a GPU, not in the interpreter): x would be centred by an unrounded mean, and by
    the rounded one in the backward pass.
    """
    return tl.div_rn(total, (N if N < BLOCK else BLOCK) * 1.0)


@triton.jit
def finish(squares, missed, eps, N):
    """Return rstd from the sum of squares around a number that is off the mean by `missed`."""
    # For equal values both terms are 0 up to rounding, so the difference may be negative.
    return tl.rsqrt(tl.maximum(squares / N - missed * missed, 0) + eps)


@triton.jit
def store_moments(moments_ptr, rstd, mean, missed, valid):
    """Store the three numbers per row that `norm_backward` needs."""
    tl.store(moments_ptr, rstd, mask=valid)
    tl.store(moments_ptr + 1, mean, mask=valid)
    tl.store(moments_ptr + 2, missed, mask=valid)


@triton.jit
def apply_affine(standard, weight_ptr, bias_ptr, columns, N, OFFSET: tl.constexpr):
    """Apply gain (weight + OFFSET) and shift, if given, in float32."""
    if weight_ptr is not None:
        gain = tl.load(weight_ptr + columns, mask=columns < N, other=0).to(tl.float32)
        if OFFSET != 0:
            gain += OFFSET
        standard *= gain
    if bias_ptr is not None:
        standard += tl.load(bias_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    return standard


def _launch_forward(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    y, statistics = allocate_rows(x), allocate_moments(x)
    if not is_fake(x):
        rows, m, stride = as_rows(x)
        n = x.shape[-1]
        tile = centred_tile(n)
        launch(
            _forward,
            (-(-m // tile.rows),),
            rows,
            pack_parameter(weight),
            pack_parameter(bias),
            y,
            statistics,
            eps,
            m,
            stride,
            N=n,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return y, statistics


def _launch_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    statistics: Tensor,
    learns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    dx, _, dweight, dbias = norm_backward(
        dy, x, statistics, weight, bias, centred=True, learns=learns
    )
    return dx, dweight, dbias


def _save_inputs(ctx, inputs, output) -> None:
    x, weight, bias, _ = inputs
    ctx.save_for_backward(x, weight, bias, output[1])


def _take_gradients(ctx, backward, dy, *_) -> tuple:
    x, weight, bias, statistics = ctx.saved_tensors
    if dy is None:
        return None, None, None, None
    scales, shifts = ctx.needs_input_grad[1:3]
    dx, dweight, dbias = backward(dy, x, weight, bias, statistics, scales or shifts)
    return dx, dweight if scales else None, dbias if shifts else None, None


_layer_norm = make_differentiable(
    "layer_norm", _launch_forward, _launch_backward, save=_save_inputs, gradients=_take_gradients
)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Centre each row, scale it to variance 1, and round once, at the end. Shapes (…, N), (N,)."""
    check_rows("layer_norm", x, eps)
    check_parameters("layer_norm", x, x.shape[-1], weight=weight, bias=bias)
    return _layer_norm(x, weight, bias, eps)
