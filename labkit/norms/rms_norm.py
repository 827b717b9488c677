"""RMSNorm: divide each token by its root mean square; no mean is subtracted.

    y = weight · x / sqrt(mean(x²) + eps)      mean over the last axis

The paper prints no eps; inside the root is where PyTorch, Llama, T5 and Gemma put it.
Source: Zhang and Sennrich 2019, arXiv 1910.07467, Eq. 4; defaults as torch.nn.RMSNorm.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import affine, at_least_float32, check_input, check_parameter


def rms_norm(
    x: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    eps: float | None = 1e-6,
) -> Float[Tensor, "*leading dim"]:
    """Scale each vector on the last axis to root mean square 1 (up to eps).

    Statistics in at least float32, gain applied there too, the result in x's dtype with one
    rounding at the end. `eps=None` is torch's: the machine epsilon of the computation.
    """
    wide = at_least_float32(x)
    eps = torch.finfo(wide.dtype).eps if eps is None else eps
    check_input("rms_norm", x, eps)
    check_parameter("rms_norm", "weight", weight, x.shape[-1])
    mean_square = wide.square().mean(dim=-1, keepdim=True)
    return affine(wide * torch.rsqrt(mean_square + eps), weight, None).to(x.dtype)


# With fewer values the calls cost more than the memory, and torch's own operation has fewer.
_FEW = 2**15


class _NativeRMSNorm(torch.autograd.Function):
    """`rms_norm` on the CPU in few passes over memory; the backward is torch's LayerNorm kernel.

    With mean 0 put in for its statistics, LayerNorm's backward kernel returns RMSNorm's weight
    gradient exactly, and RMSNorm's input gradient less `rstd · mean(dy · weight)` in each row:
    LayerNorm's projection off the constant vector. That is added back.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        rstd = torch.rsqrt(length.square() / x.shape[-1] + eps)
        return torch.mul(x, rstd).mul_(weight), rstd

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, weight, _ = inputs
        ctx.save_for_backward(x, weight, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *grads: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight, rstd = ctx.saved_tensors
        mask = [ctx.needs_input_grad[0], ctx.needs_input_grad[1], False]
        dy = grads[0].contiguous()
        zero = torch.zeros_like(rstd)
        dx, dweight, _ = torch.ops.aten.native_layer_norm_backward(
            dy, x, [x.shape[-1]], zero, rstd, weight, None, mask
        )
        if dx is not None:
            dx.add_(rstd * (dy @ weight / x.shape[-1]).unsqueeze(-1))
        return dx, dweight, None


class RMSNorm(nn.RMSNorm):
    """Own the gain of `rms_norm`; drop in for torch.nn.RMSNorm.

    Constructor arguments, parameter names and state_dict are torch's. On the CPU the forward
    and backward pass take fewer trips through memory than torch's own; the gradient of the
    gradient needs the formula, `rms_norm`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        shape = tuple(self.normalized_shape)
        if tuple(x.shape[-len(shape) :]) != shape:
            raise ValueError(
                f"RMSNorm{shape} needs an input that ends in {shape}, got {tuple(x.shape)}"
            )
        flat = x.flatten(-len(shape))
        weight = None if self.weight is None else self.weight.flatten()
        fast = weight is not None and x.dtype == weight.dtype == torch.float32
        if not (fast and x.device.type == "cpu" and x.numel()):
            return rms_norm(flat, weight, self.eps).view_as(x)
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        check_input("RMSNorm", x, eps)
        if x.numel() < _FEW:
            return F.rms_norm(x, shape, self.weight, eps)
        return _NativeRMSNorm.apply(flat.contiguous(), weight, eps)[0].view_as(x)
