"""Unpaired comparison of two groups of runs, with a standard deviation pooled over arms.

    σ² = Σ_arms Σ_i (x_i − mean)² / Σ_arms (n − 1)
    difference = mean(other) − mean(one) ± t(ν) · sqrt(σ² (1/n₁ + 1/n₂) + u₁² + u₂²)
    n = 2 (1.96 + 0.84)² (σ / margin)²       runs per arm that detect a margin with power 80 %

Groups with runs of the same seeds can also be compared seed by seed (`pair`):

    mean(d) ± t(ν) · sqrt(s_d²/n + u₁² + u₂²)           d = other − one, of the n shared seeds

An arm with a different standard deviation has its own variance s²/n in place of σ²/n (Welch 1947).
u is a further uncertainty of an arm: here, the one from tuning its learning rate. ν combines the
parts by Welch and Satterthwaite's formula, u with infinite degrees of freedom (JCGM 100, section
G.4).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from labkit.statistics.criteria import Criterion, Estimate, Interval
from labkit.statistics.holm import adjusted
from labkit.statistics.seeds import Seeds, compute_quantile, leave_one_out

ALIKE = 0.05  # arms whose variance differs from the others' at this level stand alone
POWER = 1.96 + 0.84  # a two-sided test at 5 % finds the margin in 80 % of all cases


@dataclass(frozen=True)
class Scatter:
    """The standard deviation of a run, pooled over arms; `apart` names the arms left out."""

    sd: float
    freedom: int
    apart: tuple[str, ...] = ()


@dataclass(frozen=True)
class Difference:
    """Mean of `other` minus mean of `one`: of two samples or, if `paired`, by shared seeds."""

    one: tuple[float, ...]
    other: tuple[float, ...]
    scatter: tuple[tuple[float, int], tuple[float, int]]  # σ and its degrees of freedom, of each
    tuned: float = 0.0  # sqrt(u₁² + u₂²)
    since: str = ""  # when the first of these runs began (UTC), where that is known
    looked: str | None = None  # the same, including tuning runs and first looks
    arms: tuple[str, ...] = ()  # the compared arms, if they have names
    pairs: tuple[float, ...] = ()  # `other` minus `one`, for each shared seed
    paired: bool = False  # judged only by these
    devices: tuple[str, ...] = ()  # on which each arm was trained, if that differs
    lost: tuple[int, ...] = ()  # number of each arm's runs that diverged, if any did

    def to_dict(self) -> dict[str, Any]:
        """Return the samples, the parts of the interval and the dates, in the ledger's format."""
        kept: dict[str, Any] = {
            "one": _round_all(self.one),
            "other": _round_all(self.other),
            "scatter": [[*_round_all([sd]), of] for sd, of in self.scatter],
            "tuned": _round_all([self.tuned])[0],
        }
        if self.pairs:
            kept["pairs"] = _round_all(self.pairs)
        named = {"arms": list(self.arms), "since": self.since, "looked": self.looked,
                 "devices": list(self.devices), "lost": list(self.lost)}  # fmt: skip
        kept |= {name: value for name, value in named.items() if value}
        return kept | ({"paired": True} if self.paired else {})

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Difference":
        """Read the output of `to_dict`."""
        first, second = ((float(sd), int(of)) for sd, of in kept["scatter"])
        return cls(
            tuple(map(float, kept["one"])),
            tuple(map(float, kept["other"])),
            (first, second),
            float(kept["tuned"]),
            since=kept.get("since", ""),
            looked=kept.get("looked"),
            arms=tuple(kept.get("arms", ())),
            pairs=tuple(map(float, kept.get("pairs", ()))),
            paired=bool(kept.get("paired")),
            devices=tuple(kept.get("devices", ())),
            lost=tuple(kept.get("lost", ())),
        )

    def pair(self) -> "Difference":
        """Return the same comparison, paired by seed.

        Raises:
            ValueError: there are fewer than two shared seeds.
        """
        if not has_pairs(self):
            raise ValueError(
                f"a paired interval needs at least two shared seeds, got {len(self.pairs)}; use "
                "the same seeds for both methods"
            )
        return replace(self, paired=True)

    def count_seeds(self, paired: bool) -> int:
        """Return the number of shared seeds or, if not `paired`, of seeds of the smaller sample."""
        return len(self.pairs) if paired else min(len(self.one), len(self.other))

    @property
    def values(self) -> tuple[float, ...]:
        """Return the mean of `other` (or its run with the same seed) minus each run of `one`."""
        if self.paired:
            return self.pairs
        middle = math.fsum(self.other) / len(self.other)
        return tuple(middle - value for value in self.one)

    @property
    def mean(self) -> float:
        """Return the difference of the means."""
        return math.fsum(self.values) / len(self.values)

    def __format__(self, spec: str) -> str:
        """Format the mean and its 95 % interval: f"{lead:+z.3f}" is "+0.005 [-0.001, +0.011]"."""
        if not spec:
            return str(self)
        low, high = self.compute_interval()
        return f"{self.mean:{spec}} [{low:{spec}}, {high:{spec}}]"

    @property
    def pooled(self) -> bool:
        """Return whether both samples use the same standard deviation."""
        return self.scatter[0] == self.scatter[1]

    @cached_property
    def _error(self) -> tuple[float, float]:
        """Compute the standard error and its degrees of freedom."""
        sizes = len(self.one), len(self.other)
        if self.paired:
            n = len(self.pairs)
            parts = [(float(np.var(self.pairs, ddof=1)) / n, n - 1)]
        elif self.pooled:
            (sd, freedom), _ = self.scatter
            parts = [(sd**2 * (1 / sizes[0] + 1 / sizes[1]), freedom)]
        else:
            parts = [(sd**2 / n, of) for (sd, of), n in zip(self.scatter, sizes, strict=True)]
        variance = sum(part for part, _ in parts) + self.tuned**2
        known = sum(part**2 / of for part, of in parts)
        return math.sqrt(variance), variance**2 / known if known else math.inf

    @property
    def error(self) -> float:
        """Return the standard error of the difference."""
        return self._error[0]

    @property
    def freedom(self) -> float:
        """Return the degrees of freedom of the standard error."""
        return self._error[1]

    def compute_interval(self, level: float = 0.95) -> Interval:
        """Return the interval of the difference, including the uncertainty from tuning."""
        error, freedom = self._error
        half = compute_quantile(freedom, (1 + level) / 2) * error
        return self.mean - half, self.mean + half

    def p_value(self, criterion: Criterion) -> float | None:
        """Return the two-sided p-value against a bound; inside two bounds, one against each."""
        from scipy.special import stdtr  # importing scipy.stats takes a moment

        error, freedom = self._error

        def tail(bound: float) -> float:
            return float(stdtr(freedom, -abs(self.mean - bound) / error))

        if criterion.two_sided and criterion.is_met(self.mean):
            return max(tail(criterion.low), tail(criterion.high))
        near = min(criterion.bounds, key=lambda bound: abs(bound - self.mean))
        return min(1.0, 2 * tail(near))

    def without_one(self) -> "list[Estimate]":
        """Return the estimates without one run of either arm, or without one pair; σ is kept."""
        if self.paired:
            return [replace(self, pairs=fewer) for fewer in leave_one_out(self.pairs)]
        ones = [replace(self, one=fewer) for fewer in leave_one_out(self.one)]
        return [*ones, *(replace(self, other=fewer) for fewer in leave_one_out(self.other))]


def has_pairs(one: Estimate) -> TypeGuard[Difference]:
    """Return whether an estimate can be paired by seed: it has two or more shared seeds."""
    return isinstance(one, Difference) and len(one.pairs) > 1


def _round_all(values: Sequence[float]) -> list[float]:
    """Round to twelve digits, because further digits depend on the processor."""
    return [float(f"{value:.12g}") for value in values]


def pool_scatter(samples: Mapping[str, Sequence[float]]) -> Scatter:
    """Pool the standard deviation of arms; leave out arms with outlying variances, the worst first.

    Each variance is compared with the pooled variance of the other arms by a two-sided F test, with
    Holm's correction.

    Raises:
        ValueError: no arm has two runs.
    """
    from scipy.special import fdtr, fdtrc

    sums = {
        arm: (float(np.var(values, ddof=1)) * (len(values) - 1), len(values) - 1)
        for arm, values in samples.items()
        if len(values) > 1
    }
    apart: list[str] = []
    while True:
        kept = {arm: of for arm, of in sums.items() if arm not in apart}
        total, freedom = sum(s for s, _ in kept.values()), sum(of for _, of in kept.values())
        if not freedom:
            raise ValueError(
                "a standard deviation needs a method with at least two runs, but none of the "
                f"{len(samples)} methods has more than "
                f"{max(map(len, samples.values()), default=0)}; train more seeds"
            )
        p = {}
        for arm, (squares, of) in kept.items():
            rest, free = total - squares, freedom - of
            if free and rest > 0:
                ratio = squares / of / (rest / free)
                p[arm] = 2 * min(float(fdtr(of, free, ratio)), float(fdtrc(of, free, ratio)))
        corrected = adjusted(p)
        worst = min(corrected, key=lambda arm: (corrected[arm], p[arm]), default=None)
        if worst is None or corrected[worst] > ALIKE:
            return Scatter(math.sqrt(total / freedom), freedom, tuple(apart))
        apart.append(worst)


def compare_samples(
    one: Sequence[float],
    other: Sequence[float],
    scatter: Scatter | None = None,
    *,
    alone: tuple[bool, bool] = (False, False),
    tuned: float = 0.0,
    since: str = "",
    looked: str | None = None,
    arms: tuple[str, ...] = (),
    pairs: Sequence[float] = (),
    devices: tuple[str, ...] = (),
) -> Difference:
    """Compare two arms with a pooled standard deviation; an arm marked in `alone` has its own.

    Without a pooled standard deviation each arm has its own (Welch 1947). `pairs` are the
    differences other − one for the shared seeds.
    """

    def choose(values: Sequence[float], by_itself: bool) -> tuple[float, int]:
        if scatter is not None and not by_itself:
            return scatter.sd, scatter.freedom
        return float(np.std(values, ddof=1)), len(values) - 1

    pair = choose(one, alone[0]), choose(other, alone[1])
    return Difference(
        tuple(one), tuple(other), pair, tuned, since, looked, arms, tuple(pairs), devices=devices
    )


def count_seeds(sd: float, margin: float, *, shared: float = 0.0) -> int:
    """Return the number of runs per arm that detects a difference of `margin` with a power of 80 %.

    With pairs the `shared` part of the variance (`correlate_seeds`) cancels, and the t test of n
    pairs has n − 1 degrees of freedom: the result is the smallest n whose noncentral t has that
    power.
    """
    if not (sd > 0 and margin > 0 and 0 <= shared < 1):
        raise ValueError(
            f"sd and margin must be positive, and shared in [0, 1); got {sd:g}, {margin:g} and "
            f"{shared:g}"
        )
    n = max(2, math.ceil(2 * POWER**2 * (1 - shared) * (sd / margin) ** 2))
    if shared:
        from scipy.special import nctdtr

        apart = margin / sd / math.sqrt(2 * (1 - shared))  # in deviations of a pair's difference
        while nctdtr(n - 1, apart * math.sqrt(n), compute_quantile(n - 1, 0.975)) > 0.2:
            n += 1
    return n


def correlate_seeds(samples: Mapping[str, Mapping[int, float]]) -> float:
    """Return the fraction of a run's variance around its arm's mean that its seed explains.

    The intraclass correlation ICC(3, 1) of seeds over the arms (Shrout and Fleiss 1979), by a
    two-way analysis of variance: (MS_seed − MS_rest) / (MS_seed + (a − 1) MS_rest), a arms. Seeds
    that any arm lacks are left out.
    """
    shared = sorted(set.intersection(*(set(of) for of in samples.values()))) if samples else []
    if len(samples) < 2 or len(shared) < 2:
        raise ValueError(
            "a correlation between seeds needs two methods that share at least two seeds, got "
            f"{len(samples)} that share {len(shared)}"
        )
    table = np.array([[of[seed] for seed in shared] for of in samples.values()])
    arms, seeds = table.shape
    rest = table - table.mean(1, keepdims=True)
    of_seed = rest.mean(0)
    between = arms * float((of_seed**2).sum()) / (seeds - 1)
    within = float(((rest - of_seed) ** 2).sum()) / ((arms - 1) * (seeds - 1))
    return (between - within) / (between + (arms - 1) * within)


def read_rung(kept: Mapping[str, Any]) -> Estimate:
    """Rebuild the estimate of a rung from a claim's stored values."""
    return Difference.from_dict(kept) if "one" in kept else Seeds(tuple(kept["values"]))
