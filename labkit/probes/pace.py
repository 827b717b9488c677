"""What a training step of one recipe costs beside another's: timed in turns, in one process.

Seconds on a busy machine mean little; a ratio of neighbours in time means more. Each round trains
both models for a few steps, one after the other, and divides their processor times.
"""

import time
from dataclasses import replace
from itertools import repeat
from typing import Any

import torch
from torch import nn

from labkit.corpora.base import Batch
from labkit.model import Transformer
from labkit.training import Observer, TrainConfig, train


class Pace(Observer):
    """Time the run's own recipe and `other`, the same sizes; result: ratios, one a round."""

    name = "pace"

    def __init__(self, batch: Batch, other: str = "pre", rounds: int = 9, steps: int = 5):
        self.batch, self.other, self.rounds, self.steps = batch, other, rounds, steps

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Build both anew and let them take turns; random numbers are left as they were."""
        if not isinstance(model, Transformer):
            raise TypeError(f"probe {self.name!r} needs a Transformer, got {type(model).__name__}")
        with torch.random.fork_rng(devices=[]):
            pair = [model.config.build(), replace(model.config, recipe=self.other).build()]
        took = [[self._time_training(each) for each in pair] for _ in range(self.rounds + 1)][1:]
        return {"ratios": [ours / theirs for ours, theirs in took]}

    def _time_training(self, model: nn.Module) -> float:
        config = TrainConfig(steps=self.steps, lr=1e-5)
        began = time.process_time()
        train(model, repeat(self.batch), config, progress=False)
        return time.process_time() - began
