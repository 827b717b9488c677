"""AdamW and SGD for N rows of weights at once, each row with numbers of its own; clipping too.

The formulas are torch's (Loshchilov and Hutter 2019, arXiv 1711.05101, for AdamW):

    AdamW  θ ← (1 − η λ) θ,  m ← β₁ m + (1 − β₁) g,  v ← β₂ v + (1 − β₂) g²
           θ ← θ − η/(1 − β₁ᵗ) · m / (sqrt(v) / sqrt(1 − β₂ᵗ) + 1e-8)
    SGD    b ← μ b + g + λ θ,  θ ← θ − η b
    clip   g ← g · min(1, c / (|g| + 1e-6))     |g| over a whole row

All numbers of a step are one tensor (numbers, N, 1): a step reads no Python number that changes,
so that it can be captured once and replayed.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from labkit.training import TrainConfig

EPS = 1e-8  # AdamW's, as torch has it
TOGETHER = ("adamw", "sgd")


def explain_refusal(config: TrainConfig) -> str:
    """Return why runs trained like this cannot train together; empty where they can."""
    if config.optimizer not in TOGETHER:
        return f"{config.optimizer} is not among the batched optimizers"
    return ""


def numbers_of(configs: Sequence[TrainConfig], decays: Sequence[float]) -> Tensor:
    """Compute what every step multiplies by: (steps, numbers, N, 1) in float64."""
    table = _compute_adamw_numbers if configs[0].optimizer == "adamw" else _compute_sgd_numbers
    steps = range(configs[0].steps)
    rows = [
        [table(config, decay, step) for config, decay in zip(configs, decays, strict=True)]
        for step in steps
    ]
    return torch.tensor(rows, dtype=torch.float64).transpose(1, 2).unsqueeze(-1)


def _compute_adamw_numbers(config: TrainConfig, decay: float, step: int) -> tuple[float, ...]:
    lr, (first, second) = config.lr_at(step), config.betas
    corrected = lr / (1 - first ** (step + 1)), (1 - second ** (step + 1)) ** 0.5
    return _get_clip(config), 1 - lr * decay, 1 - first, 1 - second, *corrected


def _compute_sgd_numbers(config: TrainConfig, decay: float, step: int) -> tuple[float, ...]:
    return _get_clip(config), decay, config.momentum, config.lr_at(step)


def _get_clip(config: TrainConfig) -> float:
    return math.inf if config.clip is None else config.clip


class Optimizer:
    """The state of N optimizers; a call makes one step of all, in place."""

    def __init__(self, weights: Tensor, gradients: Tensor, configs: Sequence[TrainConfig]):
        self.weights, self.gradients = weights, gradients
        self.clips = any(config.clip is not None for config in configs)
        self.adam = configs[0].optimizer == "adamw"
        self.mean = torch.zeros_like(weights)  # SGD's momentum
        self.square = torch.zeros_like(weights) if self.adam else None
        self.scratch = torch.empty_like(weights)

    def __call__(self, numbers: Tensor) -> None:
        """Make one step with the step's row of `numbers_of`."""
        clip, *rest = numbers
        if self.clips:
            length = torch.linalg.vector_norm(self.gradients, dim=1, keepdim=True)
            share = (clip / (length + 1e-6)).clamp(max=1)
            self.gradients.mul_(share.where(clip.isfinite(), 1.0))
        if self.adam:
            self._step_adamw(*rest)
        else:
            self._step_sgd(*rest)

    def _step_adamw(
        self, keep: Tensor, new: Tensor, newer: Tensor, lr: Tensor, root: Tensor
    ) -> None:
        assert self.square is not None
        self.weights.mul_(keep)
        self.mean.lerp_(self.gradients, new)
        # As torch does it: g² alone overflows at gradients that training alone survives.
        torch.mul(self.gradients, newer, out=self.scratch)
        self.square.mul_(1 - newer).addcmul_(self.scratch, self.gradients)
        torch.sqrt(self.square, out=self.scratch).div_(root).add_(EPS)
        torch.div(self.mean, self.scratch, out=self.scratch)
        self.weights.sub_(self.scratch.mul_(lr))

    def _step_sgd(self, decay: Tensor, momentum: Tensor, lr: Tensor) -> None:
        self.mean.mul_(momentum).add_(self.gradients)
        torch.mul(self.weights, decay, out=self.scratch)
        self.mean.add_(self.scratch)
        torch.mul(self.mean, lr, out=self.scratch)
        self.weights.sub_(self.scratch)
