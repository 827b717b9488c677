"""Timings of alternatives, interleaved in one process; only ratios of adjacent times are kept.

Seconds on a busy machine mean little; a ratio of adjacent times means more. The probe `pace` times
a training step of one recipe and of another. `fold_prenorms` folds the norms of a stack of Pre-Norm
blocks with PRepBN, RepBN or BatchNorm. Source: Guo et al. 2024, arXiv 2405.11582.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from itertools import repeat
from typing import Any

import torch
from torch import nn

from labkit.convert import fold_norms
from labkit.corpora import Corpus
from labkit.corpora.base import Batch
from labkit.model import ModelConfig
from labkit.probes.look import require_transformer
from labkit.training import Observer, TrainConfig, train


class Pace(Observer):
    """Ratios of the training times of the run's own recipe and `other`, one per round."""

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

    Raises:
        TypeError: a norm cannot be folded, or a map that reads it is no plain nn.Linear.
    """
    folded, pairs = deepcopy(model).eval(), {"final_norm": ["output"]}
    for name, _ in folded.get_submodule("blocks").named_children():
        for step, readers in (("attention", "qkv"), ("feed_forward", ("gate", "up"))):
            path = f"blocks.{name}.{step}"
            maps = dict(folded.get_submodule(f"{path}.sublayer").named_children())
            pairs[f"{path}.norm"] = [f"{path}.sublayer.{each}" for each in readers if each in maps]
    fold_norms(folded, pairs)
    return folded


PROBES: dict[str, Callable[[Corpus], Observer]] = {
    "pace": lambda corpus: Pace(next(corpus.train(0))),
}
