"""A model whose gradients are stored in a narrow format: it shows what a loss scale is for.

    backward     round(S · ∂L/∂logits) at the top, rounded between any two modules on the way down,
                 round(S · ∂L/∂w) / S at each weight

So a float32 model trains like one in mixed precision: products are summed in float32, gradients are
rounded when stored, and the weights and Adam's moments stay float32. The forward pass is exact. A
gradient that overflows ends the run: its step is not skipped. Source: Micikevicius et al. 2018,
arXiv 1710.03740, section 3.2.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.formats import FORMATS, round_to_format
from labkit.model.config import ModelConfig
from labkit.model.transformer import Transformer
from labkit.system.unknown import explain_unknown


@dataclass(frozen=True)
class ScaledGradients(ModelConfig):
    """A model with a format for its gradients and a constant loss scale."""

    gradient_format: str = "float16"  # a key of labkit.formats.FORMATS
    loss_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gradient_format not in FORMATS:
            raise ValueError(explain_unknown("format", self.gradient_format, FORMATS))
        if not 0 < self.loss_scale < math.inf:
            raise ValueError(f"loss_scale must be above 0 and finite, got {self.loss_scale}")

    def build(self) -> Transformer:
        """Make the model, with the initial weights that it would have without a format."""
        return ScaledTransformer(self)


class ScaledTransformer(Transformer):
    """A transformer whose gradients are scaled, rounded, and scaled back."""

    config: ScaledGradients

    def __init__(self, config: ScaledGradients):
        super().__init__(config)
        for module in self.modules():
            if module is not self:
                module.register_forward_hook(self._round_gradient_of_output)
        for weight in self.parameters():
            weight.register_hook(self._scale_back)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Compute logits whose gradient is scaled up and rounded."""
        logits = super().forward(*inputs, **named)
        return _Rounded.apply(logits, self.config.gradient_format, self.config.loss_scale)

    def _round_gradient_of_output(self, module: nn.Module, args: tuple, output: Any) -> Any:
        if not isinstance(output, Tensor):
            return output
        return _Rounded.apply(output, self.config.gradient_format, 1.0)

    def _scale_back(self, gradient: Tensor) -> Tensor:
        return round_to_format(gradient, self.config.gradient_format) / self.config.loss_scale


class _Rounded(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a scale and rounded."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, scale: float) -> Tensor:
        ctx.name, ctx.scale = name, scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return round_to_format(gradients[0] * ctx.scale, ctx.name), None, None
