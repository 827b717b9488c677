"""AdamW, SGD and clipping for N rows of weights at once, with separate numbers for each row.

The formulas are torch's (Loshchilov and Hutter 2019, arXiv 1711.05101, for AdamW):

    AdamW  θ ← (1 − η λ) θ,  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
           θ ← θ − η/(1 − β₁ᵗ) · m / (sqrt(v) / sqrt(1 − β₂ᵗ) + 1e-8)
    SGD    b ← μ b + g + λ θ,  θ ← θ − η b
    clip   g ← g · min(1, c / (|g| + 1e-6))     |g| over a whole row
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from labkit.training import TrainConfig

EPS = 1e-8  # AdamW's, as torch has it


class Optimizer:
    """The state of N optimizers, which may differ in all numbers except the number of steps."""

    def __init__(
        self,
        weights: Tensor,
        gradients: Tensor,
        configs: Sequence[TrainConfig],
        decays: Sequence[float],
        decayed: Tensor | None = None,
    ):
        """Prepare the numbers of all steps. `decayed` (P,): the weights that decay; None: all."""
        self.weights, self.gradients, self.decayed = weights, gradients, decayed
        self.adam = configs[0].optimizer == "adamw"
        self.clips = any(config.clip is not None for config in configs)
        list_numbers = _list_adamw_numbers if self.adam else _list_sgd_numbers
        table = [
            [
                list_numbers(config, decay, step)
                for config, decay in zip(configs, decays, strict=True)
            ]
            for step in range(configs[0].steps)
        ]
        # By step and number, a column of rows.
        self.numbers = (
            torch.tensor(table, dtype=torch.float64).transpose(1, 2)[..., None].to(weights)
        )
        self.mean = torch.zeros_like(weights)  # SGD's momentum
        self.square = torch.zeros_like(weights)

    def update_weights(self, step: int) -> None:
        """Take optimizer step `step` (from 0) for all rows, in place."""
        clip, *numbers = self.numbers[step]
        if self.clips:
            length = torch.linalg.vector_norm(self.gradients, dim=1, keepdim=True)
            share = (clip / (length + 1e-6)).clamp(max=1)
            self.gradients.mul_(share.where(clip.isfinite(), 1.0))
        if self.adam:
            keep, new, newer, lr, root = numbers
            self.weights.mul_(keep if self.decayed is None else keep.where(self.decayed, 1.0))
            self.mean.lerp_(self.gradients, new)
            # As in torch: g² overflows at gradients that a single model's training survives.
            self.square.mul_(1 - newer).addcmul_(self.gradients * newer, self.gradients)
            scale = self.square.sqrt().div_(root).add_(EPS)
            self.weights.sub_((self.mean / scale).mul_(lr))
        else:
            decay, momentum, lr = numbers
            decay = decay if self.decayed is None else decay.where(self.decayed, 0.0)
            self.mean.mul_(momentum).add_(self.gradients).add_(self.weights * decay)
            self.weights.sub_(self.mean * lr)


def _list_adamw_numbers(config: TrainConfig, decay: float, step: int) -> tuple[float, ...]:
    lr, (first, second) = config.lr_at(step), config.betas
    corrected = lr / (1 - first ** (step + 1)), (1 - second ** (step + 1)) ** 0.5
    return _get_clip(config), 1 - lr * decay, 1 - first, 1 - second, *corrected


def _list_sgd_numbers(config: TrainConfig, decay: float, step: int) -> tuple[float, ...]:
    return _get_clip(config), decay, config.momentum, config.lr_at(step)


def _get_clip(config: TrainConfig) -> float:
    return math.inf if config.clip is None else config.clip
