"""The runs of one method on one rung: for tuning, and for evaluation.

There are two evaluations. *First look* (preliminary): the rate is chosen from a grid with one seed
and evaluated with five others. *Strict* (full): the rate is the vertex of a parabola through the
losses of three seeds, and is evaluated with as many others as the rung requires; once complete, it
replaces the first look.
Newer variants and larger rungs have only the strict evaluation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import fmean

from labkit.experiments.ladder.rates import (
    COARSE,
    HALFWAY,
    HIGHEST,
    LOWEST,
    QUARTER,
    QUARTERS,
    TUNING_SEED,
    TUNING_SEEDS,
    Read,
    choose_rate,
    find_middle,
    find_place,
    learns,
    name_rate,
    read_validation_loss,
)
from labkit.experiments.ladder.rungs import (
    ARMS,
    LOOKS,
    RUNGS,
    Arm,
    build_base_run,
    configure_run,
)
from labkit.experiments.run import Run

SEEDS = (0, 1, 2, 3, 4)  # evaluation seeds of a first look
FIRST_STRICT = 5  # the first seed of a strict evaluation
FEWER = 10  # seeds of methods that no chapter ranks
# The methods that chapters rank; on rung S they are evaluated with all its seeds.
RANKED = (
    "pre", "qk", "qkv-pre", "lns", "post", "deepnorm", "ngpt", "hybrid*", "none", "hybrid",
    "overwritten", "dyt", "sandwich", "realformer", "olmo2", "peri", "derf", "pre, layer",
    "keel", "admin", "pre, drawn 0.014", "hybrid, drawn 0.014", "hybrid*, drawn 0.014",
    "qkv-pre, drawn 0.014",
)  # fmt: skip
LOOKED = ("smoke", "S", "M")  # rungs that have a first look


@dataclass(frozen=True)
class MethodRuns:
    """The runs of a method on a rung that are determined so far, given the records that exist.

    The method is a name in ARMS, or your own arm.
    """

    rung: str
    method: str | Arm
    read: Read

    @cached_property
    def first(self) -> list[Run]:
        """List the runs of one seed that locate the best rate on rung S, or on a larger rung."""
        if below := RUNGS[self.rung].below:
            best = self.find_best(MethodRuns(below, self.method, self.read).first)
            return [] if best is None else self._list_beside(find_place(best))
        coarse = self._list_runs(COARSE, [TUNING_SEED])
        best = self.find_best(coarse)
        if best is None:
            return coarse
        middle = QUARTERS.index(best)
        beside = [QUARTERS[i] for i in (middle - 1, middle + 1) if 0 <= i < len(QUARTERS)]
        return coarse + self._list_runs(beside, [TUNING_SEED])

    def _list_beside(self, middle: int) -> list[Run]:
        """List runs at a rate and its neighbours, and more while the best rate is at the end."""
        low, high = middle - QUARTER, middle + QUARTER
        while True:
            places = range(max(low, LOWEST), min(high, HIGHEST) + 1, QUARTER)
            runs = self._list_runs(map(name_rate, places), [TUNING_SEED])
            best = self.find_best(runs)
            if best == name_rate(low) and low > LOWEST:
                low -= QUARTER
            elif best == name_rate(high) and high < HIGHEST:
                high += QUARTER
            else:
                return runs

    @cached_property
    def fine(self) -> list[Run]:
        """List the runs of three seeds around the best rate."""
        start = self._find_start()
        if start is None:
            return []
        middle, runs = find_place(start), dict[Run, None]()
        while True:
            places = (middle - QUARTER, middle, middle + QUARTER)
            rates = [name_rate(place) for place in places if LOWEST <= place <= HIGHEST]
            asked = self._list_runs(rates, TUNING_SEEDS)
            runs |= dict.fromkeys(asked)
            if not self.is_there(asked):
                return list(runs)
            tuned = self._read_losses(asked)
            if (best := find_middle(tuned)) == middle:
                break
            middle = best
        above = tuned.get(name_rate(middle + QUARTER))
        if above is not None and not learns(above, fmean(tuned[name_rate(middle)])):
            runs |= dict.fromkeys(self._list_runs([name_rate(middle + HALFWAY)], TUNING_SEEDS))
        return list(runs)

    def _find_start(self) -> float | None:
        """Return the first rate for three seeds: the best rate on S, or a slightly lower one."""
        best = self.find_best(MethodRuns("S", self.method, self.read).first)
        if best is None:
            return None
        return name_rate(find_place(best) - QUARTER * RUNGS[self.rung].lower)

    @cached_property
    def looked(self) -> list[Run]:
        """List the tuning runs of a first look; empty if the rung has no first look."""
        return self.first if self.rung in LOOKED else []

    @cached_property
    def first_finals(self) -> list[Run]:
        """List the evaluation runs of a first look; empty until its rate is chosen."""
        best = self.find_best(self.looked)
        return [] if best is None else self._list_runs([best], SEEDS, LOOKS)

    @cached_property
    def rate(self) -> float | None:
        """Return the rate chosen with three seeds; None while one of their runs is missing."""
        if self.rung == "smoke" or not self.fine or not self.is_there(self.fine):
            return None
        return choose_rate(self.read_tuning())

    @cached_property
    def strict_finals(self) -> list[Run]:
        """List the evaluation runs of the strict evaluation; empty until its rate is chosen."""
        return [] if self.rate is None else self._list_runs([self.rate], self.seeds, LOOKS)

    @property
    def seeds(self) -> list[int]:
        """List the seeds of the strict evaluation; your own method has all of the rung's."""
        return list_strict_seeds(self.rung, self.method)

    @cached_property
    def is_strict(self) -> bool:
        """Return whether the strict evaluation is complete."""
        return bool(self.strict_finals) and self.is_there(self.strict_finals)

    @property
    def is_whole(self) -> bool:
        """Return whether every evaluation run exists."""
        return bool(self.finals) and self.is_there(self.finals)

    @cached_property
    def tuning(self) -> list[Run]:
        """List the tuning runs for the current evaluation."""
        return _list_unique(self.looked, self.fine) if self.is_strict else self.looked

    @cached_property
    def finals(self) -> list[Run]:
        """List the evaluation runs: the strict ones if they are complete, else the first look's."""
        return self.strict_finals if self.is_strict else self.first_finals

    @property
    def wanted(self) -> list[Run]:
        """List the runs of the current evaluation and its tuning."""
        return [*self.tuning, *self.finals]

    @property
    def strict(self) -> list[Run]:
        """List the runs of a strict evaluation, tuning first."""
        return [] if self.rung == "smoke" else [*self.fine, *self.strict_finals]

    @property
    def room(self) -> list[Run]:
        """List the runs that measure the cost of a wrong rate: three seeds at each coarse rate."""
        return self._list_runs(COARSE, TUNING_SEEDS) if self.rung == "S" else []

    @property
    def every(self) -> list[Run]:
        """List all runs: first look, tuning, strict evaluation, wrong rates."""
        return _list_unique(self.looked, self.first_finals, self.strict, self.room)

    def read_tuning(self) -> dict[float, list[float]]:
        """Read the validation losses of all tuning runs that exist, by rate."""
        return self._read_losses(_list_unique(self.looked, self.fine))

    def find_best(self, runs: Sequence[Run]) -> float | None:
        """Return the rate with the lowest validation loss; None while a run is missing."""
        if not runs or not self.is_there(runs):
            return None
        return min(
            (loss, rate) for rate, losses in self._read_losses(runs).items() for loss in losses
        )[1]

    def is_there(self, runs: Iterable[Run]) -> bool:
        """Return whether all of these runs have a record."""
        return all(self.read(run) is not None for run in runs)

    def _read_losses(self, runs: Iterable[Run]) -> dict[float, list[float]]:
        """Read the validation losses of the runs that exist, by rate."""
        tuned: dict[float, list[float]] = {}
        for run in runs:
            if (record := self.read(run)) is not None:
                tuned.setdefault(run.train.lr, []).append(read_validation_loss(record))
        return tuned

    def _list_runs(
        self,
        rates: Iterable[float],
        seeds: Iterable[int],
        probes: Sequence[str] = ("validation", "test"),
    ) -> list[Run]:
        base = build_base_run(self.rung, self.method)
        return [configure_run(base, rate, seed, probes) for rate, seed in product(rates, seeds)]


def list_strict_seeds(rung: str, method: str | Arm) -> list[int]:
    """List the seeds of a method's strict evaluation; your own method has all of the rung's."""
    count = RUNGS[rung].seeds
    if isinstance(method, str) and method in ARMS and method not in RANKED:
        count = min(count, FEWER)
    return list(range(FIRST_STRICT, FIRST_STRICT + count))


def _list_unique(*parts: Iterable[Run]) -> list[Run]:
    return list(dict.fromkeys(run for part in parts for run in part))
