"""Fluctuation of batch statistics."""

import torch
from torch import Tensor, nn

from labkit.corpora import Corpus
from labkit.model import Transformer
from labkit.probes.look import outputs_of, residual_streams, untouched
from labkit.training import Observer


def mean_fluctuation(features: list[Tensor]) -> float:
    """Return Var over batches of a feature's batch mean × N ÷ Var of the feature.

    `features`: one (rows, features) tensor per batch, N rows each. Independent rows give 1; rows
    that resemble each other within a batch give more, up to N. The result is averaged over
    features.
    """
    rows = features[0].shape[0]
    means = torch.stack([batch.mean(dim=0) for batch in features])
    variance = torch.cat(features).var(dim=0)
    return (means.var(dim=0) * rows / variance.clamp(min=1e-12)).mean().item()


class Fluctuation(Observer):
    """`mean_fluctuation` of batches of the training size, at the start and at the end.

    For a transformer, it is that of the stream after the embedding and each block; for any other
    network, that of the outputs of each linear layer or convolution except the last. BatchNorm uses
    its running statistics, so that it does not hide the fluctuation.
    """

    name = "fluctuation"

    def __init__(self, corpus: Corpus, batches: int = 64):
        stream = corpus.train(seed=2**20)
        self.inputs = [next(stream)[0] for _ in range(batches)]
        self.seen: dict[str, list[float]] = {}

    def start(self, model: nn.Module) -> None:
        """Measure at initialization."""
        self.seen["start"] = self._measure_layers(model)

    def result(self, model: nn.Module) -> dict[str, list[float]]:
        """Measure again after training."""
        return {**self.seen, "end": self._measure_layers(model)}

    def _measure_layers(self, model: nn.Module) -> list[float]:
        with untouched(model, training=False):
            by_batch = [_collect_activations(model, inputs) for inputs in self.inputs]
        return [mean_fluctuation(list(layer)) for layer in zip(*by_batch, strict=True)]


def _collect_activations(model: nn.Module, inputs: Tensor) -> list[Tensor]:
    if isinstance(model, Transformer):
        return [x.flatten(0, -2) for x in residual_streams(model, inputs)]
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)][:-1]
    seen = outputs_of(layers, model, inputs)
    return [y.movedim(1, -1).flatten(0, -2) for y in seen]


PROBES = {"fluctuation": Fluctuation}
