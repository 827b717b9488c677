"""The LayerNorm of the Annotated Transformer: eps is added to the unbiased standard deviation.

    y = weight · (x − mean(x)) / (s + eps) + bias      s = sqrt(Σ(x − mean)² / (d − 1))

It is not torch's LayerNorm: its result is sqrt((d − 1)/d) times as long, up to eps, and on rows of
nearly equal values eps = 1e-6 outside the root amplifies a thousandfold more than inside.
Source: the code of The Annotated Transformer (harvardnlp), which cites Ba et al. 2016.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter


def annotated_layer_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-6,
) -> Float[Tensor, "*leading dim"]:
    """Centre each vector on the last axis and divide it by its unbiased deviation plus eps."""
    check_input("annotated_layer_norm", x, eps)
    dim = x.shape[-1]
    check_parameter("annotated_layer_norm", "weight", weight, dim)
    check_parameter("annotated_layer_norm", "bias", bias, dim)
    if dim < 2:
        raise ValueError(
            "annotated_layer_norm needs at least two features, because it divides by d − 1, "
            f"got shape {tuple(x.shape)}; use layer_norm"
        )
    wide = at_least_float32(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    centred = centred - centred.mean(dim=-1, keepdim=True)  # corrects the mean's rounding
    # A length, because its gradient is 0 on constant rows, where a root's is infinite.
    deviation = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) / (dim - 1) ** 0.5
    return affine(centred / (deviation + eps), weight, bias).to(x.dtype)


class AnnotatedLayerNorm(LastAxis):
    """`annotated_layer_norm` as a module, with a learned gain and shift."""

    equation = "y = weight · (x − mean(x)) / (s + eps) + bias, s² = Σ(x − mean)² / (d − 1)"
    source = "harvardnlp, The Annotated Transformer"
    function = staticmethod(annotated_layer_norm)
    eps_place = "added to the deviation"

    def __init__(self, dim: int, eps: float = 1e-6, *, device=None, dtype=None):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.ones(dim, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(dim, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        return annotated_layer_norm(x, self.weight, self.bias, self.eps)
