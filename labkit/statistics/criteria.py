"""Criteria fixed before the run: "> 0", "in [0.9, 1.1]"; and the interface of an estimate."""

import math
import re
from dataclasses import dataclass
from typing import Protocol

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BOUND = re.compile(rf"\s*(>=|<=|>|<)\s*({_NUMBER})\s*")
_RANGE = re.compile(rf"\s*in\s*\[\s*({_NUMBER})\s*,\s*({_NUMBER})\s*\]\s*")

Interval = tuple[float, float]


@dataclass(frozen=True)
class Criterion:
    """Condition on a number: it must lie between two bounds, one of which may be missing."""

    low: float
    high: float
    strict: bool = False  # a bound itself does not count

    @property
    def two_sided(self) -> bool:
        """Return whether there are two bounds, as in a claim of equivalence."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def bounds(self) -> list[float]:
        """Return the finite bounds."""
        return [bound for bound in (self.low, self.high) if math.isfinite(bound)]

    @property
    def margin(self) -> float:
        """Return the criterion's tolerance: half of a range, or the size of a single bound."""
        return (self.high - self.low) / 2 if self.two_sided else abs(self.bounds[0])

    def is_met(self, value: float) -> bool:
        """Return whether a number meets the criterion."""
        if self.strict and value in (self.low, self.high):
            return False
        return self.low <= value <= self.high

    def contains_interval(self, interval: Interval) -> bool:
        """Return whether a whole interval meets the criterion."""
        return all(map(self.is_met, interval))

    def excludes_interval(self, interval: Interval) -> bool:
        """Return whether a whole interval lies beyond the same bound."""
        spans = interval[0] < self.low and interval[1] > self.high
        return not spans and not any(map(self.is_met, interval))


class Estimate(Protocol):
    """A number with an interval, estimated from a few runs."""

    @property
    def values(self) -> tuple[float, ...]:
        """Return one number per run, or the single number for all runs."""
        ...

    @property
    def mean(self) -> float:
        """Return the estimate."""
        ...

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return the interval of the estimate."""
        ...

    def p_value(self, criterion: Criterion) -> float | None:
        """Return the two-sided p-value for a criterion; None if there is no test."""
        ...

    def without_one(self) -> "list[Estimate]":
        """Return the estimates with one run left out, for each run."""
        ...


def parse_criterion(text: str) -> Criterion:
    """Parse "> 0", "<= 1.5" or "in [0.9, 1.1]"."""
    if match := _BOUND.fullmatch(text):
        bound, strict = float(match[2]), "=" not in match[1]
        if match[1].startswith(">"):
            return Criterion(bound, math.inf, strict)
        return Criterion(-math.inf, bound, strict)
    if (match := _RANGE.fullmatch(text)) and float(match[1]) <= float(match[2]):
        return Criterion(float(match[1]), float(match[2]))
    raise ValueError(
        f"a criterion must have a form like '> 0', '<= 1.5' or 'in [0.9, 1.1]'; got {text!r}"
    )
