"""Known mistakes outside the statistics: gain and shift, a squash, a skip."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.check.formula import Formula
from labkit.check.squash import Squash


@dataclass(frozen=True)
class Mistake:
    """One wrong decision: the sentence that names it and what it changes in the formula."""

    sentence: str
    change: dict[str, Any]


def affine(right: Formula) -> Iterator[Mistake]:
    """List what goes wrong with gain and shift."""
    other_start = "one" if right.unset_gain == "root of d" else "root of d"
    yield Mistake("the gain is ignored", {"gain": "none"})
    yield Mistake(
        "the factor √d is missing where no gain is given"
        if other_start == "one"
        else "a factor √d multiplies where no gain is given",
        {"unset_gain": other_start},
    )
    yield Mistake("the shift is ignored", {"shift": "none"})
    yield Mistake("gain and shift are both ignored", {"gain": "none", "shift": "none"})
    yield Mistake("the shift is added before the gain multiplies", {"shift": "before"})
    yield Mistake("the shift is subtracted instead of added", {"shift": "minus"})
    yield Mistake("gain and shift are exchanged", {"swapped": True})
    if right.gain == "one plus":
        yield Mistake(
            "the gain itself multiplies; here 1 + gain does, and the gain starts at 0",
            {"gain": "times"},
        )
    yield Mistake("1 + gain multiplies instead of the gain itself", {"gain": "one plus"})
    yield Mistake("the gain divides instead of multiplying", {"gain": "divide"})
    yield Mistake("the sign of the gain is lost", {"gain": "absolute"})
    yield Mistake("the gain is squared", {"gain": "squared"})
    yield Mistake("the mean of the gains multiplies, not each its own feature", {"gain": "mean"})
    yield Mistake("gain and shift run along the wrong axis", {"features": -1 - right.features})
    yield Mistake("gain and shift run along the wrong axis", {"features": 0})


def squashed(right: Squash) -> Iterator[Mistake]:
    """List what goes wrong with alpha, the inner shift and the function."""
    yield Mistake("alpha is ignored", {"alpha": "none"})
    yield Mistake(f"alpha multiplies outside the {right.f}, not inside", {"alpha": "outside"})
    yield Mistake(f"alpha multiplies inside the {right.f} and again outside", {"alpha": "both"})
    yield Mistake("alpha divides instead of multiplying", {"alpha": "divide"})
    yield Mistake("alpha is squared", {"alpha": "squared"})
    yield Mistake("the sign of alpha is lost", {"alpha": "absolute"})
    for name in ("tanh", "erf", "sigmoid", "clip", "arctan", "isru", "softsign", "erf of u/√2",
                 "one minus erf", "nothing"):  # fmt: skip
        if name != right.f:
            yield Mistake(f"the squash is {name}, not {right.f}", {"f": name})
    yield Mistake("the inner shift is ignored", {"inner": "none"})
    yield Mistake("the inner shift is added before alpha multiplies", {"inner": "before alpha"})
    yield Mistake(f"the inner shift is added outside the {right.f}", {"inner": "outside"})
    yield Mistake("the inner shift is subtracted", {"inner": "minus"})
    yield Mistake("alpha is detached: no gradient reaches it", {"cut": ("alpha",)})


def bounded() -> Iterator[Mistake]:
    """List what goes wrong with lambda and kappa."""
    yield Mistake("the bound kappa is ignored", {"bound": "ignored"})
    yield Mistake("the bound kappa divides outside the tanh, not inside", {"bound": "outside"})
    yield Mistake("the bound kappa multiplies instead of dividing", {"bound": "times"})
    yield Mistake("the scale lambda is ignored", {"scaled": "ignored"})
    yield Mistake("the scale lambda multiplies outside the tanh, not inside", {"scaled": "outside"})
    yield Mistake("the scale lambda divides instead of multiplying", {"scaled": "divides"})
    yield Mistake("the sign of lambda is lost", {"scaled": "absolute"})
    for name in ("nothing", "erf", "clip", "sigmoid", "softsign"):
        yield Mistake(f"the squash is {name}, not tanh", {"f": name})


def skipped() -> Iterator[Mistake]:
    """List what goes wrong with eta · x."""
    yield Mistake("eta · x is missing", {"skip": "none"})
    yield Mistake("eta is ignored: x itself is added", {"skip": "x"})
    yield Mistake("eta · x is subtracted", {"skip": "minus"})
    yield Mistake("eta multiplies the normalized values, not x", {"skip": "eta standard"})
    yield Mistake("eta · x is added before gain and shift", {"skip": "inside the gain"})
    yield Mistake("eta multiplies the norm as well, not x alone", {"skip": "eta all"})
    yield Mistake("the norm is multiplied by 1 − eta", {"skip": "mixed"})
