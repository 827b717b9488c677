"""RMSNorm: divide each token by its root mean square; no mean is subtracted.

    y = weight · x / sqrt(mean(x²) + eps)      mean over the last axis

The paper has no eps; PyTorch, Llama, T5 and Gemma put it inside the root. Source: Zhang and
Sennrich 2019, arXiv 1910.07467, Eq. 4; defaults as torch.nn.RMSNorm.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import affine, at_least_float32, check_input, check_parameter, check_size
from labkit.norms.native import is_native, native_rms_norm


def rms_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    eps: float | None = 1e-6,
) -> Float[Tensor, "*leading dim"]:
    """Scale each vector on the last axis to root mean square 1 (up to eps).

    Statistics and gain are computed in at least float32; the result is rounded once, to x's dtype.
    `eps=None` means the machine epsilon of the computation, as in torch.
    """
    wide = at_least_float32(x)
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    check_input("rms_norm", x, eps)
    check_parameter("rms_norm", "weight", weight, x.shape[-1])
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return affine(wide * torch.rsqrt(mean_square + eps), weight, None).to(x.dtype)


class RMSNorm(nn.RMSNorm):
    """`rms_norm` as a module, with a learned gain; a drop-in replacement for torch.nn.RMSNorm.

    Constructor arguments, parameter names and state_dict are torch's. On the CPU the forward and
    backward pass make fewer passes over memory than torch's own. Second derivatives need the
    formula, `rms_norm`.
    """

    equation = "y = weight · x / sqrt(mean(x²) + eps)"
    source = "Zhang and Sennrich 2019, arXiv 1910.07467"
    function = staticmethod(rms_norm)

    def __init__(self, normalized_shape: int | list[int] | torch.Size, *args, **kwargs):
        check_size("RMSNorm", "normalized_shape", normalized_shape, *args, **kwargs)
        super().__init__(normalized_shape, *args, **kwargs)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        shape, weight = self.normalized_shape, self.weight
        if x.shape[-len(shape) :] != shape:
            raise ValueError(
                f"RMSNorm{tuple(shape)} needs an input whose shape ends in {tuple(shape)}, got "
                f"{tuple(x.shape)}"
            )
        if is_native(x, weight, self.eps):
            return native_rms_norm(x, weight, self.eps)
        weight = None if weight is None else weight.flatten()
        return rms_norm(x.flatten(-len(shape)), weight, self.eps).view_as(x)
