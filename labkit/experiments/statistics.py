"""Differences and powers, seed by seed; how many steps a loss takes."""

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


def steps_to(target: float, steps: Sequence[float], losses: Sequence[float]) -> float:
    """Read off how many steps bring a line of losses to a target: straight in log steps.

    Beyond either end the line goes straight on, so that a target out of reach is seen to be one.
    """
    if len(losses) < 2 or len(set(losses)) < len(losses):
        raise ValueError(f"a line needs two losses or more, which differ; got {list(losses)}")
    points = sorted(zip(losses, map(math.log, steps), strict=True))
    above = next((i for i, (loss, _) in enumerate(points) if loss >= target), len(points))
    (a, at_a), (b, at_b) = points[max(above, 1) - 1 :][:2] if above < len(points) else points[-2:]
    # Fifty powers of e say as much as infinity, and are a number.
    return math.exp(max(-50.0, min(50.0, at_a + (target - a) / (b - a) * (at_b - at_a))))
