"""The backward pass of `qk_norm_rope`: all gradients from one pass over the data.

Rᵀ is the transposed rotation: the same rotation with −sin. With v the gradient of g·x̂ and u = g ·
v that of x̂ = r · x (rms: r = 1 / sqrt(mean(x²) + eps); l2: r = 1 / max(|x|, eps)):

    norm before the rotation       v = scale · Rᵀ dy      dx = D(u)
    norm after the rotation        v = scale · dy         dx = Rᵀ D(u), and x̂ is that of R x
    dg = Σ_rows v · x̂

    rms                  D(u) = r · (u − x̂ · mean(u · x̂))
    l2, |x| ≥ eps        D(u) = r · (u − x̂ · sum(u · x̂))        as dr/dx = −r³ x, without the mean
    l2, |x| < eps        D(u) = u / eps                          the divisor is constant there
    None                 D(u) = u

r costs one sum over values that are read in any case, so it is recomputed, not saved. Bytes per
value: read dy and x, write dx (3s).

A fixed number of programs processes the tokens, each with its own group of heads, and keeps dg in
float32 registers until its last token. It stores one row of sums per head; these rows are then
summed over programs (one gain per head), or over programs and heads (a shared gain).
"""

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
from normkernels.launch import count_processors, is_fake, launch
from normkernels.partials import column_sums, make_partials
from normkernels.rows import allocate_rows, pack_parameter
from normkernels.sizes import cdiv

_PER_PROCESSOR = 4


@triton.jit
def _backward(
    dq_out_ptr, dk_out_ptr, q_ptr, k_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr,
    dq_ptr, dk_ptr, q_partials_ptr, k_partials_ptr, eps, scale, tokens, time, tables,
    dq_out_strides, dk_out_strides, q_strides, k_strides,
    N: tl.constexpr, PAIRS: tl.constexpr, Q_HEADS: tl.constexpr, K_HEADS: tl.constexpr,
    Q_OWN: tl.constexpr, K_OWN: tl.constexpr, HEADS: tl.constexpr, GROUPS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
    NORM: tl.constexpr, AFTER: tl.constexpr, OFFSET: tl.constexpr, INTERLEAVED: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Process the tokens of one group of heads, of q or of k."""
    group = tl.program_id(0) % GROUPS
    Q_GROUPS: tl.constexpr = (Q_HEADS + HEADS - 1) // HEADS
    if group < Q_GROUPS:
        _walk(
            dq_out_ptr, q_ptr, q_weight_ptr, cos_ptr, sin_ptr, dq_ptr, q_partials_ptr,
            eps, scale, tokens, time, tables, group, dq_out_strides, q_strides,
            N, PAIRS, Q_HEADS, Q_OWN, HEADS, GROUPS, ROWS, BLOCK,
            NORM, AFTER, OFFSET, INTERLEAVED, STAGES,
        )  # fmt: skip
    else:
        _walk(
            dk_out_ptr, k_ptr, k_weight_ptr, cos_ptr, sin_ptr, dk_ptr, k_partials_ptr,
            eps, scale, tokens, time, tables, group - Q_GROUPS, dk_out_strides, k_strides,
            N, PAIRS, K_HEADS, K_OWN, HEADS, GROUPS, ROWS, BLOCK,
            NORM, AFTER, OFFSET, INTERLEAVED, STAGES,
        )  # fmt: skip


@triton.jit
def _walk(
    dy_ptr, x_ptr, weight_ptr, cos_ptr, sin_ptr, dx_ptr, partials_ptr,
    eps, scale, tokens, time, tables, group, dy_strides, x_strides,
    N: tl.constexpr, PAIRS: tl.constexpr, COUNT: tl.constexpr, OWN: tl.constexpr,
    HEADS: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    NORM: tl.constexpr, AFTER: tl.constexpr, OFFSET: tl.constexpr, INTERLEAVED: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """Store the gradients of a group of heads, and one row of dg per head.

    Strides are those of batch, time and head.
    """
    dy_batch, dy_time, dy_head = dy_strides
    x_batch, x_time, x_head = x_strides
    program = tl.program_id(0) // GROUPS
    programs = tl.num_programs(0) // GROUPS
    first, second, in_first, in_second, turning = split_halves(N, PAIRS, BLOCK, INTERLEAVED)
    _, head = rows_of(0, group, HEADS, ROWS)
    real = head < COUNT
    gain_a = tl.full((ROWS, BLOCK), 1.0, tl.float32)
    gain_b = gain_a
    if weight_ptr is not None:
        row = head * N if OWN else head * 0  # one for each head, or one for all
        gain_a, gain_b = load_halves(
            weight_ptr + row, real, first, second, in_first, in_second, N, BLOCK, INTERLEAVED
        )
        gain_a += OFFSET
        gain_b += OFFSET
    gain_a *= scale
    gain_b *= scale
    total_a = tl.zeros((ROWS, BLOCK), tl.float32)
    total_b = tl.zeros((ROWS, BLOCK), tl.float32)
    for tile in tl.range(program, tl.cdiv(tokens, ROWS // HEADS), programs, num_stages=STAGES):
        token, _ = rows_of(tile, group, HEADS, ROWS)
        valid = (token < tokens) & real
        batch = (token // time).to(tl.int64)
        position = token - batch * time
        x_row = x_ptr + batch * x_batch + position * x_time + head.to(tl.int64) * x_head
        dy_row = dy_ptr + batch * dy_batch + position * dy_time + head.to(tl.int64) * dy_head
        a, b = load_halves(x_row, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED)
        v_a, v_b = load_halves(
            dy_row, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED
        )
        if cos_ptr is not None:
            place = place_angles(batch, position, time, tables, PAIRS, BLOCK)
            cos = tl.load(cos_ptr + place, mask=valid & turning, other=0)
            sin = tl.load(sin_ptr + place, mask=valid & turning, other=0)
            if AFTER:
                a, b = turn_halves(a, b, cos, sin, turning, N, PAIRS)
            else:
                v_a, v_b = turn_halves(v_a, v_b, cos, -sin, turning, N, PAIRS)
        d_a, d_b = v_a * gain_a, v_b * gain_b
        # v · x: dg needs v · x̂, and the norm the mean of u · x̂. Both only lack the factor r.
        v_a *= a
        v_b *= b
        if NORM is not None:
            factor, varies = inverse_length(a, b, eps, N, NORM)
            factor = tl.where(valid, factor, 0)  # without eps, a missing row has the factor ∞
            # D(u) = r·u − x · r² · mean(u · x̂), with x̂ = r · x: x̂ itself is never made.
            along = tl.sum(v_a * gain_a + v_b * gain_b, axis=1, keep_dims=True) * factor
            along = tl.where(varies, along / N if NORM == "rms" else along, 0) * factor * factor
            d_a = d_a * factor - a * along
            d_b = d_b * factor - b * along
            v_a *= factor
            v_b *= factor
        total_a += v_a
        total_b += v_b
        if cos_ptr is not None and AFTER:
            d_a, d_b = turn_halves(d_a, d_b, cos, -sin, turning, N, PAIRS)
        dx_row = dx_ptr + (token.to(tl.int64) * COUNT + head) * N
        store_halves(
            dx_row, d_a, d_b, valid, first, second, in_first, in_second, N, BLOCK, INTERLEAVED
        )
    if partials_ptr is not None:
        head = group * HEADS + tl.arange(0, HEADS)[:, None]
        row = partials_ptr + (program * COUNT + head).to(tl.int64) * N
        sum_a = tl.sum(tl.reshape(total_a, (ROWS // HEADS, HEADS, BLOCK)), axis=0)
        sum_b = tl.sum(tl.reshape(total_b, (ROWS // HEADS, HEADS, BLOCK)), axis=0)
        tl.store(row + first, sum_a * scale, mask=(head < COUNT) & in_first)
        tl.store(row + second, sum_b * scale, mask=(head < COUNT) & in_second)


def qk_norm_rope_backward(
    dq_out: Tensor,
    dk_out: Tensor,
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
    learns_q: bool,
    learns_k: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return dq, dk and the gradients of the trained gains; an empty tensor for the others."""
    dq, dk = allocate_rows(q), allocate_rows(k)
    dq_weight, dk_weight = (
        w.new_empty(w.shape) if learns and w is not None else q.new_empty(0)
        for w, learns in ((q_weight, learns_q), (k_weight, learns_k))
    )
    if is_fake(q):
        return dq, dk, dq_weight, dk_weight
    (q, q_strides), (k, k_strides) = see_heads(q), see_heads(k)
    (dq_out, dq_strides), (dk_out, dk_strides) = see_heads(dq_out), see_heads(dk_out)
    tokens, time = q.shape[0] * q.shape[1], q.shape[1]
    given = list_constants(q, k, q_weight, k_weight, cos)
    # One head per program: with a gain and sums of one row, more programs run at a time than with
    # all heads of a token together, although each then reads the cosines itself.
    rows = max(1, 512 // given["BLOCK"])
    given |= {"HEADS": 1, "GROUPS": q.shape[2] + k.shape[2], "ROWS": rows, "warps": 2}
    tiles = cdiv(tokens, given["ROWS"] // given["HEADS"])
    programs = max(1, count_processors(q.device) * _PER_PROCESSOR // given["GROUPS"])
    programs = min(tiles, programs)
    q_partials, k_partials = (
        make_partials(programs, t.shape[2], t.shape[3], q.device) if learns else None
        for t, learns in ((q, learns_q), (k, learns_k))
    )
    launch(
        _backward,
        (programs * given["GROUPS"],),
        dq_out,
        dk_out,
        q,
        k,
        pack_parameter(q_weight),
        pack_parameter(k_weight),
        cos,
        sin,
        dq,
        dk,
        q_partials,
        k_partials,
        eps,
        scale,
        tokens,
        time,
        count_tables(cos),
        dq_strides,
        dk_strides,
        q_strides,
        k_strides,
        **given,
        NORM=norm,
        AFTER=after_rope,
        OFFSET=offset,
        INTERLEAVED=interleaved,
        STAGES=4 if q.element_size() == 2 else 3,
    )
    for partials, dweight in ((q_partials, dq_weight), (k_partials, dk_weight)):
        if partials is not None:
            column_sums(partials.view(1, -1, dweight.numel()), dweight)
    return dq, dk, dq_weight, dk_weight
