"""Partial RMSNorm: estimate the root mean square from the first few features.

    y = weight · x / sqrt(mean(x₁² … x_k²) + eps)      k = max(1, floor(d · p)), applied to all d

The features are chosen by position only, so permuting them changes the result. Source: Zhang and
Sennrich 2019, arXiv 1910.07467, section 4 (pRMSNorm, p = 6.25 %); the paper has no eps; here it is
inside the root, as in `rms`.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter


def partial_rms_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-6,
    p: float = 0.0625,
) -> Float[Tensor, "*leading dim"]:
    """Divide each vector by the root mean square of its first max(1, floor(d · p)) features."""
    check_input("partial_rms_norm", x, eps)
    check_parameter("partial_rms_norm", "weight", weight, x.shape[-1])
    _check_share("partial_rms_norm", p)
    wide = at_least_float32(x)
    first = wide[..., : max(1, int(x.shape[-1] * p))]
    mean_square = first.square().mean(dim=-1, keepdim=True)
    return affine(wide * torch.rsqrt(mean_square + eps), weight, None).to(x.dtype)


def _check_share(name: str, p: float) -> None:
    if not 0 < p <= 1:
        raise ValueError(
            f"{name} needs p, the fraction of the features, in (0, 1], got {p}; 0.0625 is usual"
        )


class PartialRMSNorm(LastAxis):
    """`partial_rms_norm` as a module, with a learned gain."""

    equation = "y = weight · x / sqrt(mean(x₁² … x_k²) + eps), k = max(1, floor(d · p))"
    source = "Zhang and Sennrich 2019, arXiv 1910.07467, section 4"
    function = staticmethod(partial_rms_norm)

    def __init__(self, dim: int, p: float = 0.0625, eps: float = 1e-6, *, device=None, dtype=None):
        super().__init__(dim, eps)
        _check_share("PartialRMSNorm", p)
        self.p = p
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        """Return the width, p and eps, for printing."""
        return f"{self.dim}, p={self.p}, eps={self.eps}"

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return partial_rms_norm(x, self.weight, self.eps, self.p)
