"""Grade one submission inside Gradescope's container: run_autograder calls this as its program.

A question that could not be graded leaves no results.json: Gradescope then says that the autograder
failed, and nobody loses points silently. The reason is in the output that instructors see.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from labkit.system.files import write_whole
from press.book.files import Red
from press.homework.grading import batch, results
from press.homework.grading.file_owner import read_attempt, read_class
from press.homework.grading.results import Result
from press.homework.grading.submission import ENDINGS
from press.homework.private import Private, load_private

HOW = batch.Options("restricted", jobs=1)


def main(root: Path, visibility: str = "visible") -> int:
    """Grade root/submission with root/source/private; 0 when results.json is written."""
    (private_path,) = sorted((root / "source" / "private").glob("*.json"))
    private = load_private(private_path)
    written = root / "results" / "results.json"
    try:
        student = _find_student(root / "submission_metadata.json", private)
        path = _find_file(root / "submission", private.homework)
    except ValueError as error:
        write_whole(written, json.dumps(_format_refusal(str(error)), indent=1))
        return 0
    try:
        with TemporaryDirectory() as out:
            (result,) = batch.grade_class({student: path}, private_path, Path(out), HOW).results
    except Red as error:
        print(f"labkit: {error}")
        return 1
    if bad := results.list_not_graded(result):
        reasons = {each["reason"] for each in result["questions"] if each["reason"]}
        print(f"labkit: not graded: {', '.join(bad)}: {'; '.join(sorted(reasons))}")
        return 1
    write_whole(written, json.dumps(format_result(result, visibility), indent=1))
    return 0


def format_result(result: Result, visibility: str) -> dict[str, Any]:
    """A result in Gradescope's form: a test for every part."""
    tests = []
    for first, question in enumerate(result["questions"], start=1):
        for second, part in enumerate(question["parts"], start=1):
            tests.append(
                {
                    "name": f"{question['id']}: {part['name']}",
                    "name_format": "text",
                    "number": f"{first}.{second}",
                    "score": part["points"],
                    "max_score": part["max"],
                    "status": "passed" if part["points"] == part["max"] else "failed",
                    "output": part["says"],
                    "output_format": "text",
                    "visibility": visibility,
                }
            )
    # What a person marks is marked there, and adds to this.
    score = results.plain_number(sum(test["score"] for test in tests))
    return {
        "score": score,
        "output": "\n".join(result["problems"]),
        "output_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def _format_refusal(why: str) -> dict[str, Any]:
    """No points, and what to do: the submission is not what was asked for."""
    return {
        "score": 0,
        "output": why,
        "output_format": "text",
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [],
    }


def _find_student(metadata: Path, private: Private) -> str:
    """The student whose numbers the notebook has: by student id, e-mail address, or its name."""
    if not private.students:
        return "student"
    try:
        users = json.loads(metadata.read_text(encoding="utf-8"))["users"]
        names = [
            name
            for user in users
            for name in (
                user.get("sid"),
                user.get("email"),
                str(user.get("email") or "").partition("@")[0],
                str(user.get("id")),
            )
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        names = []
    if student := read_class(None, private.students).find_student(filter(None, names)):
        return student
    raise ValueError("Your id is not on this homework's roster; please tell your instructor.")


def _find_file(folder: Path, homework: str) -> Path:
    """The file to grade: named as the homework where one is, the latest of several attempts."""
    paths = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in ENDINGS
        and path.is_file()
        and not path.is_symlink()
        and not any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)
    ]
    paths = [path for path in paths if homework in path.name] or paths
    if not paths:
        raise ValueError(f"No notebook was handed in: a file {homework}.ipynb is asked for.")
    return max(
        paths, key=lambda path: (read_attempt(path.parts), path.suffix == ".ipynb", path.parts)
    )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
