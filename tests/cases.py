"""One row for each norm: the paper's formula in float64, torch's module, what it is blind to.

A key of labkit.norms.NORMS without a row here fails a test.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from labkit import norms


@dataclass(frozen=True)
class Case:
    """What the tests need to know about one norm."""

    norm: str
    shapes: tuple[tuple[int, ...], ...]  # inputs; 12 features
    formula: Callable[..., Tensor]  # (x, weight, bias, eps) -> y, in float64, step by step
    function: Callable[..., Tensor]  # labkit's function, the same arguments
    module: Callable[..., nn.Module]  # (eps) -> labkit's module for 12 features
    torch_module: Callable[[float, tuple[int, ...]], nn.Module]  # (eps, shape) -> torch's
    blind_to: frozenset[str]  # what leaves the result as it is: scale, shift
    parameters: tuple[str, ...] = ("weight", "bias")


DIM = 12
ROWS = ((7, DIM), (DIM,), (2, 5, DIM), (2, 3, 4, DIM))
CHANNELS = ((9, DIM), (4, DIM, 5), (3, DIM, 4, 2), (2, DIM, 2, 3, 2))
BATCH_NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


def layer_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    mu = x.sum(-1, keepdim=True) / x.shape[-1]
    v = ((x - mu) ** 2).sum(-1, keepdim=True) / x.shape[-1]
    y = (x - mu) / torch.sqrt(v + eps)
    y = y if weight is None else weight * y
    return y if bias is None else y + bias


def rms_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    y = x / torch.sqrt((x**2).sum(-1, keepdim=True) / x.shape[-1] + eps)
    return y if weight is None else weight * y


def batch_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    columns = []
    for c in range(x.shape[1]):
        values = x[:, c]
        mu = values.sum() / values.numel()
        v = ((values - mu) ** 2).sum() / values.numel()
        y = (values - mu) / torch.sqrt(v + eps)
        y = y if weight is None else weight[c] * y
        columns.append(y if bias is None else y + bias[c])
    return torch.stack(columns, dim=1)


GROUPS = 3


def group_formula(x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    size = x.shape[1] // GROUPS
    parts = []
    for g in range(GROUPS):
        values = x[:, g * size : (g + 1) * size]
        axes = tuple(range(1, x.ndim))
        mu = values.mean(axes, keepdim=True)
        v = ((values - mu) ** 2).mean(axes, keepdim=True)
        parts.append((values - mu) / torch.sqrt(v + eps))
    y = torch.cat(parts, dim=1).movedim(1, -1)
    y = y if weight is None else weight * y
    return (y if bias is None else y + bias).movedim(-1, 1)


CASES = {
    case.norm: case
    for case in (
        Case(
            norm="layer",
            shapes=ROWS,
            formula=layer_formula,
            function=norms.layer_norm,
            module=lambda eps: norms.LayerNorm(DIM, eps=eps),
            torch_module=lambda eps, shape: nn.LayerNorm(DIM, eps=eps),
            blind_to=frozenset({"scale", "shift"}),
        ),
        Case(
            norm="rms",
            shapes=ROWS,
            formula=rms_formula,
            function=lambda x, weight, bias, eps: norms.rms_norm(x, weight, eps),
            module=lambda eps: norms.RMSNorm(DIM, eps=eps),
            torch_module=lambda eps, shape: nn.RMSNorm(DIM, eps=eps),
            blind_to=frozenset({"scale"}),
            parameters=("weight",),
        ),
        Case(
            norm="batch",
            shapes=CHANNELS,
            formula=batch_formula,
            function=lambda x, weight, bias, eps: norms.batch_norm(
                x, None, None, weight, bias, training=True, eps=eps
            ),
            module=lambda eps: norms.BatchNorm(DIM, eps=eps),
            torch_module=lambda eps, shape: BATCH_NORMS[len(shape)](DIM, eps=eps),
            blind_to=frozenset({"scale", "shift"}),
        ),
        Case(
            norm="group",
            shapes=CHANNELS,
            formula=group_formula,
            function=lambda x, weight, bias, eps: norms.group_norm(x, GROUPS, weight, bias, eps),
            module=lambda eps: norms.GroupNorm(GROUPS, DIM, eps=eps),
            torch_module=lambda eps, shape: nn.GroupNorm(GROUPS, DIM, eps=eps),
            blind_to=frozenset({"scale", "shift"}),
        ),
        Case(
            norm="none",
            shapes=ROWS,
            formula=lambda x, weight, bias, eps: x,
            function=lambda x, weight, bias, eps: x,
            module=lambda eps: nn.Identity(),
            torch_module=lambda eps, shape: nn.Identity(),
            blind_to=frozenset(),
            parameters=(),
        ),
    )
}


def parameters(case: Case, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
    """Draw a gain and a shift, where the norm has them."""
    weight = torch.randn(DIM).to(dtype) if "weight" in case.parameters else None
    bias = torch.randn(DIM).to(dtype) if "bias" in case.parameters else None
    return weight, bias
