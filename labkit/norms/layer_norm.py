"""LayerNorm: centre each token and divide by its own standard deviation.

    y = weight · (x − mean(x)) / sqrt(var(x) + eps) + bias      mean and var over the last axis

The variance is the biased one (divide by d), and eps is inside the root. Source: Ba, Kiros and
Hinton 2016, arXiv 1607.06450; defaults as torch.nn.LayerNorm.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import affine, at_least_float32, check_input, check_parameter, check_size


def layer_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*leading dim"]:
    """Normalize each vector on the last axis to mean 0 and variance var/(var + eps).

    Statistics are computed in at least float32; the result is rounded once, to x's dtype.
    """
    check_input("layer_norm", x, eps)
    check_parameter("layer_norm", "weight", weight, x.shape[-1])
    check_parameter("layer_norm", "bias", bias, x.shape[-1])
    wide = at_least_float32(x)
    centred = wide - wide.mean(dim=-1, keepdim=True)
    # The mean was rounded at the size of x; its error is corrected at the size of the rest.
    centred = centred - centred.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return affine(centred * torch.rsqrt(variance + eps), weight, bias).to(x.dtype)


class LayerNorm(nn.LayerNorm):
    """`layer_norm` as a module; a drop-in replacement for torch.nn.LayerNorm.

    Constructor arguments, parameter names and state_dict are torch's. The forward pass is torch's
    native operation, equal to `layer_norm` (a test compares the two).
    """

    equation = "y = weight · (x − mean(x)) / sqrt(var(x) + eps) + bias"
    source = "Ba, Kiros and Hinton 2016, arXiv 1607.06450"
    function = staticmethod(layer_norm)

    def __init__(self, normalized_shape: int | list[int] | torch.Size, *args, **kwargs):
        check_size("LayerNorm", "normalized_shape", normalized_shape, *args, **kwargs)
        super().__init__(normalized_shape, *args, **kwargs)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        shape, weight, bias, eps = self.normalized_shape, self.weight, self.bias, self.eps
        if eps >= 0 and (weight is None or weight.dtype == input.dtype):
            try:
                return torch.layer_norm(input, shape, weight, bias, eps)
            except (RuntimeError, ValueError):
                self._check(input)  # explains the usual mistakes
                raise
        self._check(input)
        # torch's CUDA operation refuses mixed dtypes; the formula rounds once, as its CPU
        # operation does.
        flat = input.flatten(-len(shape))
        weight, bias = (p if p is None else p.flatten() for p in (weight, bias))
        return layer_norm(flat, weight, bias, eps).view_as(input)

    def _check(self, input: Tensor) -> None:
        check_input("LayerNorm", input, self.eps)
        shape = tuple(self.normalized_shape)
        if tuple(input.shape[-len(shape) :]) != shape:
            raise ValueError(
                f"LayerNorm{shape} needs an input whose shape ends in {shape}, got "
                f"{tuple(input.shape)}"
            )
