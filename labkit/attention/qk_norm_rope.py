"""Norm, gain and rotation of queries and keys, between projection and logits.

    x̂ = x · r      rms: r = 1 / sqrt(mean(x²) + eps)      l2: r = 1 / max(|x|, eps)      None: r = 1
    y = scale · R(g · x̂)           R turns channel i with i + pairs by the angle of the position:
                                   (a, b) → (a cos − b sin, a sin + b cos)
    y = scale · g · (R x)^         after_rope: the norm is that of R x

over each head's vector, g = weight + offset. `Attention` does the same in modules, each of which
rounds; here everything is computed in at least float32 and rounded once. It is one function because
a fused kernel reads memory only once; this is the formula of the kernel of the same name. Sources:
Su et al. 2021, arXiv 2104.09864 (rotation); Henry et al. 2020, arXiv 2010.04245 (l2); Dehghani et
al. 2023, arXiv 2302.05442 (norm of queries and keys); Loshchilov et al. 2024, arXiv 2410.01131
(after the rotation).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from labkit.norms._common import at_least_float32, check_input

_Turns = tuple[Tensor, Tensor]  # cos and sin, (time, pairs) or (batch, time, pairs)


def qk_norm_rope(
    q: Float[Tensor, "*batch time heads head_dim"],
    k: Float[Tensor, "*batch time kv_heads head_dim"],
    q_weight: Float[Tensor, "*heads head_dim"] | None = None,
    k_weight: Float[Tensor, "*kv_heads head_dim"] | None = None,
    angles: Float[Tensor, "*sequences time pairs"] | _Turns | None = None,
    *,
    norm: str | None = "rms",
    eps: float = 1e-6,
    after_rope: bool = False,
    offset: float = 0.0,
    scale: float = 1.0,
    interleaved: bool = False,
) -> tuple[
    Float[Tensor, "*batch time heads head_dim"], Float[Tensor, "*batch time kv_heads head_dim"]
]:
    """Normalize and rotate queries and keys, with one rounding at the end.

    A gain is (head_dim,), shared by all heads, or (heads, head_dim). `angles` are radians (time,
    pairs), or (batch, time, pairs) if positions differ by sequence, or their (cos, sin); with
    2·pairs < head_dim only the first 2·pairs channels turn. Channel i turns with channel i + pairs
    or, if `interleaved`, channel 2i with 2i + 1.
    """
    _check_inputs(q, k, q_weight, k_weight, norm, eps)
    turns = None if angles is None else _compute_rotations(angles, q)
    options = norm, eps, after_rope, offset, scale, interleaved
    return _one(q, q_weight, turns, *options), _one(k, k_weight, turns, *options)


def _one(
    x: Tensor,
    weight: Tensor | None,
    turns: _Turns | None,
    norm: str | None,
    eps: float,
    after_rope: bool,
    offset: float,
    scale: float,
    interleaved: bool,
) -> Tensor:
    y = at_least_float32(x)
    if turns is not None and after_rope:
        y = _turned(y, turns, interleaved)
    if norm == "rms":
        y = y * torch.rsqrt(y.square().mean(dim=-1, keepdim=True) + eps)
    elif norm == "l2":
        length = torch.linalg.vector_norm(y, dim=-1, keepdim=True).clamp_min(eps)
        y = y / length.masked_fill(length == 0, 1)  # without eps, 0 stays 0
    if weight is not None:
        y = y * (weight.to(y.dtype) + offset)
    if turns is not None and not after_rope:
        y = _turned(y, turns, interleaved)
    return (y * scale).to(x.dtype).contiguous()


def _turned(x: Tensor, turns: _Turns, interleaved: bool) -> Tensor:
    """Rotate the first 2·pairs channels of (…, time, heads, head_dim) by each position's angles."""
    cos, sin = (t[..., None, :].to(x.dtype) for t in turns)
    pairs = cos.shape[-1]
    both, rest = x.split((2 * pairs, x.shape[-1] - 2 * pairs), dim=-1)
    first, second = (both[..., ::2], both[..., 1::2]) if interleaved else both.chunk(2, dim=-1)
    turned = first * cos - second * sin, first * sin + second * cos
    both = torch.stack(turned, dim=-1).flatten(-2) if interleaved else torch.cat(turned, dim=-1)
    return torch.cat((both, rest), dim=-1)


def _compute_rotations(angles: Tensor | _Turns, q: Tensor) -> _Turns:
    """Return cosines and sines in the precision of the angles, at least float32."""
    if isinstance(angles, Tensor):
        wide = at_least_float32(angles)
        angles = wide.cos(), wide.sin()
    cos, sin = angles
    time, n = q.shape[-3], q.shape[-1]
    before = q.shape[:-2]  # q's token axes; angles have all of them or only the last
    fits = cos.ndim >= 2 and cos.shape[:-1] == before[max(0, len(before) - cos.ndim + 1) :]
    if not fits or cos.shape != sin.shape or 2 * cos.shape[-1] > n:
        raise ValueError(
            f"qk_norm_rope needs angles of shape (time, pairs) = ({time}, up to {n // 2}), or "
            "(batch, time, pairs) with q's batch size; got "
            f"{tuple(cos.shape)}{'' if cos.shape == sin.shape else f' and {tuple(sin.shape)}'}"
        )
    if cos.requires_grad or sin.requires_grad:
        raise ValueError(
            "qk_norm_rope has no gradient for angles, but they require grad; pass angles.detach()"
        )
    return cos, sin


def _check_inputs(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    norm: str | None,
    eps: float,
) -> None:
    for x in (q, k):
        check_input("qk_norm_rope", x, eps)
    if q.dtype != k.dtype:
        raise TypeError(
            f"qk_norm_rope needs q and k of the same dtype, got {q.dtype} and {k.dtype}"
        )
    if q.ndim < 3 or q.shape[:-2] != k.shape[:-2] or q.shape[-1] != k.shape[-1]:
        raise ValueError(
            "qk_norm_rope needs q of shape (…, time, heads, head_dim) and k of shape (…, time, "
            f"kv_heads, head_dim), got {tuple(q.shape)} and {tuple(k.shape)}"
        )
    n = q.shape[-1]
    for role, weight, x in (("q_weight", q_weight, q), ("k_weight", k_weight, k)):
        if weight is not None and weight.shape not in ((n,), x.shape[-2:]):
            raise ValueError(
                f"qk_norm_rope needs a {role} of shape ({n},), shared by all heads, or "
                f"{tuple(x.shape[-2:])}, one for each head; got {tuple(weight.shape)}"
            )
    if norm not in ("rms", "l2", None):
        raise ValueError(f"qk_norm_rope supports norm 'rms', 'l2' and None, got {norm!r}")
