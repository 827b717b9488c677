"""Numbers before they are drawn: checks, means with Student t intervals, running means."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, nan
from typing import Any

import numpy as np

from labkit.statistics.seeds import t_interval


def mean_and_half(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Give the mean and half the width of its t interval; one value has no interval (0)."""
    kept = [v for v in values if isfinite(v)]
    if not kept:
        return nan, 0.0
    low, high = t_interval(kept, level)
    return (low + high) / 2, (high - low) / 2


def running_mean(losses: Sequence[float], window: int) -> np.ndarray:
    """Average each step with the steps before it, at most `window` of them."""
    total = np.cumsum(np.concatenate([[0.0], np.asarray(losses, dtype=float)]))
    end = np.arange(1, len(total))
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)


def floats(values: Any) -> list[float]:
    """Read one number or many as floats; None, a run that diverged, becomes NaN."""
    if values is None or np.isscalar(values):
        values = [values]
    return [nan if v is None else float(v) for v in values]


def runs(values: Iterable[Any]) -> list[list[float]]:
    """Read one list of numbers, or one per seed, as one list of floats per seed."""
    rows = list(values)
    if rows and all(row is None or np.isscalar(row) for row in rows):
        rows = [rows]
    return [floats(row) for row in rows]


def need(series: Mapping[str, Any], what: str) -> None:
    """Refuse a figure with nothing in it, and name the series that is empty."""
    if not isinstance(series, Mapping):
        raise ValueError(
            f"{what} must be a dict from a name to its numbers, got {type(series).__name__}; "
            'write {"pre": …, "post": …}'
        )
    if not series:
        raise ValueError(f"{what} must hold at least one series, got an empty dict")
    for name, values in series.items():
        if len(values) == 0:
            raise ValueError(
                f"every series of {what} needs points, {name!r} has none; "
                "drop it or check the runs that it came from"
            )


def seeds_in(counts: Iterable[int]) -> str:
    """Say how many seeds: "one seed", "5 seeds", "3 to 5 seeds"."""
    few, many = min(counts := list(counts)), max(counts)
    if many == 1:
        return "one seed"
    return f"{many} seeds" if few == many else f"{few} to {many} seeds"
