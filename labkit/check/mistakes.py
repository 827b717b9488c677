"""Known mistakes, each a change to the right formula, most common first."""

from collections.abc import Iterator
from dataclasses import replace

from labkit.check.formula import Formula
from labkit.check.slips import Mistake, affine, bounded, skipped, squashed
from labkit.check.squash import BoundedTanh, Squash
from labkit.check.standardize import RepStandardize, Standardize

_COUNT = {"last": "d"}

_POOLED = {
    "last": "over the last axis",
    "first": "over the first axis",
    "all": "over the whole tensor",
    "all but the first": "over all axes but the first",
    "all but the last": "over all axes but the last",
    "all but the channel": "over all axes but the channel, shared by the batch",
    "channel": "over the channel axis",
    "space": "over space only, for each sample by itself",
    "last of space": "over the last axis of space only",
    "group": "over each group of neighbouring channels",
    "strided group": "over every G-th channel instead of neighbouring ones",
}

_EPS = {
    "outside": "eps is added outside the root, to the standard deviation",
    "inside": "eps is added inside the root",
    "none": "eps is not used",
    "both": "eps is added inside the root and again outside",
    "floor": "eps is a floor (clamp, max) instead of being added",
    "floor of the root": "eps is a floor on the root (clamp, max) instead of being added inside it",
    "squared": "eps is squared before it is added",
}
_EPS_RULE = {
    "outside": "; here it is added to the root",
    "floor of the root": "; here it is a floor: the length is at least eps",
}
_EPS_OTHERWISE = {
    ("outside", "floor of the root"): "eps is a floor on the root (clamp, max)",
    ("floor of the root", "outside"): "eps is added to the length (plus eps, not max)",
    ("floor of the root", "floor"): "eps is a floor on the square of the length",
}


def known_mistakes(right: Formula) -> list[Mistake]:
    """List what people get wrong in this norm."""
    listed: list[Mistake] = []
    if isinstance(right, Standardize):
        listed += _spread(right)
    if isinstance(right, BoundedTanh):
        listed += bounded()
    if isinstance(right, Squash):
        listed += squashed(right)
    if isinstance(right, RepStandardize):
        listed += skipped()
    listed += affine(right)
    if isinstance(right, Standardize):
        listed += [*_statistics(right), *_pools(right)]
    return [m for m in listed if replace(right, **m.change) != right]


def _spread(right: Standardize) -> Iterator[Mistake]:
    n = _COUNT.get(right.pool, "n")
    if right.correction:
        yield Mistake(
            f"the variance divides by {n}; here the standard deviation is the unbiased one, "
            f"which divides by {n} − 1",
            {"correction": 0},
        )
    elif not right.summed:
        yield Mistake(
            f"the variance divides by {n} − 1 instead of {n}: var and std do so by default, "
            "correction=0 is wanted"
            if right.centre == "mean"
            else f"the mean of squares divides by {n} − 1 instead of {n}",
            {"correction": 1},
        )
    for where, sentence in _EPS.items():
        sentence = _EPS_OTHERWISE.get((right.eps_at, where), sentence)
        yield Mistake(sentence + _EPS_RULE.get(right.eps_at, ""), {"eps_at": where})


def _statistics(right: Standardize) -> Iterator[Mistake]:
    n = _COUNT.get(right.pool, "n")
    what = "the length" if right.summed else "the variance"
    yield Mistake(f"the root is missing: {what} divides, not its root", {"root": False})
    yield Mistake("it multiplies by the root instead of dividing", {"divide": False})
    yield Mistake(
        f"the root mean square divides, not the length: a factor √{n} is too much"
        if right.summed
        else f"the sum of squares divides, not their mean: a factor of the root of {n} is missing",
        {"summed": not right.summed},
    )
    yield Mistake("the mean absolute value divides, not the root", {"moment": "absolute"})
    yield Mistake("the largest absolute value divides, not the root", {"moment": "largest"})
    yield Mistake(
        "the statistics are detached: no gradient flows through them", {"cut": ("mean", "spread")}
    )
    yield Mistake("the mean is detached: no gradient flows through it", {"cut": ("mean",)})
    yield Mistake("the denominator is detached: no gradient flows through it", {"cut": ("spread",)})
    yield from _centre(right)
    if right.part != "all":
        yield from _parts()
    if right.pool in ("all but the channel", "all but the last"):
        yield Mistake("the mask is ignored: padding counts in the statistics", {"mask": "ignored"})
        yield Mistake("the mask is inverted: True means a real token", {"mask": "inverted"})
        yield Mistake(
            "the sums leave padding out, their divisor counts it", {"mask": "padding counted"}
        )
        yield Mistake(
            "the batch's own statistics are used in evaluation; the training flag is ignored",
            {"evaluation": "batch"},
        )


def _centre(right: Standardize) -> Iterator[Mistake]:
    if right.centre == "mean":
        yield Mistake("the mean is not subtracted, as if it were RMS norm", {"centre": "none"})
        yield Mistake(
            "the mean is not subtracted from x, only inside the variance",
            {"centre": "spread only"},
        )
        yield Mistake(
            "the denominator uses the mean of x², not the variance about the mean",
            {"moment": "raw"},
        )
        return
    name = "RMS norm" if not right.summed and right.pool == "last" else "this norm"
    yield Mistake(f"the mean is subtracted; {name} keeps it", {"centre": "mean"})
    yield Mistake(
        f"the mean is subtracted from x; {name} keeps it", {"centre": "mean", "moment": "raw"}
    )
    yield Mistake(
        "the standard deviation divides: the mean is subtracted before squaring",
        {"centre": "spread only"},
    )


def _parts() -> Iterator[Mistake]:
    yield Mistake("all features are counted, not the first p · d", {"part": "all"})
    yield Mistake("the last features are taken, not the first", {"part": "last"})
    yield Mistake("every n-th feature is taken, not the first ones", {"part": "strided"})
    yield Mistake("p · d is rounded up; the floor is wanted", {"count": "ceil"})
    yield Mistake("p · d is rounded to the nearest; the floor is wanted", {"count": "round"})
    yield Mistake(
        "only the first p · d features are normalized; all are divided", {"only_part": True}
    )


def _pools(right: Standardize) -> Iterator[Mistake]:
    for pool, where in _POOLED.items():
        if pool != right.pool:
            sentence = f"the statistics run {where}, not {_POOLED[right.pool]}"
            yield Mistake(sentence, {"pool": pool})
