"""Differences, seed by seed."""

from collections.abc import Sequence


def minus(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """Subtract seed by seed: a[i] − b[i]."""
    return [float(x) - float(y) for x, y in zip(a, b, strict=True)]
