"""Fold the norms of running statistics away: are the answers the same, and what time is saved?

    W (a ⊙ x + c) + b = (W diag(a)) x + (W c + b)        a, c from running statistics

The model is a stack of Pre-Norm blocks with PRepBN, RepBN or BatchNorm. The two are timed in
turns and only the ratio is kept: both meet the same machine. Source: Guo et al. 2024, arXiv
2405.11582.
"""

import time
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from labkit.corpora.base import Batch
from labkit.norms import fold
from labkit.probes.look import untouched
from labkit.training import Observer, loss_of

TURNS = 15


def fold_prenorms(model: nn.Module) -> nn.Module:
    """Copy a Pre-Norm model in evaluation mode and merge each norm into the maps that read it.

    The final norm goes into the output, also where a mean over positions stands between: the mean
    of affine images is the affine image of the mean.
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

    Result: `difference`, the largest of a logit; the `loss` of both; `time`, the folded model's
    over the whole one's, the median of several turns. Or `refused`: why a norm does not fold.
    """

    name = "folding"

    def __init__(self, batch: Batch):
        self.batch = batch

    def result(self, model: nn.Module) -> dict[str, Any]:
        """Fold a copy; the model stays as it is."""
        inputs, _ = self.batch
        # New linear maps draw weights before they are given theirs.
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
