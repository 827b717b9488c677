"""Measures of a trained model on held-out batches: loss, accuracy, and functions of both."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.probes.look import outputs_of, require_transformer, residual_streams, untouched
from labkit.training import Observer, loss_of

# Held-out batches are joined up to this many predictions, because small ones are inefficient.
_JOINED = 4096
CONTRASTS = (0.125, 0.25, 0.5, 1.0)


class Evaluate(Observer):
    """Loss (nats per prediction) and accuracy of the trained model on held-out batches.

    With `batch_statistics` the model is evaluated in training mode: BatchNorm then uses each
    held-out batch's own statistics in place of the running ones.
    """

    def __init__(self, name: str, batches: list[Batch], batch_statistics: bool = False):
        self.name, self.batch_statistics = name, batch_statistics
        self.batches = batches if batch_statistics else _join_batches(batches)

    def result(self, model: nn.Module) -> dict[str, float]:
        """Average over all predictions of all batches."""
        loss, right, count = 0.0, 0, 0
        with untouched(model, training=self.batch_statistics):
            for inputs, targets in self.batches:
                logits = model(inputs).flatten(0, -2)
                flat = targets.flatten()
                loss += F.cross_entropy(logits, flat, reduction="sum").item()
                right += int((logits.argmax(dim=-1) == flat).sum())
                count += flat.numel()
        return {"loss": loss / count, "accuracy": right / count}


def _join_batches(batches: list[Batch]) -> list[Batch]:
    """Join batches of the same shape, so that sums over all do not depend on the batch size."""
    if len({(inputs.shape[1:], targets.shape[1:]) for inputs, targets in batches}) != 1:
        return batches
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    rows = max(1, _JOINED // targets[0].numel())
    return list(zip(inputs.split(rows), targets.split(rows), strict=True))


class Contrasts(Observer):
    """Loss and accuracy on the test images at different contrasts: grey values times a factor.

    Raises:
        TypeError: the inputs are tokens.
    """

    name = "contrast"

    def __init__(self, corpus: Corpus):
        self.batches = corpus.held_out["test"]
        if not (found := self.batches[0][0]).is_floating_point():
            raise TypeError(f"probe 'contrast' needs images, got inputs of dtype {found.dtype}")

    def result(self, model: nn.Module) -> dict[str, list[float]]:
        """Average over all predictions, by contrast."""
        found = [
            Evaluate("test", [(c * inputs, targets) for inputs, targets in self.batches])
            for c in CONTRASTS
        ]
        judged = [evaluate.result(model) for evaluate in found]
        return {
            "contrast": [*CONTRASTS],
            "loss": [one["loss"] for one in judged],
            "accuracy": [one["accuracy"] for one in judged],
        }


class OnTrained(Observer):
    """A function of the trained transformer and one held-out batch."""

    def __init__(self, name: str, batch: Batch, measure: Callable[[Transformer, Batch], Any]):
        self.name, self.batch, self.measure = name, batch, measure

    def result(self, model: nn.Module) -> Any:
        """Measure without changing the model."""
        transformer = require_transformer(model, self.name)
        with untouched(model, training=False):
            return self.measure(transformer, self.batch)


def residual_rms(model: Transformer, batch: Batch) -> list[float]:
    """Return the root mean square of the stream after the embedding and each block."""
    return [x.square().mean().sqrt().item() for x in residual_streams(model, batch[0])]


def mean_share(model: Transformer, batch: Batch) -> list[float]:
    """Average mean(x)² / mean(x²) over tokens: after the embedding and each block.

    It is the squared cosine between the token and the constant vector; a random direction of
    d channels has 1/d on average.
    """
    return [
        (x.mean(dim=-1).square() / x.square().mean(dim=-1).clamp(min=1e-30)).mean().item()
        for x in residual_streams(model, batch[0])
    ]


def layer_cosine(model: Transformer, batch: Batch) -> list[float]:
    """Return the mean cosine between the streams before and after each block; 1: no rotation."""
    streams = residual_streams(model, batch[0])
    return [F.cosine_similarity(a, b, dim=-1).mean().item() for a, b in pairwise(streams)]


def removal_cost(model: Transformer, batch: Batch) -> list[float]:
    """Return the increase of the loss (nats) when each block in turn is skipped."""
    whole = loss_of(model, *batch).item()
    costs = []
    for block in model.blocks:
        with block.register_forward_hook(lambda _, inputs, output: inputs[0]):
            costs.append(loss_of(model, *batch).item() - whole)
    return costs


def activation_extremes(model: Transformer, batch: Batch) -> list[float]:
    """Return max |x| / RMS(x) of the stream after the embedding and after each block."""
    streams = residual_streams(model, batch[0])
    return [(x.abs().max() / x.square().mean().sqrt()).item() for x in streams]


def largest_output(model: Transformer, batch: Batch) -> float:
    """Return the largest magnitude of the output logits, before a cap."""
    (logits,) = outputs_of([model.output], model, batch[0])
    return model.space.scale_logits(model, logits).abs().max().item()


def measure_leakage(model: Transformer, batch: Batch) -> dict[str, float]:
    """Measure information leaks in training mode: change one input, compare the logits.

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


def make_on_trained(
    name: str, measure: Callable[[Transformer, Batch], Any]
) -> Callable[[Corpus], Observer]:
    """Return a function that makes a probe of the trained model on one held-out batch."""
    return lambda corpus: OnTrained(name, corpus.held_out["test"][0], measure)


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "validation": lambda corpus: Evaluate("validation", corpus.held_out["validation"]),
    "test": lambda corpus: Evaluate("test", corpus.held_out["test"]),
    "test-batch-statistics": lambda corpus: Evaluate(
        "test-batch-statistics", corpus.held_out["test"], batch_statistics=True
    ),
    "contrast": Contrasts,
    **{
        name: make_on_trained(name, measure)
        for name, measure in {
            "residual-rms": residual_rms,
            "layer-cosine": layer_cosine,
            "removal-cost": removal_cost,
            "activation-extremes": activation_extremes,
            "largest-output": largest_output,
            "leakage": measure_leakage,
            "mean-share": mean_share,
        }.items()
    },
}
