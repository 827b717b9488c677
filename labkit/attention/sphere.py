"""nGPT's attention: rotated queries and keys on the unit sphere, with one learned scale.

    q, k = s_qk ⊙ norm(rotated q, k) for each head          logits × sqrt(head_dim)

Source: Loshchilov et al. 2024, arXiv 2410.01131.
"""

from torch import Tensor

from labkit.attention.multihead import Attention
from labkit.context import Context
from labkit.norms.unit import Scale, Unit


class SphereAttention(Attention):
    """Attention whose rotated queries and keys are unit vectors times one shared scale s_qk."""

    def __init__(self, dim: int, heads: int, causal: bool):
        super().__init__(dim, heads, heads, causal)
        self.s_qk, self.unit = Scale(dim, 1.0, dim**-0.5), Unit()

    def project(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v; q is also multiplied by head_dim, so logits scale by sqrt(head_dim)."""
        q, k, v = super().project(x, context)
        # One scale for q and k, so that it enters each logit squared, as in the paper.
        scale = self.s_qk().view(self.heads, 1, self.head_dim)
        return self.head_dim * scale * self.unit(q), scale * self.unit(k), v
