"""The task of the leaderboard: one budget of arithmetic for everybody, the same data and seeds.

    steps of an entry = floor(budget / operations of its step)

The budget is training operations, counted by labkit.costs: the same on every machine, loaded or
not. (Seconds would be fairer to a user and depend on the machine; chapter 09 has those.) Each
entry trains at every rate with the tuning seeds; the rate with the lowest mean validation loss is
trained with all seeds, and its test loss counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from labkit.corpora import Text
from labkit.experiments import Experiment, Results, Run
from labkit.leaderboard.entries import Entry
from labkit.leaderboard.footprint import Footprint, count_footprint
from labkit.model import ModelConfig
from labkit.training import TrainConfig

MAIN = ("pre", "post", "qk", "deepnorm", "hybrid*", "dyt", "ngpt", "none")
FLOPS = 2.2e10  # operations of one run: about 80 steps of Pre-Norm
RATES = (6e-3, 1.2e-2, 2.4e-2, 4.8e-2)
SEEDS, TUNING = 5, 2


@dataclass(frozen=True)
class Contest:
    """What every entry is given."""

    flops: float = FLOPS
    rates: tuple[float, ...] = RATES
    seeds: tuple[int, ...] = tuple(range(SEEDS))
    tuning_seeds: int = TUNING
    depth: int = 6
    dim: int = 32
    batch: int = 16
    time: int = 32
    held_out: int = 8_192

    def __post_init__(self) -> None:
        if not self.flops > 0:
            raise ValueError(f"a budget of operations is above 0, got {self.flops:g}")
        if not self.rates or min(self.rates) <= 0:
            raise ValueError(f"learning rates are above 0, at least one, got {list(self.rates)}")
        if len(set(self.rates)) < len(self.rates) or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("rates and seeds come once each; leave the second ones out")
        if len(self.seeds) < 2:
            raise ValueError(
                f"an interval needs two seeds or more, got {len(self.seeds)}; the book takes five"
            )
        if not 1 <= self.tuning_seeds <= len(self.seeds):
            raise ValueError(
                f"rates are chosen with 1 to {len(self.seeds)} of the seeds, "
                f"got {self.tuning_seeds}"
            )

    @property
    def base(self) -> Run:
        """Return the run that entries change."""
        return Run(
            model=ModelConfig(norm="rms", dim=self.dim, depth=self.depth, context=self.time),
            data=Text(batch=self.batch, time=self.time, held_out=self.held_out),
            train=TrainConfig(schedule="linear"),
        )

    def cost(self, entry: Entry) -> Footprint:
        """Count what a step of an entry costs."""
        return _count_cost(replace(self.base.model, **entry.model), self.batch, self.time)

    def steps(self, entry: Entry) -> int:
        """Return how many steps the budget pays."""
        each = self.cost(entry).operations
        if self.flops < each:
            raise ValueError(
                f"the budget must pay one step at least, but {self.flops:.3g} operations are less "
                f"than the {each:.3g} of a step of {entry.name!r}; raise it"
            )
        return int(self.flops // each)

    def changes(self, entry: Entry) -> dict[str, Any]:
        """Write an entry as the fields of a run that it sets."""
        steps = self.steps(entry)
        model = {f"model.{name}": value for name, value in entry.model.items()}
        return {**model, "train.steps": steps, "train.warmup": round(entry.warmup * steps)}

    def tuning(self, entries: Sequence[Entry]) -> Experiment:
        """Every entry at every rate, with the tuning seeds."""
        axes = {
            "entry": {each.name: self.changes(each) for each in entries},
            "train.lr": list(self.rates),
            "seed": list(self.seeds[: self.tuning_seeds]),
        }
        return Experiment(self.base, axes)

    def final(self, entries: Sequence[Entry], tuned: Results) -> Experiment:
        """Every entry at its best rate, with all seeds."""
        best = best_rates(tuned)
        rows = {e.name: {**self.changes(e), "train.lr": best[e.name]} for e in entries}
        return Experiment(self.base, {"entry": rows, "seed": list(self.seeds)})


def best_rates(tuned: Results) -> dict[str, float]:
    """Choose each entry's rate by its mean validation loss."""
    return {name: part.best("lr") for name, part in tuned.by("entry").items()}


@cache
def _count_cost(model: ModelConfig, batch: int, time: int) -> Footprint:
    return count_footprint(model, batch, time)


__all__ = ["FLOPS", "MAIN", "RATES", "Contest", "best_rates"]
