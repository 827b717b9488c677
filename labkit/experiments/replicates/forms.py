"""Forms of a few modules that vmap takes: the same functions, other operations.

attention   vmap has no rule for torch's fused attention on every device, and would run it row by
            row: here rows join the batch
RMSNorm     on the CPU labkit's is an autograd function of its own, which vmap refuses: the formula

Everything else of labkit's is made of operations that vmap knows, but for models that look at
numbers of a tensor to decide what to do, or that draw random ones: see `stack.NotTogether`.
"""

from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.attention import Attention
from labkit.context import Context
from labkit.norms import GemmaRMSNorm, LlamaRMSNorm, RMSNorm, T5RMSNorm, rms_norm


def adapt(model: nn.Module) -> nn.Module:
    """Give the modules of a model, in place, the forms that vmap takes."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.attend = MethodType(_attend, module)
        elif type(module) is RMSNorm:
            module.forward = MethodType(_rms_norm, module)
        elif type(module) in (GemmaRMSNorm, LlamaRMSNorm, T5RMSNorm):
            module.forward = MethodType(_gained, module)
    return model


def _rms_norm(norm: RMSNorm, x: Tensor) -> Tensor:
    axes = len(norm.normalized_shape)
    weight = None if norm.weight is None else norm.weight.flatten()
    return rms_norm(x.flatten(-axes), weight, norm.eps).view(x.shape)


def _gained(norm: Any, x: Tensor) -> Tensor:
    return type(norm).function(x, norm.weight, norm.eps)


def _attend(layer: Attention, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
    padding = context.memory_padding if layer.cross else context.padding
    seen = layer.softcap is not None or layer.chain is not None or layer.clip
    if padding is not None or seen:  # somebody sees the logits: they are there
        return type(layer).attend(layer, q, k, v, context)
    scale = None if layer.temperature is None else 1.0
    return _Attend.apply(q, k, v, layer.causal, scale, layer.kv_heads != layer.heads)


class _Attend(torch.autograd.Function):
    """torch's fused attention; rows that vmap adds join the batch."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None, gqa: bool):
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, scale=scale, enable_gqa=gqa
        )

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass  # vmap stands outside of autograd, which sees the operation itself

    @staticmethod
    def vmap(info, in_dims, q, k, v, causal, scale, gqa):  # pyright: ignore[reportIncompatibleMethodOverride]
        rows = [
            x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
            for x, dim in zip((q, k, v), in_dims[:3], strict=True)
        ]
        flat = [x.flatten(0, 1) for x in rows]
        mixed = F.scaled_dot_product_attention(*flat, is_causal=causal, scale=scale, enable_gqa=gqa)
        return mixed.unflatten(0, rows[0].shape[:2]), 0
