"""Initializations by name: how large the weights of a transformer start.

Matrices are drawn independently; embeddings are normal with the standard deviation named below;
gains start at 1 and shifts at 0 as their norms make them.

    normal        every matrix N(0, 1/(2.5 dim)), truncated at three standard deviations
    megatron      as normal; attention-output and feed-forward-output matrices ÷ sqrt(2 · depth)
    depth-scaled  inputs N(0, 1/dim); outputs of layer ℓ N(0, 1/(2 fan_in ℓ)), ℓ from 1
    gpt2          every matrix N(0, 0.02²); output matrices ÷ sqrt(2 · depth)
    xavier        every matrix N(0, 2/(fan_in + fan_out)): Xavier with gain 1
    half-xavier   Xavier with gain 1/2

Sources: Xavier: Glorot and Bengio 2010; gpt2: Radford et al. 2019; normal, megatron and
depth-scaled: as in the HybridNorm paper, arXiv 2503.04598, and its code.
"""

from collections.abc import Callable

import torch
from torch import nn

# The matrices that write to the residual stream, by the last part of their name.
OUTPUTS = ("out", "down")


def _truncated(weight: torch.Tensor, std: float) -> None:
    nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std)


def _normal(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    _truncated(weight, (2.5 * dim) ** -0.5)


def _megatron(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    _truncated(weight, (2.5 * dim * (2 * depth if is_output else 1)) ** -0.5)


def _depth_scaled(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    fan_in = weight.shape[1]
    _truncated(weight, (2 * fan_in * layer) ** -0.5 if is_output else dim**-0.5)


def _gpt2(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    nn.init.normal_(weight, std=0.02 / ((2 * depth) ** 0.5 if is_output else 1))


def _xavier(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    nn.init.xavier_normal_(weight)


def _half_xavier(weight: torch.Tensor, layer: int, depth: int, is_output: bool, dim: int) -> None:
    nn.init.xavier_normal_(weight, gain=0.5)


INITS: dict[str, Callable[[torch.Tensor, int, int, bool, int], None]] = {
    "normal": _normal,
    "megatron": _megatron,
    "depth-scaled": _depth_scaled,
    "gpt2": _gpt2,
    "xavier": _xavier,
    "half-xavier": _half_xavier,
}


def initialize(model: nn.Module, name: str, *, dim: int, depth: int) -> None:
    """Draw every matrix of `model` by the rule called `name`, in the order of their names.

    A matrix below `blocks.<i>` belongs to layer i + 1; any other counts as layer 1.
    """
    if name not in INITS:
        raise ValueError(f"unknown initialization {name!r}; choose one of {', '.join(INITS)}")
    for path, module in model.named_modules():
        parts = path.split(".")
        layer = int(parts[1]) + 1 if parts[0] == "blocks" and len(parts) > 1 else 1
        if isinstance(module, nn.Linear):
            INITS[name](module.weight, layer, depth, parts[-1] in OUTPUTS, dim)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=dim**-0.5)
