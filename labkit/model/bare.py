"""Bare perceptrons: linear layers, norms without gain or shift, and optional ReLUs.

    x ← relu(N(x W + b))  in every hidden layer      logits = x W + b

W (inputs, outputs) starts normal with variance 1 / inputs, b at 0. Without ReLUs only the norm is
nonlinear. With `ghost`, BatchNorm takes its statistics from a few rows of the batch: the noise of
small batches, without smaller batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms import BatchNorm, LayerNorm
from labkit.system.unknown import explain_unknown


class GhostBatchNorm(BatchNorm):
    """BatchNorm that standardizes groups of neighbouring rows separately in training.

        y = weight · (x − mean) / sqrt(var + eps) + bias    mean, var over `size` rows (and space)
        running ← (1 − momentum) · running + momentum · average of the groups' statistics

    Neighbours are adjacent in the batch, so shuffling makes new groups. In evaluation it is
    BatchNorm. Source: Hoffer, Hubara and Soudry 2017, arXiv 1705.08741.

    Raises:
        ValueError: `size` is below 2, or a training batch is not a multiple of it.
    """

    def __init__(self, num_features: int, size: int, **kwargs):
        super().__init__(num_features, **kwargs)
        if size < 2:
            raise ValueError(
                f"a group needs at least two rows, because one row has no variance, got size {size}"
            )
        self.size = size

    def _normalize(self, rows: Tensor, momentum: float) -> Tensor:
        if not self.training:
            return super()._normalize(rows, momentum)
        groups, left = divmod(len(rows), self.size)
        if left:
            raise ValueError(
                f"with groups of {self.size} rows, the batch size must be a multiple of "
                f"{self.size}, got {len(rows)}; change the batch size or the group size"
            )
        # A feature of one group becomes a feature of its own: (size, groups · features, …).
        apart = rows.unflatten(0, (groups, self.size)).transpose(0, 1).flatten(1, 2)
        weight, bias, mean, var = (
            None if part is None else part.repeat(groups)
            for part in (self.weight, self.bias, self.running_mean, self.running_var)
        )
        y = F.batch_norm(apart, mean, var, weight, bias, True, momentum, self.eps)
        for running, of_groups in ((self.running_mean, mean), (self.running_var, var)):
            if running is not None and of_groups is not None:
                running.copy_(of_groups.view(groups, -1).mean(dim=0))
        return y.unflatten(1, (groups, -1)).transpose(0, 1).flatten(0, 1)


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "none": lambda width: nn.Identity(),
    "layer": lambda width: LayerNorm(width, elementwise_affine=False),
    "batch": lambda width: BatchNorm(width, affine=False),
}


@dataclass(frozen=True)
class BareMLPConfig:
    """A perceptron on flattened inputs; invalid settings are refused when it is made."""

    norm: str = "none"  # a key of NORMS
    ghost: int | None = None  # for norm="batch": rows that share statistics; None: the batch
    relu: bool = True  # apply ReLU after a norm
    width: int = 64
    depth: int = 2  # hidden layers
    inputs: int = 64
    classes: int = 10

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(explain_unknown("norm", self.norm, NORMS))
        for field in ("width", "depth", "inputs", "classes"):
            if getattr(self, field) < 1:
                raise ValueError(f"{field} must be at least 1, got {getattr(self, field)}")
        if self.ghost is not None and self.norm != "batch":
            raise ValueError(
                "ghost applies only to norm='batch', whose rows share statistics, got "
                f"norm={self.norm!r}; leave out ghost"
            )
        self._make_norm()

    def build(self) -> nn.Sequential:
        """Make the network, drawing its weights from torch's current random state."""
        widths = [self.inputs, *[self.width] * self.depth, self.classes]
        *hidden, last = [torch.randn(a, b) / a**0.5 for a, b in pairwise(widths)]
        layers: list[nn.Module] = [nn.Flatten()]
        for weight in hidden:
            layers += [_make_linear(weight), self._make_norm()]
            layers += [nn.ReLU()] if self.relu else []
        return nn.Sequential(*layers, _make_linear(last))

    def _make_norm(self) -> nn.Module:
        if self.ghost is not None:
            return GhostBatchNorm(self.width, self.ghost, affine=False)
        return NORMS[self.norm](self.width)


def _make_linear(weight: Float[Tensor, "inputs outputs"]) -> nn.Linear:
    inputs, outputs = weight.shape
    linear = nn.Linear(inputs, outputs)
    linear.weight = nn.Parameter(weight.T.contiguous())
    nn.init.zeros_(linear.bias)
    return linear
