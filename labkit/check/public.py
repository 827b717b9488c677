"""Public checks: the messages of a student's notebook about an answer.

    public("q1", lambda: check.rms_norm(rms_norm), lambda: (f(2) == 4, "f doubles its input"))

A check is a Report of labkit.check, a bool, a pair (bool, message), or a function that gives one of
these. Prefer functions: an error inside them becomes a sentence, not a traceback. No points are
shown, because these checks are not the grader's. If nbgrader runs the notebook (its Validate
button, its autograder), a failed check also raises, because nbgrader ignores everything else; in a
student's own notebook it only prints, and the cells below still run.
"""

import linecache
import os
import re
import sys
import traceback
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from labkit.check.report import Report

UNWRITTEN = "not written yet"
STUB = re.compile(r"raised NotImplementedError(?:: ([^\n]*))?")
SLOW = "no result within"  # labkit.check's words for a law that ran out of time
SUMMARY = re.compile(r": \d+ of \d+ laws hold$")
CAUSE = re.compile(r"\s+Likely cause: ")
SHOWN = 3  # laws; the first is the most basic
ALLOWED = "MAY_IMPORT"  # a released notebook's list of allowed imports
BY_NBGRADER = "NBGRADER_EXECUTION"  # set by nbgrader where it runs a notebook
WAYS = "a check is a Report of labkit.check, a bool, a pair (bool, message), or a function of these"


class NotPassed(Exception):
    """A public check failed; shown without a traceback, which would contain only our code."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [str(self)]


def public(question: str, *checks: Any) -> None:
    """Print the failures, or exactly "q1: public checks passed".

    Also raise NotPassed if nbgrader runs the notebook.
    """
    if not checks:
        raise ValueError(f"public({question!r}) needs at least one check, got none; {WAYS}")
    names = [f"check {n}" if len(checks) > 1 else "the check" for n in range(1, len(checks) + 1)]
    said = [_ask_part(each, name) for each, name in zip(checks, names, strict=True)]
    # Existing answers are judged before missing ones.
    faults = sorted(dict.fromkeys(filter(None, said)), key=lambda text: UNWRITTEN in text)
    for line in faults or ["public checks passed"]:
        print(f"{question}: {line}")
    if strange := _find_strange_imports(sys._getframe(1).f_globals):
        print(f"{question}: note: {strange}")
    if faults and BY_NBGRADER in os.environ:
        raise NotPassed("\n".join(f"{question}: {fault}" for fault in faults))


def _find_strange_imports(names: Mapping[str, Any]) -> str:
    """Return a message about imports that the grader would refuse; "" if it allows all."""
    if ALLOWED not in names:
        return ""
    origins = {
        str(getattr(each, "__name__" if isinstance(each, ModuleType) else "__module__", ""))
        for name, each in names.items()
        if (isinstance(each, ModuleType) or callable(each)) and not name.startswith("_")
    }
    known = {*names[ALLOWED], *sys.stdlib_module_names, "labkit", "IPython", "__main__", "None", ""}
    strange = sorted({origin.partition(".")[0] for origin in origins} - known)
    if not strange:
        return ""
    return (
        f"this notebook imports {', '.join(strange)}; an answer may use "
        f"{', '.join(names[ALLOWED])} and Python's basics, and earns nothing if it needs more"
    )


def _ask_part(given: Any, name: str) -> str:
    """Return an error message, or "" if the check holds."""
    if callable(given):
        try:
            given = given()
        except NotImplementedError as error:
            return _describe_unwritten(str(error))
        except NameError as error:
            return f"{error}; run the cells above first, from the top"
        except Exception as error:  # for any error of a student's code, return a sentence
            if isinstance(error.__cause__, NotImplementedError):  # Triton wraps what was raised
                return _describe_unwritten(str(error.__cause__))
            return f"{name} could not run: {_describe_error(error)}"
    if isinstance(given, Report):
        return _describe_failure(given)
    message = f"{name} does not hold yet"
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], str):
        given, message = given
    holds = _read_truth(given)
    if holds is None:
        # The student's answer made it so: `f(2) == 4` of a tensor, say.
        shape = getattr(given, "shape", None)
        kind = type(given).__name__ + ("" if shape is None else f" of {tuple(shape)}")
        return (
            f"{name} gave {kind} where True or False was due; is your answer of the kind asked for?"
        )
    return "" if holds else message


def _read_truth(value: Any) -> bool | None:
    """Return a Python, numpy or torch bool as a bool; None for anything else."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return value if isinstance(value, bool) else None


def _describe_failure(report: Report) -> str:
    if report.ok:
        return ""
    for law in report.failed:
        if stub := STUB.search(law.message):
            return _describe_unwritten(stub[1] or "")
    lines = [report.summary]
    for law in report.failed[:SHOWN]:
        lines.append(f"  {law.name}: {law.message}")
        if law.cause:
            lines.append(f"      Likely cause: {law.cause}.")
    if len(report.failed) > SHOWN:
        lines.append(f"  and {len(report.failed) - SHOWN} more; begin with the first")
    return "\n".join(lines)


def _describe_unwritten(said: str) -> str:
    place = f" ({said})" if said else ""
    return (
        f"{UNWRITTEN}{place}; replace the line that raises NotImplementedError, run that cell, "
        "then this one"
    )


def _describe_error(error: Exception) -> str:
    """Describe an error in one line, with the student's own line that raised it."""
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _of_a_notebook(f.filename)]
    if not frames:
        return said
    last = frames[-1]
    line = (last.line or linecache.getline(last.filename, last.lineno or 0)).strip()
    return f"{said}\n  in {last.name}, line {last.lineno}: {line}" if line else said


def _of_a_notebook(filename: str) -> bool:
    return "ipykernel" in filename or (filename[0] == "<" and not filename.startswith("<frozen"))


def checks_passed(printed: str, question: str) -> bool:
    """Return whether the output of a test cell says that its public checks passed."""
    return f"{question}: public checks passed" in printed.splitlines()


def out_of_time(printed: str) -> bool:
    """Return whether the output of a test cell shows no failures except laws that ran out of time.

    Each check may take a few seconds, and a busy machine may need more.
    """
    faults = [line for line in printed.splitlines() if not CAUSE.match(line)]
    laws = [line for line in faults if not SUMMARY.search(line)]
    return len(faults) > len(laws) > 0 and all(SLOW in line for line in laws)
