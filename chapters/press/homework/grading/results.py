"""A graded submission as JSON: points and messages per part, and what they were made from.

    {"schema": 1, "homework", "title", "student", "mode", "file", "sha256", "digest", "problems",
     "total", "max", "questions": [{"id", "points", "max", "failure", "reason", "digests",
                           "parts": [{"name", "points", "max", "says"}]}]}

It holds no time and no path, so twenty gradings of one submission write the same bytes. A question
that could not be graded has `points` null and failure "not graded"; then `total` is null too.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from labkit.files import write_whole

SCHEMA = 1
NOT_GRADED = "not graded"
UNREADABLE = "unreadable"

Result = dict[str, Any]


def question(
    name: str, parts: list[dict[str, Any]], most: float, failure: str = "", reason: str = ""
) -> Result:
    """One question of a result; points are the sum of the parts', null when it is not graded."""
    earned = None if failure == NOT_GRADED else plain(sum(part["points"] for part in parts))
    return {"id": name, "points": earned, "max": plain(most), "parts": parts,
            "failure": failure, "reason": reason}  # fmt: skip


def total(questions: Iterable[Result]) -> float | None:
    """The sum of the points; none when a question was not graded: nobody loses points silently."""
    points = [each["points"] for each in questions]
    return None if None in points else plain(sum(points))


def not_graded(result: Result) -> list[str]:
    """The questions of a result that could not be graded."""
    return [each["id"] for each in result["questions"] if each["failure"] == NOT_GRADED]


def plain(number: float) -> float:
    """A whole number without its point: 2, not 2.0; else at most six digits after it."""
    rounded = round(float(number), 6)
    return int(rounded) if rounded.is_integer() else rounded


def own_folder(path: Path) -> Path:
    """Make a folder that its owner alone can open, or take the one that is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write(folder: Path, result: Result) -> Path:
    """Write folder/STUDENT.json whole or not at all."""
    path = folder / f"{result['student']}.json"
    write_whole(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    return path


def load(path: Path) -> Result | None:
    """Read a result; None when there is none, or when it is damaged or of another schema."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    whole = isinstance(result, dict) and result.get("schema") == SCHEMA
    keys = (
        "homework",
        "title",
        "student",
        "digest",
        "questions",
        "total",
        "max",
        "problems",
        "mode",
    )
    return result if whole and all(key in result for key in keys) else None


def load_all(folder: Path) -> list[Result]:
    """Read every result of a homework, by student; ValueError when there is none or one is bad."""
    found = []
    for path in sorted(folder.glob("*.json")):
        result = load(path)
        if result is None:
            raise ValueError(
                f"{path} must be a result of schema {SCHEMA}, and is damaged; grade it again with "
                "`labkit homework grade`"
            )
        found.append(result)
    if not found:
        raise ValueError(f"{folder} holds no results; make them with `labkit homework grade`")
    return found


def folder_of(place: Path, homework: str | None) -> Path:
    """The folder of one homework's results: `place` itself, or the only or named one in it."""
    if not place.is_dir():
        raise ValueError(f"{place} must be a folder that `labkit homework grade` wrote")
    if homework is not None:
        return place / homework
    if any(place.glob("*.json")):
        return place
    found = sorted(path for path in place.iterdir() if path.is_dir() and any(path.glob("*.json")))
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise ValueError(f"{place} must hold results of one homework, it has {names}; "
                         "name one with --homework")  # fmt: skip
    return found[0]
