"""Digests: what a result was made from, so that it is made again when that changes and only then.

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
from press.homework.definitions import Program
from press.homework.grading.results import NOT_GRADED, Result
from press.homework.private import Private, Question
from press.homework.sandbox.limits import Limits
from press.homework.variants import draw_variants

WHY = {"code": "the submission", "test": "the test", "grader": "the grader"}


class Grader:
    """What a result depends on beside the submission: the grader's code, its tests."""

    def __init__(self, private: Private, code: str):
        self.private, self.code = private, code

    def digest_submission(self, path: Path, student: str) -> str:
        """Change when the file, the student's numbers, any test or labkit does."""
        numbers = draw_variants(self.private, find_variant(self.private, student))
        tests = [self.digest_test(each) for each in self.private.questions]
        return digest_values(
            path.suffix,
            self.digest_file(path),
            numbers,
            self.private.digest,
            tests,
            self.code,
        )

    def digest_file(self, path: Path) -> str:
        """Change when the file's bytes do; what is no plain file is not opened."""
        if not path.is_file() or path.is_symlink():
            return "no plain file"
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def digest_test(self, one: Question) -> str:
        """Change when a question's test does, or what decides about it beside."""
        private = self.private
        return digest_values(one.test, one.points, private.probes, private.packages, private.seed)

    def digest_question(
        self, one: Question, program: Program, numbers: dict[str, Any]
    ) -> dict[str, str]:
        """What one question's points were made from."""
        return {
            "code": digest_values(program.text, numbers),
            "test": self.digest_test(one),
            "grader": self.code,
        }

    def digest_unread_question(self, one: Question, path: Path) -> dict[str, str]:
        """What one question's points were made from, where the file as a whole decided them."""
        return {
            "code": self.digest_file(path),
            "test": self.digest_test(one),
            "grader": self.code,
        }


def digest_code(private: Private, limits: Limits) -> str:
    """Change when labkit or torch does, or the limits."""
    return digest_values(
        code_hash(), code_hash("press.homework"), importlib.metadata.version("torch"), repr(limits)
    )


def find_variant(private: Private, student: str) -> str:
    """Whose numbers a student's notebook has: without a roster all have the same."""
    return student if private.students else ""


def digest_values(*told: Any) -> str:
    """The sha256 of plain values."""
    text = json.dumps(told, sort_keys=True, ensure_ascii=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, order=True)
class Change:
    """One question of one student whose points are not what they were."""

    student: str
    question: str
    before: str
    after: str
    why: str

    def __str__(self) -> str:
        return f"{self.student}: {self.question} {self.before} -> {self.after} ({self.why} changed)"


def find_changes(before: Result | None, after: Result) -> list[Change]:
    """The questions whose points differ; none for a first grading."""
    if before is None:
        return []
    old = {each["id"]: each for each in before["questions"]}
    # A changed test may ask for other names of the same file.
    same = before.get("sha256") == after.get("sha256")
    found = []
    for new in after["questions"]:
        was = old.pop(new["id"], None)
        told = (_show_points(was), _show_points(new))
        if told[0] != told[1]:
            found.append(
                Change(after["student"], new["id"], *told, _explain_change(was, new, same))
            )
    for gone, was in old.items():
        found.append(Change(after["student"], gone, _show_points(was), "gone", "the test"))
    return found


def _show_points(question: Result | None) -> str:
    if question is None:
        return "none"
    if question["failure"] == NOT_GRADED:
        return NOT_GRADED
    return f"{question['points']}/{question['max']}"


def _explain_change(was: Result | None, new: Result, same_file: bool) -> str:
    if was is None:
        return "the test"
    old, now = was.get("digests"), new.get("digests")
    if not old or not now:  # an examiner died: nobody knows what it would have said
        return "the outcome"
    differing = [
        WHY[key]
        for key in WHY
        if old.get(key) != now.get(key) and not (key == "code" and same_file)
    ]
    return " and ".join(differing) if differing else "the outcome"
