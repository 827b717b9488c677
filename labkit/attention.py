"""Causal and full multi-head attention with grouped key-value heads and rotary positions.

    head_i = softmax(q_i k_jᵀ / sqrt(head_dim)) v_j,  j = the key-value head that i shares
    output = concat(head_1 … head_h) W_O

Sources: Vaswani et al. 2017 (attention), Su et al. 2021, arXiv 2104.09864 (rotary positions),
Ainslie et al. 2023, arXiv 2305.13245 (grouped key-value heads).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


def rotary_angles(time: int, head_dim: int, base: float = 10_000.0) -> Float[Tensor, "time pairs"]:
    """Give each position one angle (radians) per pair of channels: t · base^(−2i/head_dim)."""
    frequency = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    return torch.arange(time, dtype=torch.float64)[:, None] * frequency


def rotate(
    x: Float[Tensor, "batch heads time head_dim"], angles: Float[Tensor, "time pairs"]
) -> Float[Tensor, "batch heads time head_dim"]:
    """Turn channel i together with channel i + head_dim/2 by the position's angle."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


class Attention(nn.Module):
    """Mix tokens: project to q, k, v; rotate q and k; attend; project back. No biases."""

    def __init__(self, dim: int, heads: int, kv_heads: int, causal: bool = True):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.head_dim = dim // heads
        self.q = nn.Linear(dim, heads * self.head_dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.v = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.out = nn.Linear(heads * self.head_dim, dim, bias=False)

    def forward(
        self, x: Float[Tensor, "batch time dim"], angles: Float[Tensor, "time pairs"]
    ) -> Float[Tensor, "batch time dim"]:
        """Attend over the whole sequence, or over what came before when causal."""
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(
            rotate(q, angles),
            rotate(k, angles),
            v,
            is_causal=self.causal,
            enable_gqa=self.kv_heads != self.heads,
        )
        return self.out(mixed.transpose(1, 2).flatten(-2))
