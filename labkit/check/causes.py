"""Known mistakes, each a change to the right formula: they explain a failure, never decide it.

The laws compare with the formula alone. When one fails, the outcome is compared with what each
known mistake, and each pair of them, would have given; the first that matches is the likely cause.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from torch import Tensor

from labkit.check.formula import Formula


@dataclass(frozen=True)
class Mistake:
    """One wrong decision: what it changes in the formula and the sentence that names it."""

    sentence: str
    change: dict[str, Any]


_COUNT = {"last": "d", "all but the channel": "n", "group": "n"}

_POOLED = {
    "last": "over the last axis",
    "first": "over the first axis",
    "all": "over the whole tensor",
    "all but the first": "over all axes but the first",
    "all but the last": "over all axes but the last",
    "all but the channel": "over all axes but the channel, shared by the batch",
    "channel": "over the channel axis",
    "space": "over space only, for each sample by itself",
    "group": "over each group of neighbouring channels",
    "strided group": "over every G-th channel instead of neighbouring ones",
}


def known_mistakes(right: Formula) -> list[Mistake]:
    """List what people get wrong in this norm, most common first."""
    n = _COUNT[right.pool]
    listed = [
        Mistake(
            f"the variance divides by {n} − 1 instead of {n}: var and std do so by default, "
            "correction=0 is wanted"
            if right.centre == "mean"
            else f"the mean of squares divides by {n} − 1 instead of {n}",
            {"correction": 1},
        ),
        Mistake("eps is added outside the root, to the standard deviation", {"eps_at": "outside"}),
        Mistake("eps is not used", {"eps_at": "none"}),
        Mistake("eps is added inside the root and again outside", {"eps_at": "both"}),
        Mistake("eps is a floor (clamp, max) instead of being added", {"eps_at": "floor"}),
        Mistake(
            "eps is a floor on the root (clamp, max) instead of being added inside it",
            {"eps_at": "floor of the root"},
        ),
        Mistake("eps is squared before it is added", {"eps_at": "squared"}),
        Mistake("the gain is ignored", {"gain": "none"}),
        Mistake("the shift is ignored", {"shift": "none"}),
        Mistake("gain and shift are both ignored", {"gain": "none", "shift": "none"}),
        Mistake("the shift is added before the gain multiplies", {"shift": "before"}),
        Mistake("the shift is subtracted instead of added", {"shift": "minus"}),
        Mistake("gain and shift are exchanged", {"swapped": True}),
        Mistake("1 + gain multiplies instead of the gain itself", {"gain": "one plus"}),
        Mistake("the gain divides instead of multiplying", {"gain": "divide"}),
        Mistake("gain and shift run along the wrong axis", {"features": -1 - right.features}),
        Mistake("gain and shift run along the wrong axis", {"features": 0}),
        Mistake("the root is missing: the variance divides, not its root", {"root": False}),
        Mistake("it multiplies by the root instead of dividing", {"divide": False}),
        Mistake(
            f"the sum of squares divides, not their mean: a factor of the root of {n} is missing",
            {"summed": True},
        ),
        Mistake("the mean absolute value divides, not the root", {"moment": "absolute"}),
        Mistake("the statistics are detached: no gradient flows through them",
                {"cut": ("mean", "spread")}),
        Mistake("the mean is detached: no gradient flows through it", {"cut": ("mean",)}),
        Mistake("the denominator is detached: no gradient flows through it", {"cut": ("spread",)}),
    ]  # fmt: skip
    if right.centre == "mean":
        listed += [
            Mistake("the mean is not subtracted, as if it were RMS norm", {"centre": "none"}),
            Mistake(
                "the mean is not subtracted from x, only inside the variance",
                {"centre": "spread only"},
            ),
            Mistake(
                "the denominator uses the mean of x², not the variance about the mean",
                {"moment": "raw"},
            ),
        ]
    else:
        listed += [
            Mistake("the mean is subtracted; RMS norm keeps it", {"centre": "mean"}),
            Mistake(
                "the mean is subtracted from x; RMS norm keeps it",
                {"centre": "mean", "moment": "raw"},
            ),
            Mistake(
                "the standard deviation divides: the mean is subtracted before squaring",
                {"centre": "spread only"},
            ),
        ]
    listed += [
        Mistake(f"the statistics run {where}, not {_POOLED[right.pool]}", {"pool": pool})
        for pool, where in _POOLED.items()
        if pool != right.pool
    ]
    return [m for m in listed if replace(right, **m.change) != right]


def _candidates(right: Formula, pairs: bool) -> Iterator[tuple[str, Formula]]:
    single = known_mistakes(right)
    for mistake in single:
        yield mistake.sentence, replace(right, **mistake.change)
    for one, other in combinations(single, 2) if pairs else ():
        if not one.change.keys() & other.change.keys():
            sentence = f"{one.sentence}; and {other.sentence}"
            yield sentence, replace(right, **one.change, **other.change)


def diagnose(
    right: Formula,
    explains: Callable[[Formula], bool],
    first: Sequence[tuple[str, Formula]] = (),
    pairs: bool = True,
) -> tuple[str, Formula] | None:
    """Find the first known mistake, or pair of them, that explains what came.

    `first` are candidates to try before all others: what explained another law.
    """
    for sentence, wrong in (*first, *_candidates(right, pairs)):
        try:
            if explains(wrong):
                return sentence, wrong
        except (RuntimeError, IndexError, KeyError, ZeroDivisionError):
            continue  # this mistake is not possible on an input of this shape
    return None


def wrong_eps(explains: Callable[[float], bool], asked: float) -> float | None:
    """Find the eps that was used, where it is not the one that was asked for."""
    usual = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-7, 1e-10, 1e-4, 1e-2, 0.1, 1.0, 1.1920929e-07)
    for eps in (*usual, asked / 10, asked * 10):
        if eps != asked and explains(eps):
            return eps
    return None


def largest_difference(came: Tensor, expected: Tensor) -> tuple[int, ...]:
    """Find the position of the worst entry; a NaN is worse than any number."""
    gap = (came.double() - expected.double()).abs().nan_to_num(nan=float("inf"))
    flat = int(gap.argmax())
    position = []
    for size in reversed(came.shape):
        position.append(flat % size)
        flat //= size
    return tuple(reversed(position))
