"""Cost of a training step, counted rather than timed: the same number on every machine.

operations   3 · (forward matrix products + norms' arithmetic): backward counts twice forward
kept         bytes that autograd saves for the backward pass, each storage once, no parameters
"""

from dataclasses import dataclass, replace

import torch

from labkit.costs.operations import cost_of, kept_bytes
from labkit.model import ModelConfig
from labkit.training import loss_of, prepare_model

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
    """Count the costs of one step on `batch` windows of `time` tokens."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = replace(config, context=max(config.context, time)).build()
        tokens = torch.randint(config.vocab, (batch, time))
    prepare_model(model, tokens)
    forward = cost_of(model, tokens)
    whole = forward.matrix_flops + forward.norm_operations
    return Footprint(
        sum(p.numel() for p in model.parameters()),
        BACKWARD * whole * tokens.numel(),
        forward.norm_operations / whole,
        forward.norms,
        kept_bytes(lambda: loss_of(model, tokens, tokens), model.parameters()),
    )
