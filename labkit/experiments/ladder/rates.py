"""Choice of an arm's learning rate, and the loss that a better rate could still save.

    coarse   on rung S: five rates over two decades, one tuning seed, and the two rates half-way to
             the best one's neighbours
    fine     three tuning seeds at the best rate and at its neighbours, a quarter of a decade away;
             if the best of them is at an end, the next one too. If a seed does not learn at the
             neighbour above, three seeds half-way to it
    vertex   a parabola in log(rate) through the means of all rates within half a decade of the
             best at which every seed learns, weighted by their seeds; if it misses them by more
             than the seeds' spread (a cliff), through the best and its neighbours. Its minimum,
             rounded to a sixteenth of a decade and kept between the rates tried on either side of
             the best, is the rate that is evaluated

A seed does not learn at a rate if it diverges, or if its loss is a nat or more above the best
rate's mean: that is the loss of the unigram baseline, which reveals nothing about the curvature.

    left             sqrt(mean of e²)                   e = f(chosen) − min f
    in a difference  sqrt(mean of (e₁ − e₂)²)           of two arms with independent runs

f is the parabola. The mean is over the scatter of a seed in every tuning run near the best rate,
after which the best of these rates and the parabola's minimum are chosen again. (The window of
rates and the answer to the test for a cliff are kept.) It is a sum over a grid of normal deviates,
without a random number; 10⁶ random draws agree within a few per cent. A loss that both arms share
cancels in a difference, whose interval includes this uncertainty like a standard error.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import numpy as np

from labkit.experiments.run import Run
from labkit.training import Record

COARSE = (0.001, 0.00316, 0.01, 0.0316, 0.1)
QUARTERS = (0.001, 0.00178, 0.00316, 0.00562, 0.01, 0.0178, 0.0316, 0.0562, 0.1)
TUNING_SEED = 1000
TUNING_SEEDS = (1000, 1001, 1002)
QUARTER = 4  # sixteenths of a decade
HALFWAY = QUARTER // 2  # to a neighbour at which a seed does not learn
LEARNED = 1.0  # nats above the best rate's mean, at which a seed has not learned
NEAR = 2 * QUARTER  # largest distance from the best of a rate in the parabola's fit
LOWEST, HIGHEST = -4 * QUARTER, 12 * QUARTER  # the grid may grow from 0.0001 to 1
CLIFF = 0.05  # level at which a parabola is refuted by its residuals
REACH = 4.5  # standard deviations to which the grid of deviates goes
# Points along each axis of the grid, by their number: the first two decide the vertex, the others
# the best rate.
SHAPES = {2: (200, 200), 3: (64, 64, 16), 4: (24, 24, 10, 10), 5: (14, 14, 7, 7, 7)}

Read = Callable[[Run], Record | None]
Tuned = Mapping[float, Sequence[float]]  # validation losses by rate; infinite where a run diverged


def name_rate(place: int) -> float:
    """Return the rate that is `place` sixteenths of a decade above 0.001, to three digits."""
    return float(f"{10 ** (place / (4 * QUARTER) - 3):.3g}")


def find_place(rate: float) -> int:
    """Return the number of sixteenths of a decade from 0.001 to a rate."""
    return round(4 * QUARTER * (math.log10(rate) + 3))


def read_validation_loss(record: Record) -> float:
    """Read a run's validation loss; infinite if it diverged."""
    loss = record.probes["validation"]["loss"]
    return math.inf if loss is None else loss


def learns(losses: Sequence[float], best: float) -> bool:
    """Return whether every seed learns at a rate: see the top of the file."""
    return max(losses) < best + LEARNED


@dataclass(frozen=True)
class Valley:
    """The parabola f(p) = loss + bend · (p − place)², p in sixteenths of a decade."""

    place: float
    loss: float
    bend: float

    def rise(self, place: float) -> float:
        """Return the loss at a place minus the lowest loss."""
        return self.bend * (place - self.place) ** 2


def choose_rate(tuned: Tuned) -> float:
    """Return the vertex, rounded to a sixteenth of a decade, between the best rate's neighbours."""
    best = find_middle(tuned)
    valley = fit_valley(tuned)
    if valley is None:
        return name_rate(best)
    low, high = _find_bounds(tuned, best)
    return name_rate(min(max(round(valley.place), low), high))


def _find_bounds(tuned: Tuned, best: int) -> tuple[int, int]:
    """Return the outermost places between the rates tried on either side of the best."""
    places = [find_place(rate) for rate in tuned]
    below = max((place for place in places if place < best), default=best - QUARTER)
    above = min((place for place in places if place > best), default=best + QUARTER)
    return below + 1, above - 1


def find_middle(tuned: Tuned) -> int:
    """Return the place of the best rate among those with the largest number of seeds."""
    most = max(map(len, tuned.values()))
    means = [(fmean(losses), rate) for rate, losses in tuned.items() if len(losses) == most]
    return find_place(min(means)[1])


def fit_valley(tuned: Tuned) -> Valley | None:
    """Fit the parabola around the best rate; None if three finite rates do not define one."""
    best = find_middle(tuned)
    near = _read_near(tuned, best)
    wide = _fit_parabola({place: (fmean(of), len(of)) for place, of in near.items()})
    if wide is not None and not _is_cliff(wide, near):
        return wide
    three = {place: of for place, of in near.items() if abs(place - best) <= QUARTER}
    return _fit_parabola({place: (fmean(of), len(of)) for place, of in three.items()})


def _read_near(tuned: Tuned, best: int) -> dict[int, Sequence[float]]:
    """Return the losses by place of the rates near the best one at which every seed learns."""
    lowest = fmean(tuned[name_rate(best)])
    return {
        find_place(rate): losses
        for rate, losses in tuned.items()
        if abs(find_place(rate) - best) <= NEAR and learns(losses, lowest)
    }


def _fit_parabola(means: Mapping[int, tuple[float, int]]) -> Valley | None:
    """Fit means by place, weighted by their numbers of seeds; None if there is no minimum."""
    if len(means) < 3:
        return None
    places = np.array([*means], dtype=float)
    losses, weights = np.array([*means.values()]).T
    center = places.mean()
    bend, slope, height = np.polyfit(places - center, losses, 2, w=np.sqrt(weights))
    if not bend > 0:
        return None
    vertex = -slope / (2 * bend)
    return Valley(float(center + vertex), float(height - bend * vertex**2), float(bend))


def _is_cliff(valley: Valley, near: Mapping[int, Sequence[float]]) -> bool:
    """Return whether an F test finds that the parabola misses the mean losses (a cliff)."""
    freedom = sum(len(losses) - 1 for losses in near.values())
    left = len(near) - 3
    if not left or not freedom:
        return bool(left)  # without a standard deviation to compare with, trust only three rates
    from scipy.special import fdtrc

    within = sum((loss - fmean(of)) ** 2 for of in near.values() for loss in of) / freedom
    missed = sum(
        len(of) * (fmean(of) - valley.loss - valley.rise(place)) ** 2 for place, of in near.items()
    )
    if not within:  # seeds that agree to the last digit: every residual counts
        return missed > 0
    return float(fdtrc(left, freedom, missed / left / within)) < CLIFF


@dataclass(frozen=True)
class Left:
    """The uncertainty from tuning an arm's rate, in nats: its mean, and its root mean square."""

    mean: float = 0.0
    size: float = 0.0

    def join(self, other: "Left") -> float:
        """Return the root mean square of the difference of two arms: see the top of the file."""
        left = self.size**2 + other.size**2 - 2 * self.mean * other.mean
        return math.sqrt(max(left, 0.0))  # two that are equal can leave a rounding below zero


def measure_left(tuned: Tuned, sd: float, *, by_vertex: bool = True) -> Left:
    """Return the uncertainty from tuning an arm's rate: see the top of the file.

    `sd` is the standard deviation of a run. `by_vertex=False`: the best rate of the grid was
    chosen.
    """
    return _measure_left(tuple((rate, *losses) for rate, losses in tuned.items()), sd, by_vertex)


@cache  # every pair of methods asks again
def _measure_left(rows: tuple[tuple[float, ...], ...], sd: float, by_vertex: bool) -> Left:
    tuned = {rate: losses for rate, *losses in rows}
    valley, best = fit_valley(tuned), find_middle(tuned)
    near = dict(sorted(_read_near(tuned, best).items()))
    if valley is None:  # no parabola: use the cost of the best's nearer neighbour
        beside = [
            abs(fmean(losses) - fmean(tuned[name_rate(best)]))
            for place, losses in near.items()
            if 0 < abs(place - best) <= QUARTER
        ]
        return Left(size=min(beside, default=sd))  # a guess has no mean that could cancel
    places, counts = np.array([*near]), np.array([len(losses) for losses in near.values()])
    tried = np.where(counts == counts.max(), 0.0, np.inf)  # candidates for the best
    root = np.sqrt(counts)
    middle = places.mean()
    design = np.vander(places - middle, 3, increasing=True) * root[:, None]
    # Axes of the scatter: first what bends and tilts a parabola, then what no parabola has. What
    # lifts all losses alike is left out, for it changes no choice.
    axes = np.linalg.qr(design, mode="complete")[0][:, 1:]
    shape = SHAPES.get(len(places) - 1) or (10, 10, *[4] * (len(places) - 3))
    deviates, weights = _build_grid(shape)
    losses = valley.bend * (places - valley.place) ** 2 + sd * (deviates @ axes.T) / root
    lowest = (losses + tried).argmin(1)
    chosen = places[lowest]
    if by_vertex:
        _, slopes, bends = np.linalg.pinv(design) @ (losses * root).T
        with np.errstate(divide="ignore", invalid="ignore"):
            vertices = np.where(bends > 0, middle - slopes / (2 * bends), chosen)
        low, high = np.array([_find_bounds(tuned, place) for place in near])[lowest].T
        chosen = np.clip(np.round(vertices), low, high)
    lost = valley.bend * (chosen - valley.place) ** 2
    return Left(float(weights @ lost), math.sqrt(weights @ lost**2))


@cache
def _build_grid(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Build a grid of standard normal deviates, one point per row, and the weight of each point."""
    axes = [REACH * ((2 * np.arange(points) + 1) / points - 1) for points in shape]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(shape))
    weights = np.exp(-(grid**2).sum(1) / 2)
    return grid, weights / weights.sum()
