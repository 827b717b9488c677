"""Decision accuracy: do two rungs give two arms the same order?

Among all pairs of arms that were evaluated on both rungs, count those with the same order, also for
the pairs that the first rung distinguishes. Pairs share arms, so they are not an independent sample
and have no interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from labkit.experiments.experiment import Results
from labkit.experiments.ladder.comparing import compare_on, measure_scatter
from labkit.experiments.ladder.reading import (
    APART,
    SEEDS,
    Ladder,
    has_reported,
    read_losses,
    read_test_losses,
)
from labkit.statistics.criteria import Criterion
from labkit.statistics.holm import adjusted
from labkit.statistics.pooled import Difference, Scatter, compare_samples
from labkit.statistics.verdicts import LEVEL

DIFFERENT = Criterion(0.0, math.inf)  # than 0: a p-value is two-sided
Pair = tuple[str, str]


@dataclass(frozen=True)
class Agreement:
    """Counts of the pairs of arms that two rungs order in the same way, and of the others."""

    one: str
    other: str
    same: int
    turned: tuple[Pair, ...]  # the pairs with the opposite order on the other rung
    told: int  # pairs with a significant difference on the first rung, after Holm's correction
    kept: int  # of those, the pairs with the same order on the other rung
    against: tuple[Pair, ...]  # significant on both rungs, in opposite orders

    @property
    def pairs(self) -> int:
        """Return the number of pairs."""
        return self.same + len(self.turned)


def compare_orders(found: Results, one: str, other: str) -> Agreement:
    """Compare the orders that two rungs give to the arms evaluated on both."""
    arms = [
        arm
        for arm in found.by("arm")
        if arm not in APART and all(has_reported(found, arm, rung) for rung in (one, other))
    ]
    first, second = (compare_all(found, rung, arms) for rung in (one, other))
    turned = tuple(pair for pair in first if first[pair].mean * second[pair].mean < 0)
    told = list_told_apart(first)
    both = {pair for pair in list_told_apart(second) if pair in told}
    return Agreement(
        one,
        other,
        len(first) - len(turned),
        turned,
        len(told),
        sum(pair not in turned for pair in told),
        tuple(pair for pair in turned if pair in both),
    )


def compare_all(found: Results, rung: str, arms: Sequence[str]) -> dict[Pair, Difference]:
    """Compare every pair of arms on a rung, with one standard deviation pooled over all arms."""
    rows = {arm: found.where(rung=rung, arm=arm).rows for arm in arms}
    scatters = {rung: measure_scatter(found, rung)} if arms else {}
    return {
        (one, other): compare_on(Ladder(rows[one] + rows[other], scatters), rung, one, other)
        for one, other in combinations(arms, 2)
    }


def adjust_pairs(pairs: Mapping[Pair, Difference]) -> dict[Pair, float]:
    """Return the p-value of each pair, with Holm's correction for all of them."""
    return adjusted({pair: of.p_value(DIFFERENT) or 0.0 for pair, of in pairs.items()})


def list_told_apart(pairs: Mapping[Pair, Difference]) -> list[Pair]:
    """List the pairs whose difference survives Holm's correction for all of them."""
    return [pair for pair, p in adjust_pairs(pairs).items() if p <= LEVEL]


def count_told_apart(found: Results, rung: str, arms: list[str]) -> dict[str, int]:
    """Count the significantly different pairs by each of four tests.

    The leaderboard's test has one standard deviation for all arms and the uncertainty from tuning;
    the second leaves this uncertainty out; Welch's test has a standard deviation for each arm. The
    paired test compares each pair by seed, on the five seeds of the first look, and is left out
    unless all arms have them.
    """
    from scipy.stats import ttest_ind, ttest_rel

    losses, scatter = read_losses(found, rung), measure_scatter(found, rung)
    pairs = [*combinations(arms, 2)]
    plain = {p: _compare_plainly(losses, scatter, p) for p in pairs}
    welch = {p: ttest_ind(losses[p[0]], losses[p[1]], equal_var=False)[1] for p in pairs}
    counted = {
        "the board's test": len(list_told_apart(compare_all(found, rung, arms))),
        "the same test without the uncertainty from tuning": len(list_told_apart(plain)),
        "Welch's test": _count(welch),
    }
    looks = {arm: _read_first_look(found, rung, arm) for arm in arms}
    if all(looks.values()):
        paired = {p: ttest_rel(looks[p[0]], looks[p[1]])[1] for p in pairs}
        counted["a paired test with five seeds"] = _count(paired)
    return counted


def _read_first_look(found: Results, rung: str, arm: str) -> list[float]:
    """Read the losses of an arm's first look by seed; empty if one of them is missing."""
    of = read_test_losses(found, "first").get((rung, arm), {})
    return [of[seed] for seed in SEEDS] if {*of} >= {*SEEDS} else []


def _count(p_values: Mapping[Pair, Any]) -> int:
    return sum(p <= LEVEL for p in adjusted({k: float(p) for k, p in p_values.items()}).values())


def _compare_plainly(losses: Mapping[str, list[float]], scatter: Scatter, pair: Pair) -> Difference:
    alone = (pair[0] in scatter.apart, pair[1] in scatter.apart)
    return compare_samples(losses[pair[0]], losses[pair[1]], scatter, alone=alone)
