"""Muon: momentum, made orthogonal, for the matrices inside blocks; AdamW for everything else.

    m ← μ m + g,   u = g + μ m,   θ ← (1 − η λ) θ − η · 0.2 · sqrt(max(rows, columns)) · NS(u)

NS brings all singular values of u near 1 by five Newton–Schulz steps X ← aX + (bA + cA²)X with
A = XXᵀ. Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon, for NS and μ;
Liu et al. 2025, arXiv 2502.16982, for the factor, which gives an update AdamW's usual size, so
that one learning rate serves both kinds of parameters.
"""

from collections.abc import Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # a, b, c: steep at 0, not exact at 1
MOMENTUM = 0.95  # μ


def orthogonalize(
    matrices: Float[Tensor, "many rows columns"],
) -> Float[Tensor, "many rows columns"]:
    """Replace the singular values of each matrix by numbers near 1 (0.7 to 1.2)."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Muon for the matrices below `blocks`, AdamW for the rest; both at the group's rate."""

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.98),
        weight_decay: float = 0.0,
    ):
        """Sort the parameters; a model without matrices in blocks is refused."""
        parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
        for name, parameter in named:
            parts[name.startswith("blocks.") and parameter.ndim == 2].append(parameter)
        if not parts[True]:
            raise ValueError(
                "Muon needs matrices below `blocks`, as Transformer and ViT have them, and this "
                "model has none; take adamw or sgd"
            )
        self.decay = weight_decay
        self.adamw = torch.optim.AdamW(
            parts[False], lr, betas, weight_decay=weight_decay, fused=True
        )
        super().__init__([{"params": parts[True]}, {"params": parts[False]}], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make one step of both; matrices of one shape are made orthogonal together."""
        matrices, rest = self.param_groups
        shapes: dict[torch.Size, list[Tensor]] = {}
        for parameter in matrices["params"]:
            if parameter.grad is not None:
                shapes.setdefault(parameter.shape, []).append(parameter)
        for shape, alike in shapes.items():
            updates = orthogonalize(torch.stack([self._apply_nesterov(p) for p in alike]))
            size = matrices["lr"] * 0.2 * max(shape) ** 0.5
            for parameter, update in zip(alike, updates, strict=True):
                parameter.mul_(1 - matrices["lr"] * self.decay).sub_(update, alpha=size)
        self.adamw.param_groups[0]["lr"] = rest["lr"]
        self.adamw.step()

    def _apply_nesterov(self, parameter: Tensor) -> Tensor:
        """Fold the gradient into its running sum and look one step ahead."""
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if "sum" not in state:
            state["sum"] = torch.zeros_like(parameter)
        state["sum"].mul_(MOMENTUM).add_(gradient)
        return gradient + MOMENTUM * state["sum"]
