"""Unit vectors and rescaled learned scales: the two building blocks of nGPT.

    unit(x) = x / |x|, without eps          Scale: value = parameter · initial / stored

Source: Loshchilov et al. 2024, arXiv 2410.01131.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def unit(x: Float[Tensor, "*leading dim"], dim: int = -1) -> Float[Tensor, "*leading dim"]:
    """Divide by the Euclidean length along one axis: x / |x|, without eps; zero vectors stay 0.

    Attention outputs zeros for a padded query without allowed keys.
    """
    length = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


class Unit(nn.Module):
    """Divide each vector on the last axis by its length: a norm without parameters or eps."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x / |x|."""
        return unit(x)


class Scale(nn.Module):
    """A learned vector that starts at `initial`, with a parameter that starts at `stored`.

    value = parameter · initial / stored. Adam moves a parameter by about its learning rate at each
    step, so `stored` determines how fast the value moves, relative to its size.
    """

    def __init__(self, size: int, initial: float, stored: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), stored))
        self.factor = initial / stored

    def forward(self) -> Tensor:
        """Return the value that the model uses."""
        return self.weight * self.factor
