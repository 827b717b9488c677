"""Scores as a CSV: a row per student, a column per question and the total.

    plain    student, q1, q2, …, total, max, status
    canvas   Student, ID, SIS User ID, SIS Login ID, Section, HOMEWORK (a row of points possible)
    moodle   ID number, Full name, Email address, q1, q2, …, HOMEWORK

What is not graded is an empty cell, never a 0. A cell that a spreadsheet would take for a formula
begins with an apostrophe.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from press.homework.grading.results import Result, not_graded

COLUMNS = ("plain", "canvas", "moodle")
FORMULA = ("=", "+", "-", "@")
# Where each column of a platform may stand in a roster, by its names there in lower case.
CANVAS = {
    "Student": ("name", "student", "full name"),
    "ID": ("canvas", "canvas id"),
    "SIS User ID": ("sis user id", "sis"),
    "SIS Login ID": ("sis login id", "login"),
    "Section": ("section",),
}
MOODLE = {
    "ID number": ("id number", "moodle"),
    "Full name": ("full name", "name"),
    "Email address": ("email address", "email"),
}

Rows = Mapping[str, Mapping[str, str]]


def table(
    results: Sequence[Result], columns: str = "plain", rows: Rows | None = None,
    students: Sequence[str] = (),
) -> str:  # fmt: skip
    """The CSV's text. `students` without a result have empty scores; `rows` is a roster's rest."""
    if columns not in COLUMNS:
        raise ValueError(f"unknown columns {columns!r}; choose one of {', '.join(COLUMNS)}")
    by_student = {each["student"]: each for each in results}
    everyone = sorted(set(by_student) | set(students) | set(rows or ()))
    questions = _questions(results)
    make = {"plain": _plain, "canvas": _canvas, "moodle": _moodle}[columns]
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    for row in make(everyone, by_student, questions, rows or {}, results[0]):
        writer.writerow([_cell(value) for value in row])
    return told.getvalue()


def _plain(
    everyone: list[str], found: dict[str, Result], questions: list[str], rows: Rows, one: Result
) -> list[list[Any]]:
    table: list[list[Any]] = [["student", *questions, "total", "max", "status"]]
    for student in everyone:
        result = found.get(student)
        scores = _scores(result, questions)
        total = result["total"] if result else None
        table.append([student, *scores, total, one["max"], _status(result)])
    return table


def _canvas(
    everyone: list[str], found: dict[str, Result], questions: list[str], rows: Rows, one: Result
) -> list[list[Any]]:
    # Canvas wants the points that are possible in a second row, behind these words.
    table: list[list[Any]] = [
        [*CANVAS, one["homework"]],
        ["Points Possible", *[""] * (len(CANVAS) - 1), one["max"]],
    ]
    for student in everyone:
        known = _known(CANVAS, rows.get(student, {}), student, "SIS Login ID")
        table.append([*known, found[student]["total"] if student in found else None])
    return table


def _moodle(
    everyone: list[str], found: dict[str, Result], questions: list[str], rows: Rows, one: Result
) -> list[list[Any]]:
    table: list[list[Any]] = [[*MOODLE, *questions, one["homework"]]]
    for student in everyone:
        result = found.get(student)
        known = _known(MOODLE, rows.get(student, {}), student, "ID number")
        total = result["total"] if result else None
        table.append([*known, *_scores(result, questions), total])
    return table


def _known(
    wanted: dict[str, tuple[str, ...]], row: Mapping[str, str], student: str, by_id: str
) -> list[str]:
    """What a roster says for a platform's columns; the id stands where it says nothing."""
    told = [next((row[name] for name in names if row.get(name)), "") for names in wanted.values()]
    at = list(wanted).index(by_id)
    told[at] = told[at] or student
    return told


def _questions(results: Sequence[Result]) -> list[str]:
    found: dict[str, None] = {}
    for result in results:
        found |= dict.fromkeys(each["id"] for each in result["questions"])
    return list(found)


def _scores(result: Result | None, questions: list[str]) -> list[Any]:
    points = {each["id"]: each["points"] for each in result["questions"]} if result else {}
    return [points.get(name) for name in questions]


def _status(result: Result | None) -> str:
    if result is None:
        return "missing"
    bad = not_graded(result)
    return f"not graded: {' '.join(bad)}" if bad else "graded"


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else value
    text = " ".join(value.split())  # one line, and no tab before a formula
    return f"'{text}" if text.startswith(FORMULA) else text
