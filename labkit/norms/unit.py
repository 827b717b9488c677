"""Unit vectors, and scales stored at another size: what nGPT divides by and multiplies with.

    unit(x) = x / |x|, without eps          Scale: value = parameter · initial / stored

Source: Loshchilov et al. 2024, arXiv 2410.01131.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn


def unit(x: Float[Tensor, "*leading dim"], dim: int = -1) -> Float[Tensor, "*leading dim"]:
    """Divide by the Euclidean length along one axis: x / |x|, without eps; 0 stays 0.

    Zeros are what attention writes for a padded query that has nothing to attend to.
    """
    length = torch.linalg.vector_norm(x, dim=dim, keepdim=True)
    return x / length.masked_fill(length == 0, 1)


class Unit(nn.Module):
    """Divide each vector on the last axis by its length: a norm without parameters or eps."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x / |x|."""
        return unit(x)


class Scale(nn.Module):
    """A learned vector that starts at `initial` but is stored at size `stored`.

    value = parameter · initial / stored. Adam moves a parameter by about its learning rate at
    each step, so `stored` decides how fast the value moves, beside how large it is.
    """

    def __init__(self, size: int, initial: float, stored: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), stored))
        self.factor = initial / stored

    def forward(self) -> Tensor:
        """Return the value that the model uses."""
        return self.weight * self.factor
