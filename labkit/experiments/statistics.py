"""Differences and powers, seed by seed."""

import math
from collections.abc import Mapping, Sequence


def minus(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Subtract seed by seed: a[i] − b[i]."""
    return [float(x) - float(y) for x, y in zip(a, b, strict=True)]


def exponents(points: Mapping[float, Sequence[float]]) -> list[float]:
    """Fit value ~ position^p for each seed and return the p: slopes of log value on log position.

    `points` maps a position (a depth, say) to one value a seed.
    """
    x = [math.log(position) for position in points]
    middle = math.fsum(x) / len(x)
    spread = math.fsum((a - middle) ** 2 for a in x)
    return [
        math.fsum((a - middle) * math.log(v) for a, v in zip(x, values, strict=True)) / spread
        for values in zip(*points.values(), strict=True)
    ]
