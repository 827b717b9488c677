"""Operations on attention logits: masks, soft caps, running sums, QK-Clip.

    mixed = softmax(mask(cap(q kᵀ · scale + earlier))) v          cap(l) = c · tanh(l / c)

The cap and the sum of RealFormer come before the mask. QK-Clip acts on the weights instead, after
an optimizer step: with S_h the largest logit of head h and γ_h = min(1, τ / S_h), it scales the
head's rows of W_q and W_k so that its logits shrink by γ_h.

Sources: soft cap: Gemma Team 2024, arXiv 2408.00118; RealFormer: He et al. 2021, arXiv
2012.11747; QK-Clip: Kimi Team 2025, arXiv 2507.20534.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def soft_cap(logits: Tensor, cap: float) -> Tensor:
    """Squash logits smoothly into (−cap, cap): cap · tanh(logits / cap); slope 1 at 0."""
    return cap * torch.tanh(logits / cap)


def allowed_pairs(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    causal: bool,
    padding: Bool[Tensor, "batch key"] | None,
) -> Bool[Tensor, "#batch #heads query key"]:
    """Return which keys each query may attend to: no later ones if causal, and no padding."""
    queries, keys = q.shape[2], k.shape[2]
    allowed = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        allowed = allowed.tril()
    if padding is None:
        return allowed
    if padding.dtype != torch.bool or padding.shape != (k.shape[0], keys):
        raise ValueError(
            f"padding must be bool of shape {(k.shape[0], keys)}, True where a token is real, "
            f"got {padding.dtype} of shape {tuple(padding.shape)}"
        )
    return allowed & padding[:, None, None, :]


def explicit_logits(
    q: Float[Tensor, "batch heads query head_dim"],
    k: Float[Tensor, "batch kv_heads key head_dim"],
    scale: float | None,
) -> Float[Tensor, "batch heads query key"]:
    """Multiply each query by its group's keys in at least float32; scale None: 1/sqrt(head_dim)."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    wide = torch.promote_types(q.dtype, torch.float32)
    # Key heads are repeated explicitly, because a matrix product does not support groups.
    keys = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return q.to(wide) @ keys.to(wide).transpose(-2, -1) * factor


def mix_values(
    logits: Float[Tensor, "batch heads query key"],
    v: Float[Tensor, "batch kv_heads key head_dim"],
    allowed: Bool[Tensor, "#batch #heads query key"],
) -> Float[Tensor, "batch heads query head_dim"]:
    """Average the values by the softmax of the allowed logits; each row needs an allowed logit."""
    weights = logits.masked_fill(~allowed, -math.inf).softmax(dim=-1)
    return weights.to(v.dtype) @ v.repeat_interleave(logits.shape[1] // v.shape[1], dim=1)


def largest_logits(
    logits: Float[Tensor, "batch heads query key"],
    allowed: Bool[Tensor, "#batch #heads query key"],
    queries: Bool[Tensor, "batch query"] | None,
) -> Float[Tensor, " heads"]:
    """Return each head's largest allowed logit over the real queries; −inf if there is none."""
    if queries is not None:
        allowed = allowed & queries[:, None, :, None]
    # It is only compared with a threshold after the step, so it needs no gradient.
    return logits.detach().masked_fill(~allowed, -math.inf).amax(dim=(0, 2, 3))


def clip_factors(
    largest: Float[Tensor, " heads"], threshold: float, kv_heads: int
) -> tuple[Float[Tensor, " heads"], Float[Tensor, " kv_heads"]]:
    """Return the factors of W_q and W_k per head: their product is γ_h = min(1, τ / S_h).

    Without groups both factors are sqrt(γ_h). A key head that a group of query heads shares can
    take only one factor: sqrt of the smallest γ in its group. Each query head takes γ_h divided by
    that factor, so that every head's logits shrink by its own γ_h, and those of a head below the
    threshold do not change. A head without a finite largest logit keeps its weights.
    """
    over = torch.isfinite(largest) & (largest > threshold)
    gamma = torch.where(over, threshold / largest, torch.ones_like(largest))
    groups = gamma.view(kv_heads, -1)
    key = groups.amin(dim=1).sqrt()
    return (groups / key[:, None]).flatten(), key
