"""Timings of alternatives, interleaved in one process; only ratios of adjacent times are kept.

Seconds on a busy machine mean little; a ratio of adjacent times means more.

pace       a training step of one recipe compared with another's
folding    a model compared with its copy whose norms with running statistics are folded: the
           difference of outputs, and the time saved. The model is a stack of Pre-Norm blocks with
           PRepBN, RepBN or BatchNorm. Source: Guo et al. 2024, arXiv 2405.11582.

    W (a ⊙ x + c) + b = (W diag(a)) x + (W c + b)        a, c from running statistics
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import repeat
from typing import Any

import torch
from torch import nn

from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.model import ModelConfig
from labkit.norms import fold
from labkit.probes.look import join_batches, require_transformer, untouched
from labkit.training import Observer, TrainConfig, loss_of, train

TURNS = 15


class Pace(Observer):
    """Time the run's own recipe and `other` at the same sizes; result: one ratio per round."""

    name = "pace"

    def __init__(self, batch: Batch, other: str = "pre", rounds: int = 9, steps: int = 5):
        self.batch, self.other, self.rounds, self.steps = batch, other, rounds, steps

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Build both models and time them alternately; restore the random state."""
        config = require_transformer(model, self.name).config
        assert isinstance(config, ModelConfig)  # labkit builds every model from one
        with torch.random.fork_rng(devices=[]):
            pair = [config.build(), replace(config, recipe=self.other).build()]
        took = [[self._time_training(each) for each in pair] for _ in range(self.rounds + 1)][1:]
        return {"ratios": [ours / theirs for ours, theirs in took]}

    def _time_training(self, model: nn.Module) -> float:
        config = TrainConfig(steps=self.steps, lr=1e-5)
        began = time.process_time()
        train(model, repeat(self.batch), config, progress=False)
        return time.process_time() - began


def fold_prenorms(model: nn.Module) -> nn.Module:
    """Copy a Pre-Norm model in evaluation mode and fold each norm into the maps that read it.

    The final norm is folded into the output, even across a mean over positions: the mean of affine
    images is the affine image of the mean.
    """
    folded = deepcopy(model).eval()
    for block in folded.get_submodule("blocks").children():
        for step, readers in (("attention", "qkv"), ("feed_forward", ("gate", "up"))):
            part = block.get_submodule(step)
            sublayer, norm = part.get_submodule("sublayer"), part.get_submodule("norm")
            for name in readers:
                if isinstance(reader := getattr(sublayer, name, None), nn.Linear):
                    setattr(sublayer, name, fold(norm, reader))
            part.register_module("norm", nn.Identity())
    last, output = folded.get_submodule("final_norm"), folded.get_submodule("output")
    assert isinstance(output, nn.Linear)
    folded.register_module("output", fold(last, output))
    folded.register_module("final_norm", nn.Identity())
    return folded


class Folding(Observer):
    """Compare a trained model with its folded copy on one held-out batch.

    Result: `difference`, the largest difference of a logit; the `loss` of both; `time`, the median
    ratio of the folded model's time to the other's. Or `refused`: why a norm cannot be folded.
    """

    name = "folding"

    def __init__(self, batch: Batch):
        self.batch = batch

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Fold a copy; the model is not changed."""
        inputs, _ = self.batch
        # New linear maps draw weights before they get theirs.
        with untouched(model, training=False), torch.random.fork_rng(devices=[]):
            try:
                folded = fold_prenorms(model)
            except TypeError as error:
                return {"refused": str(error)}
            ratios = []
            for _ in range(TURNS):
                whole, merged = _time_forward(model, inputs), _time_forward(folded, inputs)
                ratios.append(merged / whole)
            return {
                "difference": (model(inputs) - folded(inputs)).abs().max().item(),
                "loss": [loss_of(m, *self.batch).item() for m in (model, folded)],
                "time": torch.tensor(ratios).median().item(),
            }


def _time_forward(model: nn.Module, inputs: torch.Tensor) -> float:
    began = time.perf_counter()
    model(inputs)
    return time.perf_counter() - began


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "folding": lambda corpus: Folding(join_batches(corpus.held_out["test"])),
    "pace": lambda corpus: Pace(next(corpus.train(0))),
}
