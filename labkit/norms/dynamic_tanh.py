"""DyT, dynamic tanh: squash each value; no statistics at all.

    y = weight · tanh(alpha · x) + bias      alpha one learned number, 0.5 at first

It is not invariant to the scale of its input, and it is bounded: |y − bias| ≤ |weight|. Source: Zhu
et al. 2025, arXiv 2503.10622, and the authors' code. In their LLaMA there is no bias, the initial
alpha depends on the width and position of the layer, and a learned number multiplies the embedding.
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


def dynamic_tanh(
    x: Float[Tensor, "*leading dim"],
    alpha: Float[Tensor, " 1"] | float = 0.5,
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
) -> Float[Tensor, "*leading dim"]:
    """Apply tanh to alpha · x, then gain and shift, with one rounding at the end."""
    check_input("dynamic_tanh", x, 0.0)
    check_scalar("dynamic_tanh", "alpha", alpha)
    check_parameter("dynamic_tanh", "weight", weight, x.shape[-1])
    check_parameter("dynamic_tanh", "bias", bias, x.shape[-1])
    wide = at_least_float32(x)
    return affine(torch.tanh(scalar(alpha, wide) * wide), weight, bias).to(x.dtype)


class DynamicTanh(LastAxis):
    """`dynamic_tanh` as a module, with a learned slope, gain and shift (none if `bias=False`)."""

    equation = "y = weight · tanh(alpha · x) + bias"
    source = "Zhu et al. 2025, arXiv 2503.10622"
    function = staticmethod(dynamic_tanh)
    first_values = ("alpha",)
    bias: nn.Parameter | None

    def __init__(self, dim: int, alpha: float = 0.5, bias: bool = True, *, device=None, dtype=None):
        super().__init__(dim)
        self.alpha = nn.Parameter(torch.full((1,), float(alpha), device=device, dtype=dtype))
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))
        shift = nn.Parameter(torch.zeros(dim, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        self.check_width(x)
        return dynamic_tanh(x, self.alpha, self.weight, self.bias)
