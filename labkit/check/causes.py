"""Explain a failure by a known mistake, a change to the right formula; never decide it.

The laws compare with the formula alone. When one fails, the outcome is compared with what each
known mistake, and each pair of them, would have given; the first that matches is the likely cause.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations

from labkit.check.formula import Formula
from labkit.check.mistakes import known_mistakes

# What a decision is about: where none of it is given, or no gradient taken, it changes nothing.
_ABOUT = {
    "gain": {"weight"},
    "shift": {"bias"},
    "swapped": {"weight", "bias"},
    "features": {"weight", "bias"},
    "mask": {"mask"},
    "evaluation": {"running"},
    "scaled": {"scale"},
    "inner": {"shift"},
    "cut": {"gradient"},
    "alpha": {"alpha"},
}

Candidates = tuple[tuple[str, Formula], ...]


@cache
def _candidates(right: Formula, at_hand: frozenset[str]) -> tuple[Candidates, Candidates]:
    """List what one mistake gives, and what two give."""
    acting = [
        m
        for m in known_mistakes(right)
        if any(_ABOUT.get(knob, at_hand) & at_hand for knob in m.change)
    ]
    pairs = [
        (f"{one.sentence}; and {other.sentence}", {**one.change, **other.change})
        for one, other in combinations(acting, 2)
        if not one.change.keys() & other.change.keys()
    ]
    return (
        tuple((m.sentence, replace(right, **m.change)) for m in acting),
        tuple((sentence, replace(right, **change)) for sentence, change in pairs),
    )


def diagnose(
    right: Formula,
    explains: Callable[[Formula], bool],
    at_hand: frozenset[str],
    first: Sequence[tuple[str, Formula]] = (),
    pairs: bool = True,
    more: Sequence[tuple[str, Formula]] = (),
) -> tuple[str, Formula] | None:
    """Find the first known mistake, or pair of them, that explains what came.

    `at_hand` says what was given, and whether a gradient is looked at. `first` are candidates to
    try before all others: what explained another law; `more` come after single mistakes.
    """
    single, double = _candidates(right, at_hand)
    for sentence, wrong in (*first, *single, *more, *(double if pairs else ())):
        try:
            if explains(wrong):
                return sentence, wrong
        except (RuntimeError, IndexError, KeyError, ZeroDivisionError):
            continue  # this mistake is not possible on an input of this shape
    return None


def wrong_setting(explains: Callable[[float], bool], role: str, asked: float) -> float | None:
    """Find the value of eps, p, … that was used, where it is not the one that was asked for."""
    for value in (*usual_settings(role), asked / 10, asked * 10):
        if value != asked and explains(value):
            return value
    return None


def usual_settings(role: str) -> tuple[float, ...]:
    """List the values that are met in the wild, most common first."""
    return {
        "eps": (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-7, 1e-10, 1e-4, 1e-2, 0.1, 1.0, 1.1920929e-07),
        "p": (0.0625, 0.125, 0.25, 0.5, 1.0),
        "bound": (10.0, 1.0, 5.0, 100.0),
        "alpha": (1.0, 0.25, 0.1, 0.2, 0.8, 2.0),
        "scale": (2.0, 0.5, 10.0),
    }.get(role, (1.0,))
