"""L2 norm with a temperature: unit vectors times one learned number.

    y = weight · x / max(|x|, eps)      |x| the Euclidean length over the last axis

The product of a query and a key of unit length is a cosine. So a temperature must be learned:
without one, no attention can be sharp. Source: Henry et al. 2020 (QKNorm), arXiv 2010.04245.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis, at_least_float32, check_input, check_scalar, scalar


def l2_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " 1"] | float | None = None,
    eps: float = 1e-12,
) -> Float[Tensor, "*leading dim"]:
    """Scale each vector on the last axis to the length `weight` (None: 1)."""
    return unit_length("l2_norm", x, weight, eps)


def unit_length(name: str, x: Tensor, gain: Tensor | float | None, eps: float) -> Tensor:
    """Scale each vector to the length `gain`, in at least float32 and with one rounding at the end.

    Vectors shorter than eps are divided by eps instead; at 0 the gradient is gain/eps.
    """
    check_input(name, x, eps)
    wide = at_least_float32(x)
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True).clamp_min(eps)
    if gain is None:
        return (wide / length).to(x.dtype)
    check_scalar(name, "weight", gain)
    # One number over another for each vector: half the passes of scaling all features twice.
    return (wide * (scalar(gain, wide) / length)).to(x.dtype)


class L2Norm(LastAxis):
    """`l2_norm` as a module, with a learned temperature: one number for all features."""

    equation = "y = g · x / max(|x|, eps), one number g, 1 at first"
    source = "Henry et al. 2020, arXiv 2010.04245"
    function = staticmethod(l2_norm)
    eps_place = "least length"
    same_as = "rms"
    first_values = ("temperature",)

    def __init__(
        self, dim: int, eps: float = 1e-12, temperature: float = 1.0, *, device=None, dtype=None
    ):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.full((1,), float(temperature), device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return l2_norm(x, self.weight, self.eps)
