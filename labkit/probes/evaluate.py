"""Loss and accuracy on held-out batches."""

import torch.nn.functional as F
from torch import nn

from labkit.corpora.base import Batch
from labkit.probes.look import untouched
from labkit.training import Observer


class Evaluate(Observer):
    """Loss (nats per prediction) and accuracy of the trained model on held-out batches.

    With `batch_statistics` the model is evaluated in training mode: BatchNorm then uses each
    held-out batch's own statistics in place of the running ones.
    """

    def __init__(self, name: str, batches: list[Batch], batch_statistics: bool = False):
        self.name, self.batches, self.batch_statistics = name, batches, batch_statistics

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
