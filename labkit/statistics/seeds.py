"""A mean over seeds: Student's t.

interval = mean ± t(0.975, n − 1) · s / sqrt(n)          s with n − 1, n seeds
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from labkit.statistics.criteria import Criterion, Estimate, Interval

# Values that differ only by rounding count as equal.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Seeds:
    """One value per seed (or per pair of seeds)."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean of the values."""
        return math.fsum(self.values) / len(self.values)

    @property
    def flat(self) -> bool:
        """Return whether all values are equal, up to rounding."""
        return max(self.values) - min(self.values) <= ROUNDING * max(map(abs, self.values))

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return Student's interval of the mean; a single value is treated as exact."""
        if self.flat:
            return self.mean, self.mean
        n, mean = len(self.values), self.mean
        spread = math.sqrt(math.fsum((v - mean) ** 2 for v in self.values) / (n - 1))
        half = compute_quantile(n - 1, (1 + level) / 2) * spread / math.sqrt(n)
        return mean - half, mean + half

    def p_value(self, criterion: Criterion) -> float | None:
        """Return the two-sided p-value of the mean; inside two bounds, one-sided against each."""
        if self.flat:
            return None
        from scipy.stats import ttest_1samp  # importing takes a moment

        def test_mean(bound: float, alternative: str = "two-sided") -> float:
            return float(np.asarray(ttest_1samp(self.values, bound, alternative=alternative))[1])

        if criterion.two_sided and criterion.is_met(self.mean):
            return max(test_mean(criterion.low, "greater"), test_mean(criterion.high, "less"))
        near = min(criterion.bounds, key=lambda bound: abs(bound - self.mean))
        return test_mean(near)

    def without_one(self) -> list[Estimate]:
        """Return the estimates with one seed left out; none for one or two seeds."""
        return [Seeds(fewer) for fewer in leave_one_out(self.values)]


@dataclass(frozen=True)
class Given:
    """A number with an interval from elsewhere, such as a rank correlation."""

    values: tuple[float, ...]
    given: Interval

    @property
    def mean(self) -> float:
        """Return the mean of the values."""
        return math.fsum(self.values) / len(self.values)

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return the interval, whatever the level."""
        return self.given

    def p_value(self, criterion: Criterion) -> float | None:
        """Return None: the distribution behind the interval is unknown."""
        return None

    def without_one(self) -> list[Estimate]:
        """Return an empty list: the values are not a sample of seeds."""
        return []


def leave_one_out(values: tuple[float, ...]) -> list[tuple[float, ...]]:
    """List, for each value, the others; empty for one or two values."""
    few = len(values) < 3
    return [] if few else [(*values[:i], *values[i + 1 :]) for i in range(len(values))]


def correlate_ranks(one: Sequence[float], other: Sequence[float]) -> Given:
    """Correlate two measures of the same runs by ranks (Spearman).

    interval = tanh(atanh(r) ± 1.96 · sqrt(1.06 / (n − 3)))          Fieller et al. 1957
    """
    from scipy.stats import spearmanr  # importing takes a moment

    r = float(np.asarray(spearmanr(one, other))[0])
    half = 1.96 * np.sqrt(1.06 / (len(one) - 3))
    middle = np.arctanh(np.clip(r, -0.999, 0.999))
    return Given((r,), (float(np.tanh(middle - half)), float(np.tanh(middle + half))))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return Student's t interval of the mean; a single value is treated as exact."""
    return Seeds(tuple(map(float, values))).compute_interval(level)


@cache
def compute_quantile(freedom: float, level: float) -> float:
    """Return the quantile of Student's t distribution."""
    from scipy.special import stdtrit  # the quantile of scipy.stats.t, without its 0.7 s of import

    return float(stdtrit(freedom, level))
