"""Series: reading and describing the caller's numbers for all figures of series.

read_values, read_runs      numbers by name, checked; None, a run that diverged, becomes NaN
mean_and_half               the mean of several seeds and its t interval, as drawn

A `Difference` is drawn with its values: the other arm's mean minus each run. They are not a sample
of differences, so the drawn interval is the one that decides the verdict.
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
    """The values of a difference, with the half-width of its interval."""

    def __init__(self, one: Difference) -> None:
        super().__init__(one.values)
        low, high = one.compute_interval()
        self.half = (high - low) / 2


def check_series(series: Mapping[str, Any], what: str) -> None:
    """Refuse a figure without series, and a series without values, by its name."""
    if not isinstance(series, Mapping):
        raise ValueError(
            f"{what} must be a dict from a name to its numbers, got {type(series).__name__}; "
            'write {"pre": …, "post": …}'
        )
    if not series:
        raise ValueError(f"{what} must contain at least one series, got an empty dict")
    for name, values in series.items():
        if not isinstance(values, Difference) and len(values) == 0:
            raise ValueError(
                f"every series of {what} needs at least one point, but {name!r} has none; leave "
                "it out, or check the runs that it came from"
            )


def read_values(values: Any) -> list[float]:
    """Convert one number, several numbers or a difference to floats."""
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
            raise ValueError(
                f"every run of {what} needs at least one value, but {name!r} contains an empty run"
            )
    return arms


def mean_and_half(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and the half-width of its 95 % t interval, which is 0 for a single value."""
    if isinstance(values, Compared):
        return fmean(values), values.half
    kept = [v for v in values if isfinite(v)]
    if not kept:
        return nan, 0.0
    low, high = t_interval(kept)
    return (low + high) / 2, (high - low) / 2


def say_seeds(counts: Iterable[int]) -> str:
    """Describe the number of seeds: "one seed", "5 seeds", "3 to 5 seeds"."""
    few, many = min(counts := list(counts)), max(counts)
    if many == 1:
        return "one seed"
    return f"{many} seeds" if few == many else f"{few} to {many} seeds"


def say_interval(groups: Iterable[Sequence[float]]) -> str:
    """Describe the kind of interval: of a sample, of a difference, or of both."""
    kinds = {isinstance(values, Compared) for values in groups if len(values) > 1}
    if kinds == {True}:
        return "95 % interval of the difference"
    return "95 % interval, of the difference where it is one" if any(kinds) else "95 % t interval"
