"""What a handful of seeds can say: t intervals, verdicts, and how much hangs on one seed.

interval = mean ± t(0.975, n − 1) · s / sqrt(n)          s with n − 1, n seeds
verdict  = holds          where the whole interval meets the criterion
           contradicted   where all of it meets the opposite
           not-seen       otherwise
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BOUND = re.compile(rf"^\s*(>=|<=|>|<)\s*({_NUMBER})\s*$")
_RANGE = re.compile(rf"^\s*in\s*\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\]\s*$")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
}
_OPPOSITE = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}


def t_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Give Student's t interval of the mean; one value is taken as exact."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n == 1:
        return mean, mean
    spread = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (n - 1))
    from scipy.special import stdtrit  # training does without it

    half = float(stdtrit(n - 1, (1 + level) / 2)) * spread / math.sqrt(n)
    return mean - half, mean + half


def parse_criterion(criterion: str) -> tuple[str, float, float]:
    """Read "> 0", "<= 1.5" or "in [0.9, 1.1]" as (relation, low, high)."""
    if match := _BOUND.match(criterion):
        return match[1], float(match[2]), float(match[2])
    if (match := _RANGE.match(criterion)) and float(match[1]) <= float(match[2]):
        return "in", float(match[1]), float(match[2])
    raise ValueError(
        f"a criterion reads like '> 0', '<= 1.5' or 'in [0.9, 1.1]'; got {criterion!r}"
    )


def verdict(interval: tuple[float, float], criterion: str) -> str:
    """Judge an interval by a criterion: holds, contradicted, or not-seen."""
    relation, a, b = parse_criterion(criterion)
    low, high = interval
    if relation == "in":
        if a <= low and high <= b:
            return "holds"
        return "contradicted" if high < a or low > b else "not-seen"
    if all(_COMPARE[relation](end, a) for end in interval):
        return "holds"
    if all(_COMPARE[_OPPOSITE[relation]](end, a) for end in interval):
        return "contradicted"
    return "not-seen"


def is_weak(values: Sequence[float], criterion: str) -> bool:
    """Say whether leaving out one seed changes the verdict."""
    if len(values) < 3:
        return False
    whole = verdict(t_interval(values), criterion)
    return any(
        verdict(t_interval([*values[:i], *values[i + 1 :]]), criterion) != whole
        for i in range(len(values))
    )


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
