"""BHyT, bounded hyperbolic tanh: RMS-normalize, then squash so that no output exceeds the gain.

    y = weight · tanh(scale · x / (bound · sqrt(mean(x²) + eps)))      mean over the last axis

With scale 1 and bound 10 the tanh is nearly linear, and the result is a tenth of RMSNorm's. Source:
arXiv 2601.09719, and the authors' code, where scale is one learned number with an initial value of
1 to 5. Their block estimates its second mean square from the first; this module does not.
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


def bounded_tanh(
    x: Float[Tensor, "*leading dim"],
    scale: Float[Tensor, " 1"] | float = 1.0,
    weight: Float[Tensor, " dim"] | None = None,
    bound: float = 10.0,
    eps: float = 1e-6,
) -> Float[Tensor, "*leading dim"]:
    """Apply tanh to scale · x / (bound · RMS), then the gain, with one rounding at the end."""
    check_input("bounded_tanh", x, eps)
    check_scalar("bounded_tanh", "scale", scale)
    check_parameter("bounded_tanh", "weight", weight, x.shape[-1])
    _check_bound("bounded_tanh", bound)
    wide = at_least_float32(x)
    slope = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps) * scalar(scale, wide)
    return affine(torch.tanh(wide * (slope / bound)), weight, None).to(x.dtype)


def _check_bound(name: str, bound: float) -> None:
    if not bound > 0:
        raise ValueError(f"{name} needs a bound above 0, got {bound}; the paper's is 10")


class BoundedTanh(LastAxis):
    """`bounded_tanh` as a module, with a learned scale and gain."""

    equation = "y = weight · tanh(scale · x / (bound · sqrt(mean(x²) + eps)))"
    source = "BHyT 2026, arXiv 2601.09719"
    function = staticmethod(bounded_tanh)
    first_values = ("scale",)

    def __init__(
        self,
        dim: int,
        scale: float = 1.0,
        bound: float = 10.0,
        eps: float = 1e-6,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__(dim, eps)
        _check_bound("BoundedTanh", bound)
        self.bound = bound
        self.scale = nn.Parameter(torch.full((1,), float(scale), device=device, dtype=dtype))
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        """Return the width, bound and eps, for printing."""
        return f"{self.dim}, bound={self.bound}, eps={self.eps}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalize and squash each vector on the last axis."""
        self.check_width(x)
        return bounded_tanh(x, self.scale, self.weight, self.bound, self.eps)
