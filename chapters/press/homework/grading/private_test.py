"""Judge one question: its private test runs here, the student's code only in a worker."""

import math
import traceback
from collections.abc import Mapping
from typing import Any

import torch

from labkit.system.time_limit import TooLong, at_most
from press.homework import verdicts
from press.homework.draw import Draw
from press.homework.sandbox.answer import clean_text
from press.homework.verdicts import Part

# What a private test may say without importing it.
NAMES = ("close", "equal", "every", "holds", "item", "part", "raises", "true")
WORDS: dict[str, Any] = {"torch": torch, "math": math, **{n: getattr(verdicts, n) for n in NAMES}}
# A private test that takes longer, its students' seconds included, hangs.
TEST_SECONDS = 300.0


class Faulty(Exception):
    """A private test failed by itself: the instructor must fix it; no student loses points."""


def run_private_test(
    source: str, question: str, student: Any, draw: Draw, given: Mapping[str, Any]
) -> list[Part]:
    """Run a question's private test to its end; raise Faulty if it raises or yields no parts.

    `student` answers calls and probes: a worker, or in a release the reference solution.
    """
    scope: dict[str, Any] = {**WORDS, "__name__": f"private_test_{question}"}
    file = f"<private test of {question}>"
    torch.manual_seed(0)  # a test that draws without `draw` is still the same every time
    try:
        with at_most(TEST_SECONDS):
            exec(compile(source, file, "exec"), scope)  # the instructor's own code
            if f"test_{question}" not in scope:
                raise Faulty(
                    f"the private test of {question} must define "
                    f"`def test_{question}(student, draw, given)`"
                )
            found: list[Any] = list(scope[f"test_{question}"](student, draw, dict(given)) or ())
    except Faulty:
        raise
    except TooLong:
        raise Faulty(
            f"the private test of {question} must end within {TEST_SECONDS:g} s, but did not"
        ) from None
    except Exception as error:
        lines = [
            each.lineno or 1
            for each in traceback.extract_tb(error.__traceback__)
            if each.filename == file
        ]
        written = source.split("\n")  # as Python counts lines
        place = f", at {written[lines[-1] - 1].strip()!r}" if lines else ""
        # Its text may hold what a student's code returned.
        what = clean_text(f"{type(error).__name__}: {error}")
        raise Faulty(
            f"the private test of {question} must not raise an error, but raised {what}{place}"
        ) from error
    if not found or not all(isinstance(each, Part) for each in found):
        raise Faulty(
            f"the private test of {question} must yield at least one part, and only parts: yield "
            "part(…)"
        )
    if len({each.name for each in found}) < len(found):
        raise Faulty(
            f"the private test of {question} must give each part a different name, but two have "
            "the same"
        )
    return found
