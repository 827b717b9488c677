"""Values other than the stream that are shared by the sublayers of one forward pass.

A new `Context` is made for every forward pass, so nothing of one pass reaches the next.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from labkit.norms import InstanceNorm


@dataclass
class Context:
    """Values that blocks pass on; blocks change `scores`, `total` and `entry`."""

    angles: Float[Tensor, "time pairs"] | None = None  # rotary positions; None: none
    padding: Bool[Tensor, "batch time"] | None = None  # True where a token is real; None: all are
    memory: Float[Tensor, "batch source dim"] | None = None  # the input of cross-attention
    memory_padding: Bool[Tensor, "batch source"] | None = None
    scores: dict[str, Tensor] = field(default_factory=dict)  # RealFormer: logits so far, by chain
    total: Tensor | None = None  # ResiDual: the sum of all writes, never normalized
    entry: Tensor | None = None  # B2T: the stream at the start of the current block
    turns: tuple[Tensor, Tensor] | None = None  # cos and sin of the angles, for fused attention
    # The same for all heads side by side, by how many they are and their dtype: attention.rotary.
    rotations: dict[tuple[int, torch.dtype], tuple[Tensor, Tensor]] = field(default_factory=dict)
    # The stream that a fused step has already normalized, by the next norm: labkit.fused.steps.
    ready: dict[nn.Module, Callable[[Tensor], Tensor | None]] = field(default_factory=dict)


def apply_norm(norm: nn.Module, x: Tensor, context: Context | None) -> Tensor:
    """Apply a norm; pass the padding mask to a norm whose statistics run over tokens."""
    made = None if context is None else context.ready.get(norm)
    if made is not None and (result := made(x)) is not None:
        return result
    if context is None or context.padding is None:
        return norm(x)
    if isinstance(norm, InstanceNorm):
        raise ValueError(
            "instance norm averages over the sequence and has no mask, so padding would change "
            "real tokens; use sequences of equal length, or choose another norm"
        )
    return norm(x, mask=context.padding) if getattr(norm, "takes_mask", False) else norm(x)
