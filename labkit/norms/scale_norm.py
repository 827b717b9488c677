"""ScaleNorm: scale every token to the same length, a single learned number.

    y = weight · x / max(|x|, eps)      weight one number, sqrt(d) at first

It is RMSNorm with one gain for all features, and with eps as a lower bound, not as a summand.
Source: Nguyen and Salazar 2019, arXiv 1910.05895, and the authors' code.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis
from labkit.norms.l2_norm import unit_length


def scale_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " 1"] | float | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*leading dim"]:
    """Scale each vector on the last axis to the length `weight` (None: sqrt(d))."""
    gain = x.shape[-1] ** 0.5 if weight is None and x.ndim else weight
    return unit_length("scale_norm", x, gain, eps)


class ScaleNorm(LastAxis):
    """`scale_norm` as a module, with one learned gain that starts at sqrt(dim)."""

    equation = "y = g · x / max(|x|, eps), one number g, sqrt(d) at first"
    source = "Nguyen and Salazar 2019, arXiv 1910.05895"
    function = staticmethod(scale_norm)
    eps_place = "least length"
    same_as = "rms"

    def __init__(self, dim: int, eps: float = 1e-5, *, device=None, dtype=None):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.full((1,), dim**0.5, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return scale_norm(x, self.weight, self.eps)
