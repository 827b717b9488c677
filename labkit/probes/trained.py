"""Functions of a trained transformer and one held-out batch."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch.nn.functional as F
from torch import nn

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.probes.look import residual_streams, untouched
from labkit.training import Observer, loss_of


class OnTrained(Observer):
    """One function of the trained transformer and one held-out batch."""

    def __init__(self, name: str, batch: Batch, measure: Callable[[Transformer, Batch], Any]):
        self.name, self.batch, self.measure = name, batch, measure

    def result(self, model: nn.Module) -> Any:
        """Measure without touching the model."""
        if not isinstance(model, Transformer):
            raise TypeError(f"probe {self.name!r} needs a Transformer, got {type(model).__name__}")
        with untouched(model, training=False):
            return self.measure(model, self.batch)


def residual_rms(model: Transformer, batch: Batch) -> list[float]:
    """Typical size of the stream after the embedding and each block: sqrt(mean x²)."""
    return [x.square().mean().sqrt().item() for x in residual_streams(model, batch[0])]


def layer_cosine(model: Transformer, batch: Batch) -> list[float]:
    """Mean cosine between the stream before and after each block: near 1, it hardly turns it."""
    streams = residual_streams(model, batch[0])
    return [F.cosine_similarity(a, b, dim=-1).mean().item() for a, b in pairwise(streams)]


def removal_cost(model: Transformer, batch: Batch) -> list[float]:
    """Rise of the loss (nats) when one block is skipped and its input passed on."""
    whole = loss_of(model, *batch).item()
    costs = []
    for block in model.blocks:
        hook = block.register_forward_hook(lambda _, inputs, output: inputs[0])
        costs.append(loss_of(model, *batch).item() - whole)
        hook.remove()
    return costs


def activation_extremes(model: Transformer, batch: Batch) -> list[float]:
    """Largest magnitude over root mean square of the stream after the embedding and each block."""
    streams = residual_streams(model, batch[0])
    return [(x.abs().max() / x.square().mean().sqrt()).item() for x in streams]


def early_answers(model: Transformer, batch: Batch) -> dict[str, list[float]]:
    """Read the output off the stream early: after the embedding and after each block.

    `agreement`: share of positions whose top token is already the one that the model ends on.
    `confidence`: mean probability of that early top token.
    """
    early = [model.output(model.final_norm(x)) for x in residual_streams(model, batch[0])]
    last = early[-1].argmax(dim=-1)
    return {
        "agreement": [(x.argmax(dim=-1) == last).float().mean().item() for x in early],
        "confidence": [x.softmax(dim=-1).amax(dim=-1).mean().item() for x in early],
    }


def measure_leakage(model: Transformer, batch: Batch) -> dict[str, float]:
    """How far information flows that must not, in training mode: change one thing, watch logits.

    `earlier`: largest change of a logit before the last token when only last tokens change.
    `others`: largest change of any logit of the first example when the others change.
    """
    tokens = batch[0][:16]
    last, others = tokens.clone(), tokens.clone()
    last[:, -1] = (last[:, -1] + 1) % model.config.vocab
    others[1:] = (others[1:] + 1) % model.config.vocab
    model.train()
    before = model(tokens)
    return {
        "earlier": (model(last) - before)[:, :-1].abs().max().item(),
        "others": (model(others) - before)[0].abs().max().item(),
    }


TRAINED: dict[str, Callable[[Transformer, Batch], Any]] = {
    "residual-rms": residual_rms,
    "layer-cosine": layer_cosine,
    "removal-cost": removal_cost,
    "activation-extremes": activation_extremes,
    "early-answers": early_answers,
    "leakage": measure_leakage,
}
