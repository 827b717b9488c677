"""Verdicts of a private test: it calls the student's code, compares, and yields parts.

    def test_q1(student, draw, given):
        x = draw.normal(3, 8)
        got = student.call("rms_norm", x, eps=given["EPS"])
        yield part("values", 1, close(got, rms(x, given["EPS"])), says="…")

A verdict says what is wrong with an answer and never what would be right: a student may read it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from press.homework.sandbox.answer import FAILURES, Answer
from press.homework.value_comparison import compare_values, name_kind

# A stub still stands: the line that a release writes, or `NAME = ...`.
NOT_BEGUN = "not begun"
STUB = re.compile(r"NotImplementedError\W+your turn|\bellipsis\b")


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right; if not, the cause, and the failure if there was no value."""

    ok: bool
    cause: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Part:
    """One line of the rubric: its points are earned completely or not at all."""

    name: str
    points: float
    verdict: Verdict
    says: str = ""

    @property
    def message(self) -> str:
        """The message for the student: none if earned; a failure is shown without `says`."""
        verdict = self.verdict
        if verdict.ok:
            return ""
        if verdict.failure:
            return verdict.cause
        return " ".join(text for text in (verdict.cause, self.says) if text) or "Not as asked."


def part(name: str, points: float, verdict: Verdict, says: str = "") -> Part:
    """One part of a question: its name in the rubric, points, verdict, and a hint if it is wrong.

    Raises a ValueError when the points are not a number of at least 0 or the verdict is none.
    """
    if not isinstance(verdict, Verdict):
        raise ValueError(
            f"part {name!r} needs a verdict, such as close(…), got {name_kind(verdict)}"
        )
    if isinstance(points, bool) or not isinstance(points, (int, float)) or not points >= 0:
        raise ValueError(f"part {name!r} needs points of at least 0, got {points!r}")
    return Part(str(name), points, verdict, says)


def close(answer: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> Verdict:
    """Right if every value is within atol + rtol·|expected|, with the same shape and dtype.

    Lists, tuples and dicts are compared item by item. A Python float may answer for a tensor
    without axes, and the other way round, in any floating dtype.
    """
    return _compare_answer(answer, expected, (rtol, atol))


def equal(answer: Any, expected: Any) -> Verdict:
    """Right if every value is the same, with the same shape and dtype."""
    return _compare_answer(answer, expected, None)


def raises(answer: Answer, *names: str) -> Verdict:
    """Right if the code raised one of the given errors, such as "ValueError"."""
    if answer.ok:
        return Verdict(False, "An error was due here, and nothing was raised.")
    if answer.failure != "raised":
        return _explain_failure(answer)
    actual = answer.detail.partition(":")[0].strip()
    if actual in names:
        return Verdict(True)
    return Verdict(False, f"An error was due here, but of another kind than {actual}.")


def true(ok: bool, says: str = "") -> Verdict:
    """Right if the condition is true; `says` is shown to a student if it is not."""
    return Verdict(True) if ok else Verdict(False, says)


def every(*verdicts: Verdict) -> Verdict:
    """Right if all verdicts are: return the first wrong one, otherwise the last."""
    if not verdicts:
        raise ValueError("every(…) needs at least one verdict, got none")
    return next((each for each in verdicts if not each.ok), verdicts[-1])


def holds(answer: Any, rule: Callable[[Any], bool], says: str = "") -> Verdict:
    """Right if the answer's value satisfies the rule.

    A rule that raises (the value has no such shape, key or method) counts as not passed, so that a
    strange answer is the student's error and never the test's.
    """
    if isinstance(answer, Answer):
        if not answer.ok:
            return _explain_failure(answer)
        answer = answer.value
    try:
        ok = bool(rule(answer))
    except (
        TypeError,
        ValueError,
        AttributeError,
        LookupError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
    ):
        return Verdict(False, " ".join(filter(None, (_describe_strange(answer), says))))
    return Verdict(True) if ok else Verdict(False, says)


def item(answer: Answer, key: Any) -> Answer:
    """The answer's item: of a list or tuple by index, of a dict by key. A failure stays one."""
    if not answer.ok:
        return answer
    try:
        if not isinstance(answer.value, dict) and not isinstance(key, int):
            raise TypeError  # a tensor takes a text, with a warning
        return replace(answer, value=answer.value[key])
    except (TypeError, LookupError):
        detail = f"what came is {name_kind(answer.value)}, without an item {repr(key)[:80]}"
        return replace(answer, value=None, failure="missing", detail=detail)


def _compare_answer(answer: Any, expected: Any, tolerance: tuple[float, float] | None) -> Verdict:
    if isinstance(answer, Answer):
        if not answer.ok:
            return _explain_failure(answer)
        answer = answer.value
    cause = compare_values(answer, expected, tolerance)
    return Verdict(not cause, cause)


def _explain_failure(answer: Answer) -> Verdict:
    if answer.failure in ("raised", "refused", "broken") and STUB.search(answer.detail):
        return Verdict(
            False, "Not begun: the line that you must replace is still there.", NOT_BEGUN
        )
    told = FAILURES[answer.failure]  # a test's own words do not apply
    return Verdict(
        False, f"{told}: {answer.detail}" if answer.detail else f"{told}.", answer.failure
    )


def _describe_strange(value: Any) -> str:
    return f"The answer must have the required form, but is {name_kind(value)}."
