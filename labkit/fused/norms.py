"""Norms whose forward pass is a kernel where it can be: the same parameters, another class.

Each class adds nothing to the norm it derives from but a `forward`, so that a model changes sides
by changing the class of its modules. What the kernel does not take, the formula does.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from labkit import norms
from labkit.fused.seam import accepts_tensors, get_kernels


class FusedRMSNorm(norms.RMSNorm):
    """`RMSNorm` by `normkernels.rms_norm`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
        shape, weight = self.normalized_shape, self.weight
        if x.shape[-len(shape) :] != shape or not accepts_tensors(x.flatten(-len(shape)), weight):
            return super().forward(x)
        weight = None if weight is None else weight.flatten()
        return get_kernels().rms_norm(x.flatten(-len(shape)), weight, self.eps).view(x.shape)


class FusedLayerNorm(norms.LayerNorm):
    """`LayerNorm` by `normkernels.layer_norm`."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalize the trailing axes that `normalized_shape` names."""
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
    weight, bias = (p if p is None else p.flatten() for p in (weight, bias))
    return get_kernels().layer_norm(x.flatten(-len(shape)), weight, bias, module.eps).view(x.shape)


class FusedLlamaRMSNorm(norms.LlamaRMSNorm):
    """`LlamaRMSNorm` by `normkernels.rms_norm_llama`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        if not accepts_tensors(x, self.weight):
            return super().forward(x)
        self.check_width(x)
        return get_kernels().rms_norm_llama(x, self.weight, self.eps)


class FusedGemmaRMSNorm(norms.GemmaRMSNorm):
    """`GemmaRMSNorm` by `normkernels.rms_norm_gemma`."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        if not accepts_tensors(x, self.weight):
            return super().forward(x)
        self.check_width(x)
        return get_kernels().rms_norm_gemma(x, self.weight, self.eps)


class FusedDynamicTanh(norms.DynamicTanh):
    """`DynamicTanh` by `normkernels.dynamic_tanh`."""

    def forward(self, x: Tensor) -> Tensor:
        """Squash each value."""
        if not accepts_tensors(x, self.alpha, self.weight, self.bias):
            return super().forward(x)
        self.check_width(x)
        return get_kernels().dynamic_tanh(x, self.alpha, self.weight, self.bias)


class FusedDynamicErf(norms.DynamicErf):
    """`DynamicErf` by `normkernels.dynamic_erf`."""

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


def is_plain(module: nn.Module) -> bool:
    """Return whether its class alone decides what a module does: no hook, no forward of its own.

    What a kernel computes past a module, the module's hooks would not see.
    """
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    own = "forward" in module.__dict__ or any(getattr(module, kind) for kind in hooks)
    return not (own or _has_any_global_hook())


def sum_norm(norm: nn.Module, write: Tensor, stream: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return norm(stream + write) and the sum itself in one kernel; None where there is none."""
    centred = type(norm) is FusedLayerNorm
    if not (centred or type(norm) is FusedRMSNorm) or not is_plain(norm):
        return None
    weight, bias = norm.weight, getattr(norm, "bias", None)  # pyright: ignore
    shape, dim = norm.normalized_shape, write.shape[-1:]  # pyright: ignore
    freed = weight is not None and weight.shape != dim  # as sharded training does between steps
    fits = tuple(shape) == dim and write.shape == stream.shape and not freed
    if not fits or not accepts_tensors(write, stream, weight, bias):
        return None
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps  # pyright: ignore
    # After `centred`: round the sum first; a result as wide as the sum, as autocast has it, whose
    # writes are narrower than the stream; add 0 to the gain; do not round before it.
    return get_kernels().add_norm.sum_norm(
        write, stream, weight, bias, eps, 1.0, centred, True, True, 0.0, False
    )
