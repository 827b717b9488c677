"""Loss and accuracy on held-out batches."""

import torch
import torch.nn.functional as F
from torch import nn

from labkit.corpora.base import Batch
from labkit.probes.look import untouched
from labkit.training import Observer

# Held-out batches are joined up to so many predictions: small ones cost more calls than work.
_JOINED = 4096


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
    """Join batches of one shape: what is summed over all of them does not depend on their size."""
    if len({(inputs.shape[1:], targets.shape[1:]) for inputs, targets in batches}) != 1:
        return batches
    inputs, targets = (torch.cat(parts) for parts in zip(*batches, strict=True))
    rows = max(1, _JOINED // targets[0].numel())
    return list(zip(inputs.split(rows), targets.split(rows), strict=True))
