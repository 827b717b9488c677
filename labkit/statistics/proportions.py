"""Proportions: k of n runs. Student's t is unsuitable: 5 of 5 would have an interval of width 0.

    one       [l, u] = Clopper and Pearson's exact interval: 5 of 5 is [0.48, 1]
    two       p₁ − p₂ − sqrt((p₁ − l₁)² + (u₂ − p₂)²)   to   p₁ − p₂ + sqrt((u₁ − p₁)² + (p₂ − l₂)²)

The second is Newcombe's method with exact intervals; cards show it, but Fisher's exact test
decides. Sources: Clopper and Pearson 1934; Newcombe 1998, method 10.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from labkit.statistics.criteria import Criterion, Estimate, Interval


@dataclass(frozen=True)
class Proportion:
    """A proportion: k of n runs."""

    k: int
    n: int

    def __post_init__(self):
        if not 0 <= self.k <= self.n or not self.n:
            raise ValueError(
                f"a proportion needs n ≥ 1 runs, of which 0 to n are counted; got {self.k} of "
                f"{self.n}"
            )

    @property
    def counts(self) -> list[list[int]]:
        """Return the counts, in the ledger's format."""
        return [[self.k, self.n]]

    @property
    def values(self) -> tuple[float, ...]:
        """Return the proportion, as a tuple of one value."""
        return (self.mean,)

    @property
    def mean(self) -> float:
        """Return the proportion."""
        return self.k / self.n

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return Clopper and Pearson's interval."""
        from scipy.stats import binomtest  # importing takes a moment

        low, high = binomtest(self.k, self.n).proportion_ci(level, method="exact")
        return float(low), float(high)

    def p_value(self, criterion: Criterion) -> float | None:
        """Return the binomial test's p-value against a bound; inside two bounds, against each."""
        from scipy.stats import binomtest

        def test_share(bound: float, alternative: str = "two-sided") -> float:
            return float(binomtest(self.k, self.n, bound, alternative).pvalue)

        if criterion.two_sided and criterion.is_met(self.mean):
            return max(test_share(criterion.low, "greater"), test_share(criterion.high, "less"))
        near = min(criterion.bounds, key=lambda bound: abs(bound - self.mean))
        return test_share(near) if 0 <= near <= 1 else None

    def drop_one_run(self) -> "list[Proportion]":
        """Return the proportions with one success left out, and with one failure left out."""
        left = [(self.k - 1, self.n - 1)] * (self.k > 0) + [(self.k, self.n - 1)] * (
            self.k < self.n
        )
        return [Proportion(k, n) for k, n in left if n]

    def without_one(self) -> list[Estimate]:
        """Return the estimates with one run left out; none for one or two runs."""
        return [*self.drop_one_run()] if self.n > 2 else []

    def __sub__(self, other: "Proportion") -> "Gap":
        return Gap(self, other)


@dataclass(frozen=True)
class Gap:
    """One proportion minus another."""

    one: Proportion
    other: Proportion

    @property
    def counts(self) -> list[list[int]]:
        """Return the counts, in the ledger's format."""
        return [*self.one.counts, *self.other.counts]

    @property
    def values(self) -> tuple[float, ...]:
        """Return the difference, as a tuple of one value."""
        return (self.mean,)

    @property
    def mean(self) -> float:
        """Return the difference of the proportions."""
        return self.one.mean - self.other.mean

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return Newcombe's interval from the two intervals."""
        a, b = self.one.mean, self.other.mean
        low, high = self.one.compute_interval(level)
        lower, higher = self.other.compute_interval(level)
        below, above = math.hypot(a - low, higher - b), math.hypot(high - a, b - lower)
        return a - b - below, a - b + above

    def p_value(self, criterion: Criterion) -> float | None:
        """Return the two-sided p-value of Fisher's exact test; None unless the only bound is 0."""
        if criterion.bounds != [0]:
            return None  # it requires more than a difference
        from scipy.stats import fisher_exact  # importing takes a moment

        table = [[side.k, side.n - side.k] for side in (self.one, self.other)]
        return float(np.asarray(fisher_exact(table))[1])

    def without_one(self) -> list[Estimate]:
        """Return the estimates with one run of either side left out."""
        ones = [Gap(fewer, self.other) for fewer in self.one.drop_one_run()]
        return [*ones, *(Gap(self.one, fewer) for fewer in self.other.drop_one_run())]


def proportion(flags: Iterable[float | bool]) -> Proportion:
    """Count the runs that meet a condition: one flag (true or false, 1 or 0) per run."""
    counted = [float(flag) for flag in flags]
    if not set(counted) <= {0.0, 1.0}:
        raise ValueError(
            f"a proportion needs one flag per run, true or false, got {counted}; pass other "
            "values to the claim directly"
        )
    return Proportion(int(sum(counted)), len(counted))
