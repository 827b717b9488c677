"""Shared code of `dynamic_tanh` and `dynamic_erf`: an elementwise curve with scale and shift.

    z = α · x + s      y = g · f(z) + b      f = tanh, with s = 0, or erf

α and s are numbers, or tensors on the device with one element, which the kernels read there. Rows
have no statistics: programs process chunks of columns at any length. Bytes per value: read x, write
y (2s forward; 3s backward, in `squash_backward`).
"""

from collections.abc import Callable
from functools import cache

import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows, check_tensor
from normkernels.curves import evaluate_curve, read_number
from normkernels.launch import is_fake, launch
from normkernels.operator import make_differentiable
from normkernels.rows import Tile, allocate_rows, as_rows, pack_parameter
from normkernels.sizes import cdiv, next_power_of_2
from normkernels.squash_backward import squash_backward


@triton.jit
def _forward(
    x_ptr, alpha_ptr, shift_ptr, weight_ptr, bias_ptr, y_ptr, alpha, shift, M, x_stride,
    N: tl.constexpr, ERF: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Squash ROWS rows in one chunk of columns."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    here = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    y, _ = evaluate_curve(read_number(alpha_ptr, alpha) * x + read_number(shift_ptr, shift), ERF)
    if weight_ptr is not None:
        y *= tl.load(weight_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    if bias_ptr is not None:
        y += tl.load(bias_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, y, mask=here)


@cache
def _forward_tile(n: int) -> Tile:
    """Choose a tile of several rows, so that gain and shift are loaded once for all of them."""
    block = min(1024, next_power_of_2(n))
    return Tile(4 if block == 1024 else 2048 // block, block, 4)


def make_squash_function(name: str, erf: bool) -> Callable[..., Tensor]:
    """Make the function of one curve: (x, alpha, shift, weight, bias) -> y, with its gradients."""

    def forward(
        x: Tensor,
        alpha: Tensor | None,
        slope: float,
        shift: Tensor | None,
        offset: float,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        y = allocate_rows(x)
        if not is_fake(x):
            (rows, m, stride), n = as_rows(x), x.shape[-1]
            tile = _forward_tile(n)
            launch(
                _forward,
                (cdiv(m, tile.rows), cdiv(n, tile.block)),
                rows,
                alpha,
                shift,
                pack_parameter(weight),
                pack_parameter(bias),
                y,
                slope,
                offset,
                m,
                stride,
                N=n,
                ERF=erf,
                ROWS=tile.rows,
                BLOCK=tile.block,
                warps=tile.warps,
            )
        return y, x.new_empty(0)

    def backward(
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
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        return squash_backward(
            dy, x, alpha, slope, shift, offset, weight, bias, learns, steers, erf
        )

    inner = make_differentiable(
        name, forward, backward, save=_save_inputs, gradients=_take_gradients
    )

    def call(
        x: Tensor,
        alpha: Tensor | float,
        shift: Tensor | float,
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> Tensor:
        check_rows(name, x)
        check_parameters(name, x, x.shape[-1], weight=weight, bias=bias)
        slope, offset = (
            _split_number(name, "alpha", alpha, x),
            _split_number(name, "shift", shift, x),
        )
        return inner(x, *slope, *offset, weight, bias)

    return call


def _save_inputs(ctx, inputs, output) -> None:
    x, alpha, ctx.slope, shift, ctx.offset, weight, bias = inputs
    ctx.save_for_backward(x, alpha, shift, weight, bias)


def _take_gradients(ctx, backward, dy, *_) -> tuple:
    if dy is None:
        return (None,) * 7
    x, alpha, shift, weight, bias = ctx.saved_tensors
    needs = ctx.needs_input_grad
    learns, steers = needs[5] or needs[6], needs[1] or needs[3]
    dx, dweight, dbias, dalpha, dshift = backward(
        dy, x, alpha, ctx.slope, shift, ctx.offset, weight, bias, learns, steers
    )
    grads = (dx, dalpha, None, dshift, None, dweight, dbias)
    return tuple(grad if need else None for grad, need in zip(grads, needs, strict=True))


def _split_number(
    name: str, role: str, value: Tensor | float, x: Tensor
) -> tuple[Tensor | None, float]:
    """Split a tensor or number into a tensor (or None) and a number; a tensor takes precedence."""
    if not isinstance(value, Tensor):
        return None, float(value)
    check_tensor(name, role, value, x)
    if value.numel() != 1:
        raise ValueError(
            f"kernel {name} needs a single number as {role}, shared by all features, got shape "
            f"{tuple(value.shape)}"
        )
    return value, 0.0
