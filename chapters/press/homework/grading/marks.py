"""Marks given by hand: points and comments for questions, and penalties for late work.

All of it is one CSV, which a spreadsheet opens:

    student, homework, question, points, max, comment, answer

`list_answers` puts in a row for each student and each question in prose; a person fills in points
and comment. A row for a question of code replaces the points that its test gave. The row of the
question `late` takes its points, which are below 0, from the total.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from labkit.system.files import write_whole
from press.homework.grading.gradebook import escape_cell, escape_formula
from press.homework.grading.results import Result, plain_number, sum_points
from press.homework.roster import open_table

LATE = "late"
COLUMNS = ("student", "homework", "question", "points", "max", "comment", "answer")


@dataclass(frozen=True)
class Mark:
    """One row: the points, None if not given yet; `answer` is None if there is no such column."""

    points: float | None = None
    most: float | None = None
    comment: str = ""
    answer: str | None = ""


# By student, homework and question.
Marks = dict[tuple[str, str, str], Mark]


def read_marks(path: Path) -> Marks:
    """Read the table; ValueError states the missing column or the invalid row."""
    rows = open_table(path)
    if missing := set(COLUMNS) - {"answer"} - set(rows.fieldnames or ()):
        raise ValueError(
            f"{path} must have the columns {', '.join(COLUMNS)}, but lacks {min(missing)}; add it"
        )
    marks: Marks = {}
    for row in rows:
        try:
            points, most = (_read_number(row[column]) for column in ("points", "max"))
        except ValueError as error:
            raise ValueError(f"{path}, {row['student']}, {row['question']}: {error}") from error
        comment = (row["comment"] or "").removeprefix("'")
        key = (row["student"], row["homework"], row["question"])
        marks[key] = Mark(points, most, comment, row.get("answer"))
    return marks


def write_marks(path: Path, marks: Marks) -> None:
    """Write the table, readable only by its owner."""
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key, mark in marks.items():
        numbers = ["" if each is None else plain_number(each) for each in (mark.points, mark.most)]
        points, most = numbers
        answer = escape_formula(mark.answer or "")
        writer.writerow(
            [*map(escape_cell, key), points, most, escape_cell(mark.comment), answer],
        )
    write_whole(path, told.getvalue(), 0o600)


def list_answers(results: Sequence[Result], marks: Marks) -> tuple[Marks, list[str]]:
    """Add the answers in prose to a table; report students whose answer changed after marking."""
    listed, again = dict(marks), []
    for result in results:
        for question in result["questions"]:
            if "answer" not in question:
                continue
            key = (result["student"], result["homework"], question["id"])
            old = marks.get(key, Mark())
            new = Mark(old.points, question["max"], old.comment, question["answer"])
            known = old.points is not None and old.answer is not None
            if known and _fold_text(old.answer) != _fold_text(new.answer):
                again.append(result["student"])
            listed[key] = new
    return listed, list(dict.fromkeys(again))


def apply_marks(results: Sequence[Result], marks: Marks) -> list[Result]:
    """Return results with the points, comments and penalties of a table.

    Rows of other homeworks are left alone. ValueError for points out of range, or of nobody.
    """
    names = {each["homework"] for each in results}
    names |= {name.partition("_")[0] for name in names}  # a short one would be a row for nobody
    known = {
        (each["student"], each["homework"], name)
        for each in results
        for name in (LATE, *(question["id"] for question in each["questions"]))
    }
    for key in marks:
        if key[1] in names and key not in known:
            student, homework, question = key
            raise ValueError(
                f"{student}, {question}: every row must match a result, but no result of "
                f"{homework} matches this one; correct or delete it"
            )
    return [_apply_to_one(each, marks) for each in results]


def set_penalties(
    results: Sequence[Result],
    marks: Marks,
    due: datetime,
    percent: float,
    rows: Mapping[str, Mapping[str, str]],
) -> Marks:
    """Deduct a percentage of all points per day begun after `due`, at most what was earned.

    `rows` is a roster's rest by student. Its columns `extension` (days) and `handed in` (a time)
    are of all homeworks; `extension hw1` is of one.
    """
    found = dict(marks)
    for result in results:
        key = (result["student"], result["homework"], LATE)
        found.pop(key, None)
        days = count_days_late(result, due, rows.get(result["student"], {}))
        questions = _apply_to_one(result, found)["questions"]
        earned = sum(question["points"] or 0 for question in questions)
        if lost := min(days * percent / 100 * result["max"], earned):
            found[key] = Mark(-lost, None, f"{days} {'day' if days == 1 else 'days'} late")
    return found


def count_days_late(result: Result, due: datetime, row: Mapping[str, str]) -> int:
    """Count the days begun between a student's deadline and the submission."""
    homework = result["homework"]
    when = _read_column(row, "handed in", homework) or result.get("handed_in", "")
    if not when:
        return 0
    said = _read_column(row, "extension", homework)
    try:
        extension = timedelta(days=float(said or 0))
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"an extension in the roster must be a number of days, but {result['student']} has "
            f"{said!r}"
        ) from error
    return max(0, math.ceil((read_time(when) - due - extension) / timedelta(days=1)))


def read_time(text: str) -> datetime:
    """Read a time such as 2026-12-01 23:59, in this machine's time zone."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise ValueError(f"a time must have the form 2026-12-01 23:59, got {text!r}") from error


def _apply_to_one(result: Result, marks: Marks) -> Result:
    student, homework = result["student"], result["homework"]
    questions = []
    for each in result["questions"]:
        mark = marks.get((student, homework, each["id"]), Mark())
        one = {**each, "comment": mark.comment}
        if mark.points is not None:
            if not 0 <= mark.points <= each["max"]:
                raise ValueError(
                    f"{student}, {each['id']}: points must be from 0 to {each['max']}, got "
                    f"{mark.points:g}"
                )
            points = plain_number(mark.points)
            one |= {"points": points, "failure": "", "reason": "", "marked": True}
        questions.append(one)
    total = sum_points(questions)
    found = {**result, "questions": questions, "total": total}
    if any(each.get("marked") for each in questions):  # somebody has looked at it
        found["status"] = ""
    late = plain_number(-(marks.get((student, homework, LATE), Mark()).points or 0))
    if late < 0:
        raise ValueError(f"{student}, {LATE}: points must be at most 0, got {-late:g}")
    if late:
        found |= {"late": late, "total": None if total is None else plain_number(total - late)}
    return found


def _read_column(row: Mapping[str, str], what: str, homework: str) -> str:
    """Return the roster's entry for this homework, by its long or short name; "" if none."""
    names = (f"{what} {homework}", f"{what} {homework.partition('_')[0]}", what)
    return next((row[name] for name in names if row.get(name)), "")


def _read_number(text: str | None) -> float | None:
    cell = (text or "").strip().removeprefix("'")
    return float(cell.replace(",", ".")) if cell else None


def _fold_text(text: str | None) -> str:
    return " ".join((text or "").removeprefix("'").split())
