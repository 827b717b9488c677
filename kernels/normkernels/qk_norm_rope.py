"""Norm of queries and keys, gain and rotation (RoPE), in one pass over both.

    x̂ = x · r      rms: r = 1 / sqrt(mean(x²) + eps)      l2: r = 1 / max(|x|, eps)      None: r = 1
    y = scale · R(g · x̂)           R rotates channels i and i + pairs by the position's angle:
                                   (a, b) → (a cos − b sin, a sin + b cos); interleaved, 2i and
                                   2i + 1
    y = scale · g · (R x)^         after_rope: the norm is that of R x (nGPT, nanochat)

over each head's vector of head_dim values, g = weight + offset. All arithmetic is float32, with one
rounding at the end. Bytes per value: read x, write y (2s forward; 3s backward, in
`qk_norm_rope_backward`), while separate norm and rotation take 4s; q and k may be parts of one
packed projection, and are read in place.

The kernel takes cosines and sines, not angles: in float32 an exact cosine of a large angle needs a
slow path through local memory, and each head would repeat it. They are two small tensors that a
model makes once: angles=(cos, sin). If only angles are passed, each call makes them.

Sources: Su et al. 2021, arXiv 2104.09864 (rotation); Henry et al. 2020, arXiv 2010.04245 (l2);
Dehghani et al. 2023, arXiv 2302.05442 (norm of q and k); Loshchilov et al. 2024, arXiv 2410.01131
(nGPT's order). Formula: `labkit.attention.qk_norm_rope`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from normkernels.heads import (
    count_tables,
    inverse_length,
    list_constants,
    load_halves,
    place_angles,
    rows_of,
    see_heads,
    split_halves,
    store_halves,
    turn_halves,
)
from normkernels.launch import is_fake, launch
from normkernels.operator import make_differentiable
from normkernels.qk_norm_rope_backward import qk_norm_rope_backward
from normkernels.qk_norm_rope_inputs import check, make_cos_sin
from normkernels.rows import allocate_rows, pack_parameter
from normkernels.sizes import cdiv


@triton.jit
def _forward(
    q_ptr, k_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, q_out_ptr, k_out_ptr,
    eps, scale, tokens, time, tables, q_strides, k_strides,
    N: tl.constexpr, PAIRS: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr,
    Q_OWN: tl.constexpr, K_OWN: tl.constexpr, HEADS: tl.constexpr, GROUPS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
    NORM: tl.constexpr, AFTER: tl.constexpr, OFFSET: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Process one tile of q or of k; the tiles of the same tokens run in parallel."""
    tile = tl.program_id(0) // GROUPS
    group = tl.program_id(0) % GROUPS
    Q_GROUPS: tl.constexpr = (Q_HEADS + HEADS - 1) // HEADS
    if group < Q_GROUPS:
        _process_tile(
            q_ptr, q_weight_ptr, cos_ptr, sin_ptr, q_out_ptr, eps, scale, tokens, time, tables,
            tile, group, q_strides,
            N, PAIRS, Q_HEADS, Q_OWN, HEADS, ROWS, BLOCK, NORM, AFTER, OFFSET, INTERLEAVED,
        )  # fmt: skip
    else:
        _process_tile(
            k_ptr, k_weight_ptr, cos_ptr, sin_ptr, k_out_ptr, eps, scale, tokens, time, tables,
            tile, group - Q_GROUPS, k_strides,
            N, PAIRS, K_HEADS, K_OWN, HEADS, ROWS, BLOCK, NORM, AFTER, OFFSET, INTERLEAVED,
        )  # fmt: skip


@triton.jit
def _process_tile(
    x_ptr, weight_ptr, cos_ptr, sin_ptr, y_ptr, eps, scale, tokens, time, tables,
    tile, group, strides,
    N: tl.constexpr, PAIRS: tl.constexpr, COUNT: tl.constexpr, OWN: tl.constexpr,
    HEADS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    NORM: tl.constexpr, AFTER: tl.constexpr, OFFSET: tl.constexpr, INTERLEAVED: tl.constexpr,
):  # fmt: skip
    """Load, rotate and normalize in the configured order, and store."""
    batch_stride, time_stride, head_stride = strides
    token, head = rows_of(tile, group, HEADS, ROWS)
    first, second, in_first, in_second, turning = split_halves(N, PAIRS, BLOCK, INTERLEAVED)
    valid = (token < tokens) & (head < COUNT)
    batch = token // time
    # Only factors of a stride need 64 bits.
    position = (token - batch * time).to(tl.int64)
    x_ptr += batch.to(tl.int64) * batch_stride + position * time_stride
    x_ptr += head.to(tl.int64) * head_stride
    a, b = load_halves(x_ptr, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED)
    if cos_ptr is not None:
        place = place_angles(batch, position, time, tables, PAIRS, BLOCK)
        cos = tl.load(cos_ptr + place, mask=valid & turning, other=0)
        sin = tl.load(sin_ptr + place, mask=valid & turning, other=0)
        if AFTER:
            a, b = turn_halves(a, b, cos, sin, turning, N, PAIRS)
    factor = scale
    if NORM is not None:
        inverse, _ = inverse_length(a, b, eps, N, NORM)
        factor *= inverse
    a *= factor
    b *= factor
    if weight_ptr is not None:
        row = head * N if OWN else head * 0  # one for each head, or one for all
        gain_a, gain_b = load_halves(
            weight_ptr + row, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED
        )
        a *= gain_a + OFFSET
        b *= gain_b + OFFSET
    if cos_ptr is not None and not AFTER:
        a, b = turn_halves(a, b, cos, sin, turning, N, PAIRS)
    y_ptr += (token.to(tl.int64) * COUNT + head) * N
    store_halves(y_ptr, a, b, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED)


def _launch_forward(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor | None,
    sin: Tensor | None,
    norm: str | None,
    eps: float,
    after_rope: bool,
    offset: float,
    scale: float,
    interleaved: bool,
) -> tuple[Tensor, Tensor]:
    q_out, k_out = allocate_rows(q), allocate_rows(k)
    if is_fake(q):
        return q_out, k_out
    (q, q_strides), (k, k_strides) = see_heads(q), see_heads(k)
    tokens, time = q.shape[0] * q.shape[1], q.shape[1]
    given = list_constants(q, k, q_weight, k_weight, cos)
    tiles = cdiv(tokens, given["ROWS"] // given["HEADS"])
    launch(
        _forward,
        (tiles * given["GROUPS"],),
        q,
        k,
        pack_parameter(q_weight),
        pack_parameter(k_weight),
        cos,
        sin,
        q_out,
        k_out,
        eps,
        scale,
        tokens,
        time,
        count_tables(cos),
        q_strides,
        k_strides,
        **given,
        NORM=norm,
        AFTER=after_rope,
        OFFSET=offset,
        INTERLEAVED=interleaved,
    )
    return q_out, k_out


def _save_inputs(ctx, inputs, output) -> None:
    tensors, ctx.options = inputs[:6], inputs[6:]
    ctx.save_for_backward(*tensors)


def _take_gradients(ctx, backward, dq, dk, *_) -> tuple:
    q, k, q_weight, k_weight, cos, sin = ctx.saved_tensors
    given_q, given_k = dq is not None, dk is not None
    if not (given_q or given_k):
        return (None,) * 12
    learns_q = given_q and q_weight is not None and ctx.needs_input_grad[2]
    learns_k = given_k and k_weight is not None and ctx.needs_input_grad[3]
    dq, dk, dq_weight, dk_weight = backward(
        # Only one of q and k may have been used: the other's gradient counts as 0.
        dq if given_q else torch.zeros_like(q),
        dk if given_k else torch.zeros_like(k),
        q,
        k,
        q_weight,
        k_weight,
        cos,
        sin,
        *ctx.options,
        learns_q,
        learns_k,
    )
    return (
        dq if given_q else None,
        dk if given_k else None,
        dq_weight if learns_q else None,
        dk_weight if learns_k else None,
        *(None,) * 8,
    )


_qk_norm_rope = make_differentiable(
    "qk_norm_rope",
    _launch_forward,
    qk_norm_rope_backward,
    save=_save_inputs,
    gradients=_take_gradients,
    results=2,
    rowwise=2,
)


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    angles: Tensor | tuple[Tensor, Tensor] | None = None,
    *,
    norm: str | None = "rms",
    eps: float = 1e-6,
    after_rope: bool = False,
    offset: float = 0.0,
    scale: float = 1.0,
    interleaved: bool = False,
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate q (…, time, heads, head_dim) and k (…, time, kv_heads, head_dim).

    Gains are (head_dim,), shared by all heads, or (heads, head_dim). `angles` are radians (time,
    pairs), or (batch, time, pairs) if positions differ by sequence, or their (cos, sin), which
    saves two small kernels per call; with 2·pairs < head_dim only the first 2·pairs channels are
    rotated. Channel i rotates with channel i + pairs or, if `interleaved`, channel 2i with
    2i + 1. Any strides are allowed; the results are dense.
    """
    check(q, k, q_weight, k_weight, norm, eps)
    cos, sin = make_cos_sin(q, angles)
    options = norm, eps, after_rope, offset, scale, interleaved
    return _qk_norm_rope(q, k, q_weight, k_weight, cos, sin, *options)
