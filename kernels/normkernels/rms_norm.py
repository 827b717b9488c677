"""RMSNorm: divide each row by its root mean square.

    x̂ = x · rstd      rstd = 1 / sqrt(mean(x²) + eps)      y = g · x̂

    rounding    gain g        what is rounded to x's dtype
    torch       weight        g · x̂, once, at the end
    llama       weight        x̂; then g · x̂ in the wider dtype of weight and x
    gemma       1 + weight    g · x̂, once, at the end

Bytes per value: read x, write y (2s forward, s bytes per value); the backward is in
`norm_backward`, which moves 3s. Sources: Zhang and Sennrich 2019, arXiv 1910.07467; the rounding
orders are those of transformers' Llama and Gemma. Formulas: `labkit.norms.rms_norm`,
`rms_norm_llama`, `rms_norm_gemma`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.checks import check_parameters, check_rows
from normkernels.launch import is_fake, launch
from normkernels.norm_backward import norm_backward
from normkernels.operator import make_differentiable
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
    x_ptr, weight_ptr, y_ptr, rstd_ptr, eps, M, x_stride,
    N: tl.constexpr, OFFSET: tl.constexpr, ROUND: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Normalize ROWS rows; columns beyond the first BLOCK are read twice."""
    # 64 bits: rows times stride may pass 2³¹ in a tensor of a few gigabytes.
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    columns = all_columns(ROWS, BLOCK)
    here = (rows < M) & within(columns, N, BLOCK)
    # Beyond the row 0 is read, which adds nothing to the sum.
    x = tl.load(x_ptr + rows * x_stride + columns, mask=here, other=0).to(tl.float32)
    squares = tl.sum(x * x, axis=1, keep_dims=True)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + rows * x_stride + start + columns, mask=there, other=0)
        squares += tl.sum(more.to(tl.float32) * more.to(tl.float32), axis=1, keep_dims=True)
    rstd = tl.rsqrt(squares / N + eps)
    # Four bytes a row, which save the backward pass a sum over it.
    tl.store(rstd_ptr + rows, rstd, mask=rows < M)
    y = apply_gain(x * rstd, x_ptr, weight_ptr, columns, N, OFFSET, ROUND)
    tl.store(y_ptr + rows * N + columns, y, mask=here)
    for start in range(BLOCK, N, BLOCK):
        there = (rows < M) & within(start + columns, N, BLOCK)
        more = tl.load(x_ptr + rows * x_stride + start + columns, mask=there, other=0)
        standard = more.to(tl.float32) * rstd
        y = apply_gain(standard, x_ptr, weight_ptr, start + columns, N, OFFSET, ROUND)
        tl.store(y_ptr + rows * N + start + columns, y, mask=there)


@triton.jit
def apply_gain(standard, x_ptr, weight_ptr, columns, N, OFFSET: tl.constexpr, ROUND: tl.constexpr):
    """Multiply by the gain in float32; Llama's order first rounds to x's dtype."""
    if ROUND:
        standard = standard.to(x_ptr.dtype.element_ty).to(tl.float32)
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0).to(tl.float32)
        standard *= weight + OFFSET
    return standard


def _launch_forward(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, round_first: bool
) -> tuple[Tensor, Tensor]:
    dtype = x.dtype
    if round_first and weight is not None:
        dtype = torch.promote_types(x.dtype, weight.dtype)
    y = allocate_rows(x, dtype)
    (rstd,) = allocate_statistics(x)
    if not is_fake(x):
        rows, m, stride = as_rows(x)
        n = x.shape[-1]
        tile = forward_tile(n)
        launch(
            _forward,
            (cdiv(m, tile.rows),),
            rows,
            pack_parameter(weight),
            y,
            rstd,
            eps,
            m,
            stride,
            N=n,
            OFFSET=offset,
            ROUND=round_first,
            ROWS=tile.rows,
            BLOCK=tile.block,
            warps=tile.warps,
        )
    return y, rstd


def rms_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    offset: float,
    round_first: bool,
    learns: bool,
) -> tuple[Tensor, Tensor]:
    """Return dx and dweight; dweight is empty unless the gain `learns`."""
    dx, _, dweight, _ = norm_backward(
        dy, x, rstd, weight, learns=learns, offset=offset, round_first=round_first
    )
    return dx, dweight


def _save_inputs(ctx, inputs, output) -> None:
    x, weight, _, ctx.offset, ctx.round_first = inputs
    ctx.save_for_backward(x, weight, output[1])


def _take_gradients(ctx, backward, dy, *_) -> tuple:
    x, weight, rstd = ctx.saved_tensors
    if dy is None:
        return None, None, None, None, None
    learns = weight is not None and ctx.needs_input_grad[1]
    dx, dweight = backward(dy, x, weight, rstd, ctx.offset, ctx.round_first, learns)
    return dx, dweight if learns else None, None, None, None


_rms_norm = make_differentiable(
    "rms_norm", _launch_forward, rms_norm_backward, save=_save_inputs, gradients=_take_gradients
)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float | None = 1e-6) -> Tensor:
    """Scale each row to root mean square 1, with one rounding at the end. Shapes (…, N) and (N,).

    `eps=None` means the machine epsilon of float32, the dtype of all computation, as in torch.
    """
    return _call_rms_norm(
        "rms_norm", x, weight, torch.finfo(torch.float32).eps if eps is None else eps
    )


def rms_norm_llama(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Round the normalized row to x's dtype, then multiply; the result has the wider dtype."""
    return _call_rms_norm("rms_norm_llama", x, weight, eps, round_first=True)


def rms_norm_gemma(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Multiply by 1 + weight, then round once to x's dtype."""
    return _call_rms_norm("rms_norm_gemma", x, weight, eps, offset=1.0)


def _call_rms_norm(
    name: str,
    x: Tensor,
    weight: Tensor | None,
    eps: float,
    offset: float = 0.0,
    round_first: bool = False,
) -> Tensor:
    check_rows(name, x, eps)
    check_parameters(name, x, x.shape[-1], weight=weight)
    return _rms_norm(x, weight, eps, offset, round_first)
