"""Series: what all figures of series read and say of the caller's numbers.

read_values, read_runs      numbers by name, checked; None, a run that diverged, becomes NaN
mean_and_half               what is drawn of several seeds: their mean and its t interval

A `Difference` stands for its values, how far each run lies below the other arm's mean. They are no
sample of differences, so what is drawn of them is the interval that judges.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from statistics import fmean
from typing import Any

import numpy as np

from labkit.statistics.pooled import Difference
from labkit.statistics.seeds import t_interval

Rows = list[list[float]]  # one list of values per seed


class Compared(list[float]):
    """The values of a difference, with half the width of its interval."""

    def __init__(self, one: Difference) -> None:
        super().__init__(one.values)
        low, high = one.compute_interval()
        self.half = (high - low) / 2


def check_series(series: Mapping[str, Any], what: str) -> None:
    """Refuse a figure with nothing in it, and name the series that is empty."""
    if not isinstance(series, Mapping):
        raise ValueError(
            f"{what} must be a dict from a name to its numbers, got {type(series).__name__}; "
            'write {"pre": …, "post": …}'
        )
    if not series:
        raise ValueError(f"{what} must hold at least one series, got an empty dict")
    for name, values in series.items():
        if not isinstance(values, Difference) and len(values) == 0:
            raise ValueError(
                f"every series of {what} needs points, {name!r} has none; "
                "drop it or check the runs that it came from"
            )


def read_values(values: Any) -> list[float]:
    """Read one number or many as floats, or a difference; what was read so stays."""
    if isinstance(values, Compared):
        return values
    if isinstance(values, Difference):
        return Compared(values)
    if values is None or np.isscalar(values):
        values = [values]
    return [nan if v is None else float(v) for v in values]


def read_runs(series: Mapping[str, Sequence[Any]], what: str) -> dict[str, Rows]:
    """Read one list of numbers per seed and name; a single list is a single seed."""
    check_series(series, what)
    arms = {}
    for name, values in series.items():
        rows = list(values)
        if all(row is None or np.isscalar(row) for row in rows):
            rows = [rows]
        arms[name] = [read_values(row) for row in rows]
        if not all(arms[name]):
            raise ValueError(f"every run of {what} needs values, {name!r} holds an empty one")
    return arms


def mean_and_half(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Compute the mean and half the width of its t interval; one value has no interval (0)."""
    if isinstance(values, Compared):
        return fmean(values), values.half
    kept = [v for v in values if isfinite(v)]
    if not kept:
        return nan, 0.0
    low, high = t_interval(kept, level)
    return (low + high) / 2, (high - low) / 2


def say_seeds(counts: Iterable[int]) -> str:
    """Return how many seeds: "one seed", "5 seeds", "3 to 5 seeds"."""
    few, many = min(counts := list(counts)), max(counts)
    if many == 1:
        return "one seed"
    return f"{many} seeds" if few == many else f"{few} to {many} seeds"


def say_interval(groups: Iterable[Sequence[float]]) -> str:
    """Return what interval a mean has: of a sample, of the difference of two, or one or other."""
    kinds = {isinstance(values, Compared) for values in groups if len(values) > 1}
    if kinds == {True}:
        return "95 % interval of the difference"
    return "95 % interval, of the difference where it is one" if any(kinds) else "95 % t interval"
