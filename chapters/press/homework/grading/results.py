"""A graded submission as JSON: points and messages per part, and what they depend on.

    {"schema": 1, "homework", "title", "student", "file", "handed_in", "sha256", "digest",
     "status", "problems", "total", "max", "questions": [{"id", "points", "max", "failure",
                    "reason", "digests", "answer", "parts": [{"name", "points", "max", "says"}]}]}

It holds no path and no time but the file's own, so twenty gradings of one submission write the same
bytes. A question that could not be graded has `points` null and failure "not graded", one that a
person is to mark has failure "by hand" and its `answer`; then `total` is null too. `status` is ""
where the file was graded; else it says what it is: "not readable", "another homework: hw2_…".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit.system.files import write_whole
from press.homework.private import Private, Question, match_names

SCHEMA = 1
KEYS = {"homework", "title", "student", "digest", "questions", "total", "max", "problems"}
NOT_GRADED = "not graded"
BY_HAND = "by hand"
UNREADABLE = "unreadable"

Result = dict[str, Any]


def make_question(
    one: Question,
    parts: list[dict[str, Any]],
    failure: str = "",
    reason: str = "",
    digests: Mapping[str, str] | None = None,
    answer: str = "",
) -> Result:
    """Build one question of a result; its points are the sum of its parts, null if not graded."""
    open_yet = failure in (NOT_GRADED, BY_HAND)
    return {
        "id": one.id,
        "points": None if open_yet else plain_number(sum(p["points"] for p in parts)),
        "max": plain_number(one.points),
        "parts": parts,
        "failure": failure,
        "reason": reason,
        "digests": digests or {},
        **({} if one.test else {"answer": answer}),
    }


def make_result(
    private: Private,
    student: str,
    path: Path,
    questions: list[Result],
    problems: Sequence[str] = (),
    status: str = "",
    sha256: str = "",
    digest: str = "",
) -> Result:
    """Build the result of a student's file, with its total."""
    return {
        "schema": SCHEMA,
        "homework": private.homework,
        "title": private.title,
        "student": student,
        "file": path.name,
        "handed_in": read_change_time(path),
        "sha256": sha256,
        "digest": digest,
        "status": status,
        "problems": list(problems),
        "questions": questions,
        "total": sum_points(questions),
        "max": plain_number(sum(each["max"] for each in questions)),
    }


def sum_points(questions: Iterable[Result]) -> float | None:
    """Add up the points; None if a question was not graded, so that no points are lost silently."""
    points = [each["points"] for each in questions]
    return None if None in points else plain_number(sum(points))


def list_open_questions(result: Result) -> list[str]:
    """Describe in words what a result still lacks."""
    words = {NOT_GRADED: "not graded", BY_HAND: "to mark by hand"}
    waiting = {
        said: [q["id"] for q in result["questions"] if q["failure"] == failure]
        for failure, said in words.items()
    }
    return [f"{said}: {' '.join(ids)}" for said, ids in waiting.items() if ids]


def plain_number(number: float) -> float:
    """Format an integer as 2, other numbers with at most six decimal places."""
    rounded = round(float(number), 6)
    return int(rounded) if rounded.is_integer() else rounded


def read_change_time(path: Path) -> str:
    """Return when a file was changed, which `collect` preserves: in UTC, "" if there is none."""
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC).isoformat(timespec="seconds")
    except OSError:
        return ""


def make_own_folder(path: Path) -> Path:
    """Make a folder that only its owner can open, or use the existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write_result(folder: Path, result: Result) -> Path:
    """Write folder/STUDENT.json atomically."""
    path = folder / f"{result['student']}.json"
    write_whole(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def load_result(path: Path) -> Result | None:
    """Read a result; None if there is none, or if it is damaged or of another schema."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(result, dict) and result.get("schema") == SCHEMA
    return result if whole and result.keys() >= KEYS else None


def load_results(places: Sequence[Path], homework: str | None = None) -> list[Result]:
    """Read all results in folders written by `grade`, or those of one homework, by student.

    ValueError when there is none or one is damaged.
    """
    found: dict[tuple[str, str], Result] = {}
    names: set[str] = set()
    for place in places:
        if not place.is_dir():
            raise ValueError(
                f"{place} must be a folder that `labkit homework grade` wrote, but is not a folder"
            )
        for path in sorted([*place.glob("*.json"), *place.glob("*/*.json")]):
            result = load_result(path)
            if result is None:
                raise ValueError(
                    f"{path} must be a result of schema {SCHEMA}, but is damaged; grade it again "
                    "with `labkit homework grade`"
                )
            names.add(result["homework"])
            if homework is None or match_names(homework, [result["homework"]]):
                found[result["homework"], result["student"]] = result
    if not found:
        asked = f" of {homework}" if homework else ""
        has = f", only those of {', '.join(sorted(names))}" if names else ""
        raise ValueError(
            f"results{asked} are needed, but there are none in "
            f"{' and '.join(map(str, places))}{has}; make them with `labkit homework grade`"
        )
    return [found[key] for key in sorted(found)]
