"""Samples: numbers with their runs, read from results, compared, and claimed.

    losses = runs["Post-Norm"].measure("test.loss")     one value per run, with its seed
    losses.map(math.log10)                              apply a function to each value
    losses.at(140)                                      the same measure at a different step
    losses.again(lr=0.018)                              the same runs with changed fields
    losses - other.losses, losses / other.losses        seed by seed
    losses.improvement_over(other)                      mean of other minus mean, not paired
    losses.improvement_by_seed(other)                   the same, judged seed by seed
    combine(max, slow, middle, fast)                    one value per seed, from several samples
    runs["Post-Norm"].count(is_stuck)                   k of n runs; minus another count
    exact(0.0), computed([1.2, 1.3], unit="draws")      numbers without runs
    losses.claim("02-name", "< 1.5", "A sentence.")     judge, show, store in the ledger

A sample has the records that it comes from, so a claim reads their start, their seeds and their
unmet requirements from the sample, rather than from its author.
"""

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import numpy as np
import torch

from labkit.experiments.claims import Claimable, Evidence
from labkit.statistics.criteria import Estimate, Interval
from labkit.statistics.pooled import Difference, compare_samples
from labkit.statistics.proportions import Proportion
from labkit.statistics.seeds import Given, Seeds, correlate_ranks
from labkit.training import Record

T = TypeVar("T")
Changes = Mapping[str, Any]  # fields of a run, or {"at": step}


@dataclass(frozen=True)
class Sample(Claimable):
    """An estimate with the runs that it comes from."""

    estimate: Estimate
    seeds: tuple[int, ...] = ()  # of each value; none where the values are not of single runs
    records: tuple[Record, ...] = ()
    earlier: tuple[Record, ...] = ()  # runs that were seen before these were trained
    live: bool = False  # some of it was computed just now; else it comes from records alone
    size: str = ""  # of the model, where the runs are of the ladder
    kind: str = "at"  # at a given setting, at each method's best rate, over a range, or exact
    lacking: tuple[str, ...] = ()  # unmet requirements of the comparison (experiments.regime)
    unit: str | None = None  # what the values belong to, if not seeds or runs
    tolerance: float | None = None  # the allowed change of a later mean
    reread: Callable[[Changes], "Sample"] | None = None

    @property
    def values(self) -> tuple[float, ...]:
        """Return one value per run; for a count, the proportion."""
        return self.estimate.values

    @property
    def mean(self) -> float:
        """Return the estimate."""
        return self.estimate.mean

    @property
    def median(self) -> float:
        """Return the median of the values; NaN if one of them is NaN."""
        return float(np.median(self.list_values()))

    @property
    def interval(self) -> Interval:
        """Return its 95 % interval."""
        return self.estimate.compute_interval()

    def __str__(self) -> str:
        """Format a count as "3 of 10", anything else as mean and interval."""
        if isinstance(self.estimate, Proportion):
            return f"{self.estimate.k} of {self.estimate.n}"
        return f"{self:.3g}"

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)

    def __format__(self, spec: str) -> str:
        """Format the mean and its 95 % interval: f"{sample:.2f}" is "0.31 [0.28, 0.34]"."""
        if not spec:
            return str(self)
        low, high = self.interval
        return f"{self.mean:{spec}} [{low:{spec}}, {high:{spec}}]"

    def map(self, change: Callable[[float], float]) -> "Sample":
        """Apply a function to each value."""
        return _derive(lambda one: Seeds(tuple(float(change(v)) for v in one.list_values())), self)

    def __sub__(self, other: "Sample") -> "Sample":
        """Subtract seed by seed; for two counts, subtract the proportions.

        Raises:
            ValueError: the seeds or the model sizes differ.
        """
        return _derive(_subtract, self, other)

    def __truediv__(self, other: "Sample") -> "Sample":
        """Divide seed by seed; see `__sub__`."""
        return combine(operator.truediv, self, other)

    def improvement_over(self, other: "Sample") -> "Sample":
        """Return the mean of `other` minus this mean, without pairs (Welch 1947)."""
        return _derive(_compare, self, other)

    def improvement_by_seed(self, other: "Sample") -> "Sample":
        """Return the improvement over values of the same seeds, paired by seed.

        It is `other - self`, and its card has both intervals, with and without pairs.
        """
        return _derive(_compare_by_seed, self, other)

    def correlate_ranks(self, other: "Sample") -> "Sample":
        """Return the rank correlation with a measure of the same runs, with Fieller's interval."""
        return _derive(
            lambda one, two: correlate_ranks(one.list_values(), two.list_values()), self, other
        )

    def at(self, step: int | str) -> "Sample":
        """Read the same measure at a different step, if it was read at a step."""
        return self._reread({"at": step})

    def again(self, **changes: Any) -> "Sample":
        """Read the same measure of the same experiment with changed fields, named as "lr"."""
        return self._reread(changes)

    def after(self, *earlier: "Sample") -> "Sample":
        """Record that other runs had been seen before these were trained."""
        seen = tuple(record for sample in earlier for record in sample.records)
        return replace(self, earlier=self.earlier + seen)

    def tuned(self, lacking: Iterable[str] = ()) -> "Sample":
        """Record that each method has its best learning rate, and unmet conditions on tuning."""
        return replace(self, kind="best", lacking=(*self.lacking, *lacking))

    def over_rates(self, lacking: Iterable[str] = ()) -> "Sample":
        """Record that the values cover a range of learning rates declared beforehand."""
        return replace(self, kind="range", lacking=(*self.lacking, *lacking))

    def list_evidence(self, id: str) -> Evidence:
        """Return the facts that a claim needs."""
        return Evidence(
            self.estimate,
            kind=self.kind,
            since=find_start(self.records),
            looked=find_start(self.earlier) if self.earlier else None,
            seeds=self.seeds,
            live=self.live,
            find_lacking=lambda rung: self.lacking,
            unit=self.unit,
            tolerance=self.tolerance,
        )

    def list_values(self) -> tuple[float, ...]:
        """Return one value per run; raise ValueError if runs were counted or already compared."""
        if not isinstance(self.estimate, Seeds | Given):
            kind = type(self.estimate).__name__.lower()
            raise ValueError(
                f"this method needs one value per run, got a {kind}; read the values with measure"
            )
        return self.values

    def _reread(self, changes: Changes) -> "Sample":
        if self.reread is None:
            raise ValueError(
                "only a sample of runs from an experiment can be read again with other fields, "
                f"but {', '.join(changes)} was given for a sample from another source"
            )
        return self.reread(changes)


def exact(value: float | torch.Tensor, *, tolerance: float | None = None) -> Sample:
    """Make a sample of an algebraic number, or a count of what code does: it has no interval.

    `tolerance` is how far it may differ on another machine; by default 5 %.
    """
    # PyTorch warns where float() takes a tensor that has a gradient.
    number = value.item() if isinstance(value, torch.Tensor) else float(value)
    return Sample(Seeds((number,)), live=True, kind="exact", tolerance=tolerance)


def computed(
    values: float | Sequence[float] | Estimate,
    *,
    unit: str | None = None,
    interval: Interval | None = None,
    tolerance: float | None = None,
) -> Sample:
    """Make a sample of numbers that come from no run: from draws, turns or timings (`unit`).

    Pass `interval` if it is not Student's interval of the values.
    """
    if not isinstance(values, float | int | Sequence | np.ndarray):
        return Sample(values, live=True, unit=unit, tolerance=tolerance)
    numbers = tuple(map(float, np.atleast_1d(values)))
    if interval is None:
        return Sample(Seeds(numbers), live=True, unit=unit, tolerance=tolerance)
    given = Given(numbers, (float(interval[0]), float(interval[1])))
    return Sample(given, live=True, unit=unit, tolerance=tolerance)


def combine(operate: Callable[..., float], *samples: Sample) -> Sample:
    """Compute one value per seed from the values of several samples.

    combine(max, a, b, c) is the largest of three, seed by seed; the order of seeds is that of `a`.

    Raises:
        ValueError: the seeds or the model sizes differ.
    """
    return _derive(lambda *parts: _join(operate, *parts), *samples)


def find_start(records: Iterable[Record]) -> str:
    """Return when the first of these runs began (UTC); "" if one of them has no date."""
    starts = []
    for record in records:
        if not record.at:
            return ""
        starts.append(datetime.fromisoformat(record.at) - timedelta(seconds=record.seconds))
    return min(starts).isoformat(timespec="seconds") if starts else ""


def name_devices(*samples: Iterable[Record]) -> tuple[str, ...]:
    """Name the devices of each sample's runs; return () if they agree or a sample has no run."""
    counts = [Counter(str(run.provenance.get("device", "")) for run in of) for of in samples]
    shares = [{name: n / of.total() for name, n in of.items()} for of in counts]
    if not all(counts) or all(share == shares[0] for share in shares):
        return ()
    return tuple(
        " and ".join(
            f"{name} ({n} runs)" if len(of) > 1 else name for name, n in sorted(of.items())
        )
        for of in counts
    )


def _subtract(one: Sample, two: Sample) -> Estimate:
    if isinstance(one.estimate, Proportion) and isinstance(two.estimate, Proportion):
        return one.estimate - two.estimate
    return _join(operator.sub, one, two)


def _compare(one: Sample, two: Sample, pairs: Sequence[float] = ()) -> Difference:
    devices = name_devices(one.records, two.records)
    return compare_samples(one.list_values(), two.list_values(), pairs=pairs, devices=devices)


def _compare_by_seed(one: Sample, two: Sample) -> Estimate:
    return _compare(one, two, _join(operator.sub, two, one).values).pair()


def _join(operate: Callable[..., float], *samples: Sample) -> Seeds:
    """Combine the values of samples that have the same seed."""
    columns = [_list_in_order(samples[0], sample) for sample in samples]
    return Seeds(tuple(float(operate(*row)) for row in zip(*columns, strict=True)))


def _list_in_order(one: Sample, two: Sample) -> tuple[float, ...]:
    """Return the second sample's values in the order of the first one's seeds."""
    values = two.list_values()
    same = len(one.list_values()) == len(values)
    if same and one.seeds and two.seeds and one.seeds != two.seeds:
        same = len({*one.seeds}) == len(values) and {*one.seeds} == {*two.seeds}
        values = tuple(values[two.seeds.index(seed)] for seed in one.seeds) if same else ()
    if not same:
        raise ValueError(
            "two samples can be paired by seed only if they have the same seeds, got "
            f"{_name_seeds(one)} and {_name_seeds(two)}; use the same seeds for both, or compare "
            "them without pairs: one.improvement_over(other)"
        )
    return values


def _name_seeds(sample: Sample) -> str:
    if not sample.seeds:
        return f"{len(sample)} values"
    return f"seeds {', '.join(map(str, sample.seeds))}"


def _derive(operate: Callable[..., Estimate], *parents: Sample) -> Sample:
    """Make a sample that is computed from others, with the runs of all."""
    sizes = {parent.size for parent in parents if parent.size}
    if len(sizes) > 1:
        raise ValueError(
            "only samples of the same model size can be combined, got "
            f"{' and '.join(sorted(sizes))}; choose one size with where(rung=…)"
        )
    estimate, first = operate(*parents), parents[0]
    kinds = {parent.kind for parent in parents if parent.kind != "exact"}
    again = all(parent.reread for parent in parents)
    return Sample(
        estimate,
        seeds=first.seeds if len(first.seeds) == len(estimate.values) else (),
        records=_join_unique(parent.records for parent in parents),
        earlier=_join_unique(parent.earlier for parent in parents),
        live=any(parent.live for parent in parents),
        size="".join(sizes),
        kind=kinds.pop() if len(kinds) == 1 else "at" if kinds else "exact",
        lacking=_join_unique(parent.lacking for parent in parents),
        unit=first.unit,
        reread=(lambda changes: _derive(operate, *(p._reread(changes) for p in parents)))
        if again
        else None,
    )


def _join_unique(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    """Join tuples without repeats of the same object or an equal word."""
    every = [item for part in parts for item in part]
    return tuple({(item if isinstance(item, str) else id(item)): item for item in every}.values())
