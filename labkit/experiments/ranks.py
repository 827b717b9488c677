"""Do two rankings agree? Rank correlations with an interval and a test, for a handful of things.

rho = Pearson's correlation of the ranks                             Spearman; ties share a rank
tau = (concordant − discordant pairs) / sqrt((pairs − tied in a) (pairs − tied in b))  Kendall's b
interval of rho = tanh(atanh(rho) ± 1.96 sqrt((1 + rho² / 2) / (n − 3)))
p = share of all orders of b whose rho is at least as large (one-sided)

Source of the interval: Bonett and Wright 2000, Psychometrika 65, 23–28.
"""

import math
from collections.abc import Sequence
from itertools import permutations
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
        """Give rho's interval as a pair, as `claim` takes it."""
        return self.low, self.high


def ranks(values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Give each value its rank, the smallest 1; equal values share the mean of their ranks."""
    x = np.asarray(values, dtype=float)
    below = (x[None, :] < x[:, None]).sum(axis=1)
    equal = (x[None, :] == x[:, None]).sum(axis=1)
    return below + (equal + 1) / 2


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
    rx, ry = _centred(ranks(x)), _centred(ranks(y))
    rho = float(np.clip(rx @ ry, -1.0, 1.0))
    low, high = fisher_interval(rho, len(x))
    return RankCorrelation(rho, _tau(x, y), low, high, _share_above(rx, ry), len(x))


def fisher_interval(rho: float, n: int) -> tuple[float, float]:
    """Give the 95 % interval of a Spearman correlation of n things; without width at ±1."""
    if abs(rho) >= 1:
        return rho, rho
    half = 1.959964 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    return math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half)


def _centred(values: np.ndarray) -> np.ndarray:
    moved = values - values.mean()
    return moved / np.linalg.norm(moved)


def _tau(x: np.ndarray, y: np.ndarray) -> float:
    i, j = np.triu_indices(len(x), 1)
    dx, dy = np.sign(x[i] - x[j]), np.sign(y[i] - y[j])
    return float((dx * dy).sum() / math.sqrt((dx != 0).sum() * (dy != 0).sum()))


def _share_above(rx: np.ndarray, ry: np.ndarray) -> float:
    """Count the orders of the second ranking that agree with the first at least as well."""
    seen, n = rx @ ry - 1e-12, len(rx)
    if n <= EXACT:
        orders = np.array(list(permutations(range(n))))
        return float((ry[orders] @ rx >= seen).mean())
    orders = np.argsort(np.random.default_rng(0).random((DRAWS, n)), axis=1)
    return float(((ry[orders] @ rx >= seen).sum() + 1) / (DRAWS + 1))
