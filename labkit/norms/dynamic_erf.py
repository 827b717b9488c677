"""Derf, dynamic erf: squash each value with the error function; no statistics at all.

    y = weight · erf(alpha · x + shift) + bias      alpha, shift one learned number each

The shift moves the centre of the curve, the bias its output; models without other biases keep both.
Source: Chen et al. 2025, arXiv 2512.10938, and the authors' code (alpha 0.5, shift 0).
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import (
    LastAxis,
    affine,
    at_least_float32,
    check_input,
    check_parameter,
    check_scalar,
    scalar,
)


def dynamic_erf(
    x: Float[Tensor, "*leading dim"],
    alpha: Float[Tensor, " 1"] | float = 0.5,
    shift: Float[Tensor, " 1"] | float = 0.0,
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
) -> Float[Tensor, "*leading dim"]:
    """Apply erf to alpha · x + shift, then gain and bias, with one rounding at the end."""
    check_input("dynamic_erf", x, 0.0)
    check_scalar("dynamic_erf", "alpha", alpha)
    check_scalar("dynamic_erf", "shift", shift)
    check_parameter("dynamic_erf", "weight", weight, x.shape[-1])
    check_parameter("dynamic_erf", "bias", bias, x.shape[-1])
    wide = at_least_float32(x)
    inner = scalar(alpha, wide) * wide + scalar(shift, wide)
    return affine(torch.erf(inner), weight, bias).to(x.dtype)


class DynamicErf(LastAxis):
    """`dynamic_erf` as a module, with a learned slope, centre, gain and shift."""

    equation = "y = weight · erf(alpha · x + shift) + bias"
    source = "Chen et al. 2025, arXiv 2512.10938"
    function = staticmethod(dynamic_erf)
    first_values = ("alpha", "shift")

    def __init__(
        self, dim: int, alpha: float = 0.5, shift: float = 0.0, *, device=None, dtype=None
    ):
        super().__init__(dim)
        self.alpha = nn.Parameter(torch.full((1,), float(alpha), device=device, dtype=dtype))
        self.shift = nn.Parameter(torch.full((1,), float(shift), device=device, dtype=dtype))
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(dim, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        self.check_width(x)
        return dynamic_erf(x, self.alpha, self.shift, self.weight, self.bias)
