"""What a training step costs, counted and never timed: the same number on every machine.

operations   3 · (forward matrix products + norms' arithmetic): backward is twice forward
kept         bytes that autograd keeps for the backward pass, each storage once, parameters out
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from labkit.costs import cost_of
from labkit.model import ModelConfig
from labkit.training import loss_of

BACKWARD = 3  # forward once, backward twice as much


@dataclass(frozen=True)
class Footprint:
    """Costs of one training step."""

    parameters: int
    operations: float  # of a step
    norm_share: float  # of the operations that are norms' arithmetic
    norms: int  # vectors normalized for each token, forward
    kept: int  # bytes kept for the backward pass


def count_footprint(config: ModelConfig, batch: int, time: int) -> Footprint:
    """Count what one step on `batch` windows of `time` tokens costs."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = replace(config, context=max(config.context, time)).build()
        tokens = torch.randint(config.vocab, (batch, time))
    if hasattr(model, "before_training"):
        model.before_training(tokens)
    forward = cost_of(model, tokens)
    whole = forward.matrix_flops + forward.norm_operations
    return Footprint(
        sum(p.numel() for p in model.parameters()),
        BACKWARD * whole * tokens.numel(),
        forward.norm_operations / whole,
        forward.norms,
        _count_kept_bytes(model, tokens),
    )


def _count_kept_bytes(model: torch.nn.Module, tokens: Tensor) -> int:
    """Add up the storages that autograd saves in a forward pass, parameters left out."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen: dict[int, Tensor] = {}  # keeps them alive: an address must not come twice

    def note_storage(tensor: Tensor) -> Tensor:
        seen.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note_storage, lambda tensor: tensor):
        loss = loss_of(model, tokens, tokens)
    total = sum(t.untyped_storage().nbytes() for at, t in seen.items() if at not in own)
    del loss
    return total
