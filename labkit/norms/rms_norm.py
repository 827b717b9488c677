"""RMSNorm: divide each token by its root mean square; no mean is subtracted.

    y = weight · x / sqrt(mean(x²) + eps)      mean over the last axis

The paper prints no eps; inside the root is where PyTorch, Llama, T5 and Gemma put it.
Source: Zhang and Sennrich 2019, arXiv 1910.07467, Eq. 4; defaults as torch.nn.RMSNorm.
"""

import torch
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


def is_native(x: Tensor, weight: Tensor | None) -> bool:
    """Say whether `native_rms_norm` takes these: float32 on the CPU, with a gain."""
    return weight is not None and x.dtype == weight.dtype == torch.float32 and x.is_cpu


def native_rms_norm(x: Tensor, weight: Tensor, eps: float | None) -> Tensor:
    """Compute `rms_norm` over the trailing axes of `weight`, the faster way for the size of x."""
    if x.numel() < _FEW:
        return torch.rms_norm(x, weight.shape, weight, eps)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    flat = x.flatten(-weight.ndim).contiguous()
    return _NativeRMSNorm.apply(flat, weight.flatten(), eps)[0].view_as(x)


class RMSNorm(nn.RMSNorm):
    """Own the gain of `rms_norm`; drop in for torch.nn.RMSNorm.

    Constructor arguments, parameter names and state_dict are torch's. On the CPU the forward
    and backward pass take fewer trips through memory than torch's own; the gradient of the
    gradient needs the formula, `rms_norm`.
    """

    equation = "y = weight · x / sqrt(mean(x²) + eps)"
    source = "Zhang and Sennrich 2019, arXiv 1910.07467"
    function = staticmethod(rms_norm)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        weight, shape, eps = self.weight, self.normalized_shape, self.eps
        fast = is_native(x, weight) and (eps is None or eps >= 0)
        if fast and 0 < x.numel() < _FEW:  # no call more than torch's own module makes
            try:
                return torch.rms_norm(x, shape, weight, eps)
            except (RuntimeError, ValueError):
                pass  # a wrong shape is said in words below; the rest happens again
        if x.shape[-len(shape) :] != shape:
            raise ValueError(
                f"RMSNorm{tuple(shape)} needs an input that ends in {tuple(shape)}, "
                f"got {tuple(x.shape)}"
            )
        if fast and x.numel():
            return native_rms_norm(x, weight, eps)
        weight = None if weight is None else weight.flatten()
        return rms_norm(x.flatten(-len(shape)), weight, eps).view_as(x)
