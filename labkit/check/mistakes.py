"""Known mistakes, each one a changed setting of the right formula, most common first.

They only explain: the laws compare with the right formula. When a law fails, its results are
compared with those of each known mistake; the first match is the likely cause.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

from labkit.check.formula import SQUASHES, Formula

Explanation = tuple[str, Formula]
Rows = list[tuple[str, dict[str, Any]]]

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

# The common values of settings, most common first.
USUAL = {
    "eps": (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-7, 1e-10, 1e-4, 1e-2, 0.1, 1.0, 1.1920929e-07),
    "p": (0.0625, 0.125, 0.25, 0.5, 1.0),
    "bound": (10.0, 1.0, 5.0, 100.0),
    "alpha": (1.0, 0.25, 0.1, 0.2, 0.8, 2.0),
    "scale": (2.0, 0.5, 10.0),
}


@cache
def known_mistakes(right: Formula, has_shift: bool) -> tuple[Explanation, ...]:
    """List common mistakes in this norm, as formulas that differ from the right one."""
    rows: Rows = []
    if right.pool:
        rows += [*_vary_divisor(right), *_vary_eps(right)]
    if right.bound:
        rows += [
            ("the bound kappa is ignored", {"bound": "ignored"}),
            ("the bound kappa divides outside the tanh, not inside", {"bound": "outside"}),
            ("the bound kappa multiplies instead of dividing", {"bound": "times"}),
        ]
    if right.f:
        rows += _vary_squash(right)
    rows += _vary_affine(right, has_shift)
    if right.pool:
        rows.append(("the gain multiplies x before x is normalized", {"gain_first": True}))
        rows += [*_vary_statistics(right), *_vary_centre(right)]
        rows += _PART if right.part != "all" else []
        rows += _BATCH if right.pool in ("all but the channel", "all but the last") else []
        rows += [
            (f"the statistics run {where}, not {_POOLED[right.pool]}", {"pool": pool})
            for pool, where in _POOLED.items()
        ]
        rows += _NOT_ONCE if not right.f and not right.skip else []
    wrong = [(sentence, replace(right, **change)) for sentence, change in rows]
    return tuple((sentence, formula) for sentence, formula in wrong if formula != right)


def list_places(right: Formula, role: str) -> tuple[str, ...]:
    """List where another value of a setting may be applied: eps outside the root as well."""
    return ("inside", "outside") if (role, right.eps_at) == ("eps", "inside") else (right.eps_at,)


def explain(
    explains: Callable[[Formula], bool], tried: Iterable[Explanation]
) -> Explanation | None:
    """Return the first explanation that fits the results; None if none does."""
    for sentence, wrong in tried:
        try:
            if explains(wrong):
                return sentence, wrong
        except (RuntimeError, IndexError, KeyError, ZeroDivisionError):
            continue  # this mistake is not possible on an input of this shape
    return None


def _vary_divisor(right: Formula) -> Rows:
    n = "d" if right.pool == "last" else "n"
    if right.correction:
        told = f"the variance divides by {n}; here the standard deviation is the unbiased one, "
        return [(told + f"which divides by {n} − 1", {"correction": 0})]
    if right.summed:
        return []
    told = f"the mean of squares divides by {n} − 1 instead of {n}"
    if right.centre == "mean":
        told = f"the variance divides by {n} − 1 instead of {n}: var and std do so by default, "
        told += "so pass correction=0"
    rows: Rows = [(told, {"correction": 1})]
    if right.eps_at == "inside":
        both = {"correction": 1, "eps_at": "outside"}
        rows.append((f"{told}; and eps is added outside the root", both))
    return rows


def _vary_eps(right: Formula) -> Rows:
    said = {
        "outside": "eps is added outside the root, to the standard deviation",
        "inside": "eps is added inside the root",
        "none": "eps is not used",
        "both": "eps is added inside the root and again outside",
        "floor": "eps is a floor (clamp, max) instead of being added",
        "floor of the root": "eps is a floor on the root (clamp, max) instead of being added "
        "inside it",
        "squared": "eps is squared before it is added",
    }
    if not right.summed:
        said["floor of the length"] = (
            "eps is a floor on the length, as in F.normalize, instead of being added inside "
            "the root"
        )
    rule = ""
    if right.eps_at == "outside":
        rule = "; here it is added to the root"
        said["floor of the root"] = "eps is a floor on the root (clamp, max)"
    if right.eps_at == "floor of the root":
        rule = "; here it is a floor: the length is at least eps"
        said["outside"] = "eps is added to the length (plus eps, not max)"
        said["floor"] = "eps is a floor on the square of the length"
    return [(sentence + rule, {"eps_at": where}) for where, sentence in said.items()]


def _vary_statistics(right: Formula) -> Rows:
    n = "d" if right.pool == "last" else "n"
    floor = right.eps_at == "floor of the root"
    end = ", a floor" if floor else ""
    what = "the length" if right.summed else "the variance"
    factor = (
        f"the root mean square divides, not the length: a factor √{n} is too much"
        if right.summed
        else f"the sum of squares divides, not their mean: a factor of the root of {n} is missing"
    )
    return [
        (f"the root is missing: {what} divides, not its root", {"eps_at": "no root" + end}),
        ("it multiplies by the root instead of dividing", {"eps_at": "multiplied" + end}),
        (factor, {"summed": not right.summed}),
        ("the mean absolute value divides, not the root", {"moment": "absolute", "correction": 0}),
        ("the largest absolute value divides, not the root", {"moment": "largest"}),
        ("the statistics are detached: no gradient flows through them",
         {"cut": ("mean", "spread")}),
        ("the mean is detached: no gradient flows through it", {"cut": ("mean",)}),
        ("the denominator is detached: no gradient flows through it", {"cut": ("spread",)}),
    ]  # fmt: skip


def _vary_centre(right: Formula) -> Rows:
    if right.centre == "mean":
        return [
            ("the mean is not subtracted, as if it were RMS norm", {"centre": "none"}),
            ("the mean is not subtracted from x, only inside the variance",
             {"centre": "spread only"}),
            ("the denominator uses the mean of x², not the variance about the mean",
             {"moment": "raw"}),
        ]  # fmt: skip
    name = "RMS norm" if not right.summed and right.pool == "last" else "this norm"
    return [
        (f"the mean is subtracted; {name} keeps it", {"centre": "mean"}),
        (f"the mean is subtracted from x; {name} keeps it", {"centre": "mean", "moment": "raw"}),
        ("the standard deviation divides: the mean is subtracted before squaring",
         {"centre": "spread only"}),
    ]  # fmt: skip


def _vary_affine(right: Formula, has_shift: bool) -> Rows:
    root = right.unset_gain == "root of d"
    rows: Rows = [
        ("the gain is ignored", {"gain": "none"}),
        ("the gain is ignored", {"gain": "unset"}),
        ("the factor √d is missing where no gain is given", {"unset_gain": "one"})
        if root
        else ("a factor √d multiplies where no gain is given", {"unset_gain": "root of d"}),
        ("the gain itself multiplies, in place of 1 + gain", {"gain": "times"}),
        ("1 + gain multiplies instead of the gain itself", {"gain": "one plus"}),
        ("1 + gain multiplies a gain that starts at 1, so that twice as much comes out",
         {"unset_gain": "two"}),
        ("2 + gain multiplies: 1 is added twice, as where a file holds 1 + w already",
         {"gain": "two plus"}),
        ("gain − 1 multiplies: 1 is subtracted, as where a file is taken to hold 1 + w",
         {"gain": "minus one"}),
        ("the gain divides instead of multiplying", {"gain": "divide"}),
        ("the gain is added instead of multiplying", {"gain": "added"}),
        ("the sign of the gain is lost", {"gain": "absolute"}),
        ("the gain is squared", {"gain": "squared"}),
        ("the mean of the gains multiplies, not each its own feature", {"gain": "mean"}),
        ("gain and shift run along the wrong axis", {"features": -1 - right.features}),
        ("gain and shift run along the wrong axis", {"features": 0}),
    ]  # fmt: skip
    return (_SHIFT if has_shift else []) + rows


_SHIFT: Rows = [
    ("the shift is ignored", {"shift": "none"}),
    ("the shift is added before the gain multiplies", {"shift": "before"}),
    ("the shift is subtracted instead of added", {"shift": "minus"}),
    ("gain and shift are exchanged", {"swapped": True}),
]
_NOT_ONCE: Rows = [
    ("nothing is normalized: x itself comes back", {"pool": ""}),
    ("nothing is done: x itself comes back", {"pool": "", "gain": "none", "shift": "none"}),
    ("the norm is applied twice", {"twice": True}),
]


def _vary_squash(right: Formula) -> Rows:
    a = "the scale lambda" if right.bound else "alpha"
    return [
        (f"{a} is ignored", {"alpha": "none"}),
        (f"{a} multiplies outside the {right.f}, not inside", {"alpha": "outside"}),
        (f"{a} multiplies inside the {right.f} and again outside", {"alpha": "both"}),
        (f"{a} divides instead of multiplying", {"alpha": "divide"}),
        (f"{a} is squared", {"alpha": "squared"}),
        (f"the sign of {a.split()[-1]} is lost", {"alpha": "absolute"}),
        *((f"the squash is {name}, not {right.f}", {"f": name}) for name in SQUASHES),
        ("the inner shift is ignored", {"inner": "none"}),
        ("the inner shift is added before alpha multiplies", {"inner": "before alpha"}),
        (f"the inner shift is added outside the {right.f}", {"inner": "outside"}),
        ("the inner shift is subtracted", {"inner": "minus"}),
    ]


_PART: Rows = [
    ("all features are counted, not the first p · d", {"part": "all"}),
    ("the last features are taken, not the first", {"part": "last"}),
    ("p · d is rounded up; use the floor", {"count": "ceil"}),
    ("p · d is rounded to the nearest; use the floor", {"count": "round"}),
    ("only the first p · d features are normalized; all are divided", {"only_part": True}),
]
_BATCH: Rows = [
    ("the mask is ignored: padding counts in the statistics", {"mask": "ignored"}),
    ("the mask is inverted: True means a real token", {"mask": "inverted"}),
    ("the sums leave padding out, their divisor counts it", {"mask": "padding counted"}),
    ("the batch's own statistics are used in evaluation; the training flag is ignored",
     {"evaluation": "batch"}),
]  # fmt: skip
