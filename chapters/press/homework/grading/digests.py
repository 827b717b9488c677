"""Digests of everything a result depends on, so that only changes cause a new grading.

And what a new grading changed, for whom, and why: the line that an instructor reads after a mend.
Digests need no torch: a command that finds all graded already is done at once.
"""

import hashlib
import importlib.metadata
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.system.files import code_hash
from press.homework.grading.results import NOT_GRADED, Result
from press.homework.private import Private, Question
from press.homework.sandbox.limits import Limits
from press.homework.variants import draw_variants

WHY = {"code": "the submission", "test": "the test", "grader": "the grader"}


@dataclass(frozen=True)
class Grader:
    """What a result depends on besides the submission: its tests, and the grader's own code."""

    private: Private
    code: str

    def draw_numbers(self, student: str) -> dict[str, Any]:
        """Draw the numbers of a student's notebook; without a roster all students have the same."""
        return draw_variants(self.private, student if self.private.students else "")

    def digest_submission(self, path: Path, student: str) -> str:
        """Return a digest of the file, the student's numbers, all tests and labkit."""
        tests = [self.digest_test(each) for each in self.private.questions]
        told = (path.suffix, digest_file(path), self.draw_numbers(student), self.private.digest)
        return digest_values(*told, tests, self.code)

    def digest_test(self, one: Question) -> str:
        """Return a digest of a question's test, and of everything else that affects it."""
        private = self.private
        return digest_values(one.test, one.points, private.probes, private.packages, private.seed)

    def digest_question(self, one: Question, code: str) -> dict[str, str]:
        """Tell what one question's points are made from; `code` is the digest of the student's."""
        return {"code": code, "test": self.digest_test(one), "grader": self.code}


def digest_code(limits: Limits) -> str:
    """Return a digest of labkit, torch and the limits."""
    return digest_values(
        code_hash(), code_hash("press.homework"), importlib.metadata.version("torch"), repr(limits)
    )


def digest_file(path: Path) -> str:
    """Return a digest of the file's bytes; only a regular file is opened."""
    if not path.is_file() or path.is_symlink():
        return "no plain file"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_values(*told: Any) -> str:
    """Return the sha256 of plain values."""
    text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def find_changes(before: Result | None, after: Result) -> list[str]:
    """List the questions whose points changed, in words; none at the first grading."""
    if before is None:
        return []
    old = {each["id"]: each for each in before["questions"]}
    new = {each["id"]: each for each in after["questions"]}
    # A changed test may ask for other names of the same file.
    same = before.get("sha256") == after.get("sha256")
    found = []
    for name in [*new, *(gone for gone in old if gone not in new)]:
        was, now = old.get(name), new.get(name)
        points, changed = _show_points(was, "none"), _show_points(now, "gone")
        if points != changed:
            why = _explain_change(was, now, same)
            found.append(f"{after['student']}: {name} {points} -> {changed} ({why} changed)")
    return found


def _show_points(question: Result | None, absent: str) -> str:
    if question is None:
        return absent
    if question["failure"] == NOT_GRADED:
        return NOT_GRADED
    return f"{question['points']}/{question['max']}"


def _explain_change(was: Result | None, now: Result | None, same_file: bool) -> str:
    if was is None or now is None:
        return "the test"
    old, new = was.get("digests"), now.get("digests")
    if not old or not new:  # an examiner died: nobody knows what it would have said
        return "the outcome"
    changed = [key for key in WHY if old.get(key) != new.get(key)]
    told = [WHY[key] for key in changed if not (key == "code" and same_file)]
    return " and ".join(told) or "the outcome"
