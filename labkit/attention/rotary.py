"""Rotary positions: rotate pairs of channels by angles that grow with the position.

    y_i       = x_i · cos(t θ_i) − x_{i+n} · sin(t θ_i)          n = head_dim/2, i < n
    y_{i+n}   = x_i · sin(t θ_i) + x_{i+n} · cos(t θ_i)          θ_i = base^(−2i/head_dim)

A logit of two rotated vectors depends on their positions only through the distance. Source: Su et
al. 2021, arXiv 2104.09864; the pairs are Llama's: halves, not neighbours.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from labkit.context import Context


def rotary_angles(time: int, head_dim: int, base: float = 10_000.0) -> Float[Tensor, "time pairs"]:
    """Compute one angle (radians) per position and pair of channels: t · base^(−2i/head_dim)."""
    frequency = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
    # float64: at position 10⁵ a float32 angle is off by 0.004, in the fastest pair.
    return torch.arange(time, dtype=torch.float64)[:, None] * frequency


def rotate(
    x: Float[Tensor, "batch heads time head_dim"], angles: Float[Tensor, "time pairs"]
) -> Float[Tensor, "batch heads time head_dim"]:
    """Rotate channel i together with channel i + head_dim/2 by the position's angle."""
    return apply_rotations(x, *turns_of(angles, x.shape[1], x.dtype))


def turns_of(
    angles: Float[Tensor, "time pairs"], heads: int, dtype: torch.dtype
) -> tuple[Float[Tensor, "time channels"], Float[Tensor, "time channels"]]:
    """Return cosines and signed sines for all channels of all heads, for `apply_rotations`."""
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    return torch.cat((cos, cos), -1).repeat(1, heads), torch.cat((-sin, sin), -1).repeat(1, heads)


def apply_rotations(
    x: Float[Tensor, "batch heads time head_dim"],
    cos: Float[Tensor, "time channels"],
    sin: Float[Tensor, "time channels"],
) -> Float[Tensor, "batch heads time head_dim"]:
    """Rotate by the output of `turns_of`: x · cos + (x with its halves swapped) · (−sin, sin).

    All heads of a token are rotated as one long row. Rotating half of a head at a time loops over
    a few numbers each and takes more than twice as long at the book's sizes.
    """
    x = x.transpose(1, 2)
    swapped = x.roll(x.shape[-1] // 2, -1)
    turned = torch.addcmul(x.flatten(-2) * cos, swapped.flatten(-2), sin)
    return turned.unflatten(-1, x.shape[-2:]).transpose(1, 2)


def rotate_in_context(x: Float[Tensor, "batch heads time head_dim"], context: Context) -> Tensor:
    """Rotate by the context's angles; their cosines and sines are computed once for all blocks."""
    assert context.angles is not None
    key = x.shape[1], x.dtype
    if key not in context.rotations:
        context.rotations[key] = turns_of(context.angles, *key)
    return apply_rotations(x, *context.rotations[key])
