"""Learned parts of attention other than its four matrices: gains of norms, temperatures."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.attention.norms import AttentionNorms
from labkit.norms import make_norm
from labkit.norms._common import at_least_float32


class OwnGains(nn.Module):
    """Normalize each head's vector and multiply it by that head's own gain, which starts at 1."""

    def __init__(self, norm: nn.Module, heads: int, head_dim: int):
        super().__init__()
        self.norm = norm
        self.weight = nn.Parameter(torch.ones(heads, head_dim))

    def forward(
        self, x: Float[Tensor, "*leading heads head_dim"]
    ) -> Float[Tensor, "*leading heads head_dim"]:
        """Normalize and apply the gains, with one rounding at the end."""
        wide = at_least_float32(x)
        return (self.norm(wide) * self.weight.to(wide.dtype)).to(x.dtype)


def make_attention_norm(
    norms: AttentionNorms | None,
    tensor: str,
    heads: int,
    head_dim: int,
    options: Mapping[str, float],
) -> nn.Module | None:
    """Make the norm of q, k, v or c; None if that tensor has none.

    It takes (…, heads, head_dim), or (…, heads · head_dim) when shared by width.
    """
    if norms is None or tensor not in norms.tensors:
        return None
    dim = heads * head_dim if norms.share == "width" else head_dim
    norm = make_norm(norms.norm, dim, **options)
    learned_here = norms.gain and norms.share != "own"
    for name, wanted in (("bias", norms.shift), ("weight", learned_here)):
        if not wanted and getattr(norm, name, None) is not None:
            # Every norm treats None as no gain (no shift), so no parameter is left to train.
            setattr(norm, name, None)
    return OwnGains(norm, heads, head_dim) if norms.share == "own" else norm


def make_temperature(norms: AttentionNorms | None, heads: int) -> nn.Parameter | None:
    """Make the learned temperature that replaces 1/sqrt(head_dim): g (module), or τ per head."""
    if norms is None or norms.temperature is None:
        return None
    if norms.temperature == "head":
        return nn.Parameter(torch.full((heads,), math.log(10)))
    if norms.length is None:
        raise ValueError(
            "a temperature per module needs the length L of the context, because it starts at "
            "log2(L² − L); give it as in attention_norms('henry', length=1024) or 'henry "
            "length=1024'"
        )
    return nn.Parameter(torch.tensor([math.log2(norms.length**2 - norms.length)]))


def apply_temperature(
    q: Float[Tensor, "batch heads time head_dim"],
    norms: AttentionNorms | None,
    temperature: Float[Tensor, " one_or_heads"] | None,
) -> Float[Tensor, "batch heads time head_dim"]:
    """Multiply the queries by g, or by exp(min(τ_h, log 100)), if there is a temperature."""
    if norms is None or temperature is None:
        return q
    if norms.temperature == "head":
        # Swin v2: no cosine is multiplied by more than 100, and beyond that τ has no gradient.
        temperature = temperature.clamp(max=math.log(100)).exp()[:, None, None]
    return q * temperature.to(q.dtype)
