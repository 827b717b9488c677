"""Call functions on cases given as text, and explain what is wrong with their results.

This file is plain Python, like compare.py: labkit evaluates a case with torch, a page of the site
with its own substitute for torch. A task is JSON:

    functions  names of the functions that the reader writes
    cases      each has function, label (or ""), given and wanted: the arguments of a call and its
               result, as source
    look       source of a lambda (f, *arguments) that returns the value to compare; "" calls f
    rtol, hint as check.answer has them
    note       a remark for right answers
    slips      pairs of a likely mistake and the marks of its results, case by case
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import getfile
from math import cos, inf, nan
from traceback import extract_tb
from typing import Any

from labkit.check.compare import is_unanswered, judge, list_numbers

Task = Mapping[str, Any]
AGREES = 1e-4  # relative: marks of the same numbers, computed differently


def try_functions(
    functions: Mapping[str, Callable[..., Any]], task: Task, names: Mapping[str, Any]
) -> tuple[str, str]:
    """Return an error message and its likely cause; two empty strings if all results are right.

    `names` are the names that a case's text may use, such as torch. Errors in a function are never
    raised.
    """
    came: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    names = {"inf": inf, "nan": nan, **names}
    for case in task["cases"]:
        name = case["label"]
        try:
            came[name] = call(functions[case["function"]], case["given"], task["look"], names)
        except Unanswered:
            came[name] = ...
        except Exception as error:  # the reader's code: the reader gets a sentence
            return describe_error(error, find_file(functions[case["function"]])), ""
        wanted[name] = eval(case["wanted"], dict(names))
    if len(came) == 1:
        (yours,), (truth,) = came.values(), wanted.values()
    else:
        yours, truth = came, wanted
    cause = find_slip([came[case["label"]] for case in task["cases"]], task["slips"])
    message = judge(yours, truth, task["rtol"], "" if cause else task["hint"])
    return message, cause if message else ""


class Unanswered(Exception):
    """A function that others need returns nothing yet."""


def call(function: Callable[..., Any], given: str, look: str, names: Mapping[str, Any]) -> Any:
    """Call a function with arguments given as source text, and evaluate `look` on the result."""

    def answered(*arguments: Any, **more: Any) -> Any:
        result = function(*arguments, **more)
        if is_unanswered(result):
            raise Unanswered
        return result

    if look:
        return eval(f"({look})(function_, {given})", {**names, "function_": answered})
    return eval(f"function_({given})", {**names, "function_": function})


def mark(value: Any) -> float:
    """Sum up a result in one number that rarely agrees for different results."""
    return sum(cos(i) * number for i, number in enumerate(list_numbers(value)))


def find_slip(results: list[Any], slips: list[tuple[str, list[float]]]) -> str:
    """Return the mistake that would have given these results, or "" if there is none."""
    try:
        marks = [mark(result) for result in results]
    except (TypeError, ValueError):
        return ""
    return next((cause for cause, expected in slips if agree(marks, expected)), "")


def agree(marks: Sequence[float], expected: Sequence[float], rtol: float = AGREES) -> bool:
    """Return whether two lists of marks agree."""
    pairs = zip(marks, expected, strict=True)
    return all(abs(a - b) <= rtol * max(1.0, abs(b)) for a, b in pairs)


def describe_error(error: BaseException, filename: str) -> str:
    """Describe an error, with its line number in the reader's file."""
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    if isinstance(error, SyntaxError) and error.filename == filename:
        return f"line {error.lineno} is not Python: {error.msg}"
    lines = [at.lineno for at in extract_tb(error.__traceback__) if at.filename == filename]
    return f"line {lines[-1]} raised {said}" if lines else f"it raised {said}"


def find_file(function: Callable[..., Any]) -> str:
    """Return the file in which a function was written, or "" if it is unknown."""
    try:
        return getfile(function)
    except TypeError:  # a partial, a callable object, a builtin
        return ""
