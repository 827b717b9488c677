"""Norms whose forward pass is a kernel where it can be: the same parameters, another class.

Each class adds nothing to the norm it derives from but a `forward`, so that a model changes sides
by changing the class of its modules. What the kernel does not take, the formula does.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit import norms
from labkit.fused.seam import kernels, takes


class FusedRMSNorm(norms.RMSNorm):
    """`RMSNorm` by `normkernels.rms_norm`."""

    def forward(self, x: Tensor, ready: Tensor | None = None) -> Tensor:
        """Normalize the trailing axes; `ready` is the result, where a step before made it."""
        if ready is not None:
            return ready
        shape, weight = self.normalized_shape, self.weight
        if x.shape[-len(shape) :] != shape or not takes(x.flatten(-len(shape)), weight):
            return super().forward(x)
        weight = None if weight is None else weight.flatten()
        return kernels().rms_norm(x.flatten(-len(shape)), weight, self.eps).view(x.shape)


class FusedLayerNorm(norms.LayerNorm):
    """`LayerNorm` by `normkernels.layer_norm`."""

    def forward(self, input: Tensor, ready: Tensor | None = None) -> Tensor:
        """Normalize the trailing axes; `ready` is the result, where a step before made it."""
        if ready is not None:
            return ready
        return _layer_norm(self, input, super().forward)


class FusedTorchLayerNorm(nn.LayerNorm):
    """torch's own module, in models that are not labkit's; under autocast torch stays in charge."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        if torch.is_autocast_enabled(input.device.type):
            return super().forward(input)
        return _layer_norm(self, input, super().forward)


class FusedTorchRMSNorm(nn.RMSNorm):
    """torch's own module, in models that are not labkit's; under autocast torch stays in charge."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis; norms over several axes stay torch's."""
        several = len(self.normalized_shape) != 1 or x.shape[-1:] != self.normalized_shape
        if several or torch.is_autocast_enabled(x.device.type) or not takes(x, self.weight):
            return super().forward(x)
        return kernels().rms_norm(x, self.weight, self.eps)


def _layer_norm(module: nn.LayerNorm, x: Tensor, formula: Any) -> Tensor:
    shape, weight, bias = tuple(module.normalized_shape), module.weight, module.bias
    fits = x.shape[-len(shape) :] == shape and module.eps >= 0
    if not fits or not takes(x.flatten(-len(shape)), weight, bias):
        return formula(x)
    weight, bias = (p if p is None else p.flatten() for p in (weight, bias))
    return kernels().layer_norm(x.flatten(-len(shape)), weight, bias, module.eps).view(x.shape)


class FusedLlamaRMSNorm(norms.LlamaRMSNorm):
    """`LlamaRMSNorm` by `normkernels.rms_norm_llama`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        if not takes(x, self.weight):
            return super().forward(x)
        self.check_width(x)
        return kernels().rms_norm_llama(x, self.weight, self.eps)


class FusedGemmaRMSNorm(norms.GemmaRMSNorm):
    """`GemmaRMSNorm` by `normkernels.rms_norm_gemma`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        if not takes(x, self.weight):
            return super().forward(x)
        self.check_width(x)
        return kernels().rms_norm_gemma(x, self.weight, self.eps)


class FusedDynamicTanh(norms.DynamicTanh):
    """`DynamicTanh` by `normkernels.dynamic_tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        if not takes(x, self.alpha, self.weight, self.bias):
            return super().forward(x)
        self.check_width(x)
        return kernels().dynamic_tanh(x, self.alpha, self.weight, self.bias)


class FusedDynamicErf(norms.DynamicErf):
    """`DynamicErf` by `normkernels.dynamic_erf`."""

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        if not takes(x, self.alpha, self.shift, self.weight, self.bias):
            return super().forward(x)
        self.check_width(x)
        return kernels().dynamic_erf(x, self.alpha, self.shift, self.weight, self.bias)


FUSED: dict[type[nn.Module], type[nn.Module]] = {
    norms.RMSNorm: FusedRMSNorm,
    norms.LayerNorm: FusedLayerNorm,
    norms.LlamaRMSNorm: FusedLlamaRMSNorm,
    norms.GemmaRMSNorm: FusedGemmaRMSNorm,
    norms.DynamicTanh: FusedDynamicTanh,
    norms.DynamicErf: FusedDynamicErf,
    nn.LayerNorm: FusedTorchLayerNorm,
    nn.RMSNorm: FusedTorchRMSNorm,
}


def sum_norm(norm: nn.Module, write: Tensor, stream: Tensor) -> tuple[Tensor, Tensor] | None:
    """Give norm(stream + write) and the sum itself in one kernel; None where there is none.

    Only for a write in the stream's own dtype: elsewhere the norm's result would change its own.
    """
    one = write.dtype == stream.dtype and write.shape == stream.shape
    if not one or not isinstance(norm, FusedRMSNorm | FusedLayerNorm):
        return None
    weight, bias = norm.weight, getattr(norm, "bias", None)
    if tuple(norm.normalized_shape) != write.shape[-1:] or not takes(write, stream, weight, bias):
        return None
    if isinstance(norm, FusedLayerNorm):
        return kernels().add_layer_norm(write, stream, weight, bias, norm.eps)
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    return kernels().add_rms_norm(write, stream, weight, eps)
