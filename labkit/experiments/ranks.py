"""Do two rankings agree? Rank correlations with an interval and a test, for a handful of things.

rho = Pearson's correlation of the ranks                             Spearman; ties share a rank
tau = (concordant − discordant pairs) / sqrt((pairs − tied in a) (pairs − tied in b))  Kendall's b
interval of rho = tanh(atanh(rho) ± 1.96 sqrt((1 + rho² / 2) / (n − 3)))
p = share of all orders of b whose rho is at least as large (one-sided)

Source of the interval: Bonett and Wright 2000, Psychometrika 65, 23–28.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

EXACT = 8  # up to so many things every order is tried: 8! = 40,320
DRAWS = 20_000  # beyond that, so many random orders, the same ones every time


class RankCorrelation(NamedTuple):
    """How two rankings of the same n things agree: 1 alike, 0 unrelated, −1 turned round."""

    rho: float  # Spearman's
    tau: float  # Kendall's, with ties
    low: float  # 95 % interval of rho, the things taken as a sample
    high: float
    p: float  # how often shuffling gives a rho as large
    n: int

    @property
    def interval(self) -> tuple[float, float]:
        """Return rho's interval as a pair, as `claim` takes it."""
        return self.low, self.high


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> RankCorrelation:
    """Compare two rankings of the same things, given as one number a thing in each.

    Raises:
        ValueError: fewer than four things, unlike lengths, a number that is not finite (declare
            what diverged apart), or a ranking in which all are equal.
    """
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 4:
        raise ValueError(
            f"two rankings need the same four things or more, got {x.shape} and {y.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError(
            "a ranking needs finite numbers; name what diverged apart, and leave it out"
        )
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        raise ValueError("a ranking in which all are equal correlates with nothing")
    from scipy.stats import kendalltau, rankdata, spearmanr  # importing takes a moment

    rho, tau = (float(np.asarray(test(x, y))[0]) for test in (spearmanr, kendalltau))
    low, high = fisher_interval(rho, len(x))
    return RankCorrelation(rho, tau, low, high, _share_above(rankdata(x), rankdata(y)), len(x))


def fisher_interval(rho: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a Spearman correlation of n things; without width at ±1."""
    if abs(rho) >= 1:
        return rho, rho
    half = 1.959964 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)


def _share_above(rx: np.ndarray, ry: np.ndarray) -> float:
    """Count the orders of the second ranking that agree with the first at least as well."""
    from scipy.stats import permutation_test  # importing takes a moment

    exact = len(rx) <= EXACT
    result = permutation_test(
        (ry,),
        lambda y, axis: (y * rx).sum(axis=axis),  # with the ranks alone, rho's order
        permutation_type="pairings",
        alternative="greater",
        vectorized=True,
        n_resamples=math.factorial(EXACT) if exact else DRAWS,
        rng=np.random.default_rng(0),
    )
    return float(result.pvalue)
