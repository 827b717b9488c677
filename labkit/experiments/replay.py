"""Replay how a run began: its model, its data and its first steps, made anew.

A record is believed because its run, begun again, has the same first losses.
"""

from dataclasses import asdict, dataclass

import torch

from labkit.experiments.run import Run
from labkit.training import TrainConfig, train


@dataclass(frozen=True)
class _Opening(TrainConfig):
    """The first steps of a longer training, each at the learning rate that it has there."""

    whole: TrainConfig | None = None

    def lr_at(self, step: int) -> float:
        """Follow the schedule of the whole training."""
        assert self.whole is not None
        return self.whole.lr_at(step)


def first_losses(run: Run, steps: int = 8) -> list[float]:
    """Train the first steps of a run and return their losses; fewer where it diverges."""
    corpus = run.data.load()
    torch.manual_seed(run.seed)
    model = run.model.build()
    steps = min(steps, run.train.steps)
    config = _Opening(**{**asdict(run.train), "steps": steps}, whole=run.train)
    return train(model, corpus.train(run.seed), config, progress=False).losses
