"""Linear layers by oneDNN, in float32 on a CPU: the same sums in another order, in less time.

    y = x Wᵀ + b        dx = g W        dW = gᵀ x

torch multiplies float32 matrices by MKL, which uses half of the vector unit of processors that are
not Intel's; oneDNN, which torch has for convolutions, uses all of it. No public function trains a
layer by it, but a 1 × 1 convolution, which loses on the way what it gains. So this asks for the
operation that torch.compile emits: it is private to torch, and stands here alone.

A narrow layer has too little to multiply for what a call costs more: it stays as it is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

NARROWEST = 64  # inputs and outputs of a layer for which it pays; measured: `labkit bench training`


def explain_missing() -> str:
    """Return why oneDNN cannot multiply matrices here; empty where it can."""
    if not torch.backends.mkldnn.is_available():
        return "this torch has no oneDNN"
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return f"torch {torch.__version__} has no mkldnn::_linear_pointwise"
    return ""


class _Product(torch.autograd.Function):
    """a bᵀ; its gradients are two more of the kind, so that it has derivatives of every order."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (g,), (a, b) = gradients, ctx.saved_tensors
        first, second = ctx.needs_input_grad
        return multiply_transposed(g, b.T) if first else None, multiply_transposed(
            g.T, a.T
        ) if second else None


def multiply_transposed(a: Tensor, b: Tensor) -> Tensor:
    """Multiply (n, k) by the transpose of (m, k)."""
    result = _Product.apply(a, b)
    assert isinstance(result, Tensor)
    return result


class OneDNNLinear(nn.Linear):
    """torch's linear layer, by oneDNN where the numbers are float32 on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """Multiply each vector by the matrix."""
        wide = input.dtype == self.weight.dtype == torch.float32 and input.is_cpu
        if not wide or input.numel() == 0 or torch.is_autocast_enabled("cpu"):
            return super().forward(input)
        y = multiply_transposed(input.reshape(-1, self.in_features), self.weight)
        y = y if self.bias is None else y + self.bias
        return y.view(*input.shape[:-1], self.out_features)


@contextmanager
def by_onednn(model: nn.Module, narrowest: int = NARROWEST) -> Iterator[str]:
    """Let a model's wide linear layers run by oneDNN for a while; say how many those are."""
    layers = [module for module in model.modules() if type(module) is nn.Linear]
    chosen = [layer for layer in layers if min(layer.weight.shape) >= narrowest]
    for layer in chosen:
        layer.__class__ = OneDNNLinear
    try:
        yield f"onednn: {len(chosen)} of {len(layers)} linear layers"
    finally:
        for layer in chosen:
            layer.__class__ = nn.Linear
