"""Norms whose forward pass is a kernel if possible: the same parameters, a different class.

Each class only overrides `forward`, so that a model is fused by changing the class of its modules.
The formula handles inputs that the kernel does not support.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit import norms
from labkit.fused.seam import accepts_tensors, get_kernels
from labkit.fused.sums import KERNELS, take_made


class FusedRMSNorm(norms.RMSNorm):
    """`RMSNorm` with the kernel `normkernels.rms_norm`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        shape, weight = self.normalized_shape, self.weight
        if x.shape[-len(shape) :] != shape or not accepts_tensors(x.flatten(-len(shape)), weight):
            return super().forward(x)
        made = take_made(self, x)
        if made is not None:
            return made
        weight = None if weight is None else weight.flatten()
        return get_kernels().rms_norm(x.flatten(-len(shape)), weight, self.eps).view(x.shape)


class FusedLayerNorm(norms.LayerNorm):
    """`LayerNorm` with the kernel `normkernels.layer_norm`."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        return _layer_norm(self, input, super().forward)


class FusedTorchLayerNorm(nn.LayerNorm):
    """torch's own module, for models from outside labkit; under autocast torch's code runs."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        if torch.is_autocast_enabled(input.device.type):
            return super().forward(input)
        return _layer_norm(self, input, super().forward)


class FusedTorchRMSNorm(nn.RMSNorm):
    """torch's own module, for models from outside labkit; under autocast torch's code runs."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the last axis; torch's code handles norms over several axes."""
        several = len(self.normalized_shape) != 1 or x.shape[-1:] != self.normalized_shape
        if (
            several
            or torch.is_autocast_enabled(x.device.type)
            or not accepts_tensors(x, self.weight)
        ):
            return super().forward(x)
        return get_kernels().rms_norm(x, self.weight, self.eps)


def _layer_norm(module: nn.LayerNorm, x: Tensor, formula: Any) -> Tensor:
    shape, weight, bias = tuple(module.normalized_shape), module.weight, module.bias
    fits = x.shape[-len(shape) :] == shape and module.eps >= 0
    if not fits or not accepts_tensors(x.flatten(-len(shape)), weight, bias):
        return formula(x)
    made = take_made(module, x)
    if made is not None:
        return made
    weight, bias = (p if p is None else p.flatten() for p in (weight, bias))
    return get_kernels().layer_norm(x.flatten(-len(shape)), weight, bias, module.eps).view(x.shape)


def call_kernel(name: str, norm: Any, x: Tensor, formula: Any) -> Tensor:
    """Normalize the last axis: use the result made with the sum, else the kernel or formula."""
    if x.shape[-1:] != norm.weight.shape or not accepts_tensors(x, norm.weight):
        return formula(x)
    made = take_made(norm, x)
    return getattr(get_kernels(), name)(x, norm.weight, norm.eps) if made is None else made


class FusedLlamaRMSNorm(norms.LlamaRMSNorm):
    """`LlamaRMSNorm` with the kernel `normkernels.rms_norm_llama`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return call_kernel("rms_norm_llama", self, x, super().forward)


class FusedGemmaRMSNorm(norms.GemmaRMSNorm):
    """`GemmaRMSNorm` with the kernel `normkernels.rms_norm_gemma`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return call_kernel("rms_norm_gemma", self, x, super().forward)


class FusedDynamicTanh(norms.DynamicTanh):
    """`DynamicTanh` with the kernel `normkernels.dynamic_tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        if not accepts_tensors(x, self.alpha, self.weight, self.bias):
            return super().forward(x)
        self.check_width(x)
        return get_kernels().dynamic_tanh(x, self.alpha, self.weight, self.bias)


class FusedDynamicErf(norms.DynamicErf):
    """`DynamicErf` with the kernel `normkernels.dynamic_erf`."""

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        if not accepts_tensors(x, self.alpha, self.shift, self.weight, self.bias):
            return super().forward(x)
        self.check_width(x)
        return get_kernels().dynamic_erf(x, self.alpha, self.shift, self.weight, self.bias)


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
KERNELS.update(
    {
        FusedRMSNorm: "rms_norm",
        FusedLayerNorm: "layer_norm",
        FusedLlamaRMSNorm: "rms_norm_llama",
        FusedGemmaRMSNorm: "rms_norm_gemma",
    }
)
