"""Try laws until the question is settled: one broken law rejects a variant, the rest may rest.

A whole report looks at some forty laws and searches a mistake that explains each; what a gate asks
is whether one is broken, and whether one names the cause.
"""

from collections.abc import Callable

from labkit.check import run
from labkit.check.exam import Exam
from labkit.check.report import Law

EVERY = 8  # of so many variants, one is tried on all laws


def rest_after(monkeypatch, settles: Callable[[Law], bool]) -> None:
    """Leave out the laws that follow a broken one which `settles`, in every check from here on."""
    monkeypatch.setattr(run, "try_law", _until(run.try_law, settles))


def _until(attempt: Callable[..., Law | None], settles: Callable[[Law], bool]):
    settled: list[Law] = []

    def once(*given) -> Law | None:
        law = None if settled else attempt(*given)
        if law is not None and not law.ok and settles(law):
            settled.append(law)
        return law

    return once


def explain_nothing(monkeypatch) -> None:
    """Leave out the search for a mistake that explains what came: it decides nothing."""
    monkeypatch.setattr(Exam, "diagnose", lambda *_, **__: "")
