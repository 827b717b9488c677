"""Scores as a CSV, of one or more homeworks: a row per student, or per question.

    plain      student, q1, q2, …, total, max, status
    canvas     Student, ID, SIS User ID, SIS Login ID, Section, HOMEWORK (a row of points possible)
    moodle     ID number, Full name, Email address, q1, q2, …, HOMEWORK
    questions  homework, question, max, graded, mean, full points, not begun

Of several homeworks each has one column instead of its questions. What is not graded is an empty
cell, never a 0. A cell that a spreadsheet would take for a formula begins with an apostrophe.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from press.homework.grading.results import Result, list_open_questions, plain_number
from press.homework.verdicts import NOT_BEGUN

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

Line = dict[str, Any]
Rows = Mapping[str, Mapping[str, str]]


def write_table(results: Sequence[Result], columns: str = "plain", rows: Rows | None = None) -> str:
    """Return the CSV; `rows` is a roster, for missing students and the platforms' columns."""
    if columns == "questions":
        lines = summarize_questions(results)
    else:
        lines = list(_list_students(results, columns, rows or {}))
    told = io.StringIO()
    writer = csv.DictWriter(told, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: escape_cell(value) for key, value in line.items()} for line in lines)
    return told.getvalue()


def summarize_questions(results: Sequence[Result]) -> list[Line]:
    """Return each question's mean, the share with full points, and the share not attempted."""
    asked: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        for question in each["questions"]:
            asked.setdefault((each["homework"], question["id"]), []).append(question)
    lines = []
    for (homework, name), found in asked.items():
        graded = [each for each in found if each["points"] is not None]
        means = {
            "mean": [each["points"] for each in graded],
            "full points": [each["points"] == each["max"] for each in graded],
            "not begun": [each["failure"] == NOT_BEGUN for each in graded],
        }
        line = {"homework": homework, "question": name, "max": found[0]["max"]}
        line |= {"graded": len(graded)}
        for key, values in means.items():
            line[key] = round(sum(values) / len(values), 3) if values else None
        lines.append(line)
    return lines


def _list_students(results: Sequence[Result], columns: str, rows: Rows) -> Iterator[Line]:
    most = {each["homework"]: each["max"] for each in results}
    one, late = len(most) == 1, any("late" in each for each in results)
    questions = dict.fromkeys(q["id"] for each in results for q in each["questions"] if one)
    mine: dict[str, dict[str, Result]] = {}
    for each in results:
        mine.setdefault(each["student"], {})[each["homework"]] = each
    if columns == "canvas":  # it wants the points that are possible in a second row
        yield {**dict.fromkeys(CANVAS, ""), "Student": "Points Possible", **most}
    for student in sorted(mine.keys() | rows.keys()):
        found, row = mine.get(student, {}), rows.get(student, {})
        totals = {name: found[name]["total"] if name in found else None for name in most}
        asked = {q["id"]: q["points"] for each in found.values() for q in each["questions"]}
        points = {name: asked.get(name) for name in questions}
        if columns == "canvas":
            yield _fill_columns(CANVAS, row, student, "SIS Login ID") | totals
        elif columns == "moodle":
            yield _fill_columns(MOODLE, row, student, "ID number") | points | totals
        else:
            there = [each["total"] for each in found.values()]
            lost = {"late": plain_number(sum(-each.get("late", 0) for each in found.values()))}
            yield {
                "student": student,
                **(points if one else totals),
                **(lost if late else {}),
                "total": None if None in there or not there else plain_number(sum(there)),
                "max": plain_number(sum(most.values())),
                "status": _describe_status(found, list(most)),
            }


def _fill_columns(
    wanted: Mapping[str, Sequence[str]], row: Mapping[str, str], student: str, by_id: str
) -> Line:
    """Return the platform's columns from the roster; the id if the roster has no value."""
    told = {
        column: next((row[name] for name in names if row.get(name)), "")
        for column, names in wanted.items()
    }
    return told | {by_id: told[by_id] or student}


def _describe_status(found: Mapping[str, Result], homeworks: Sequence[str]) -> str:
    told = []
    for name in homeworks:
        mine = found.get(name)
        said = (mine.get("status") or "; ".join(list_open_questions(mine))) if mine else "missing"
        told += [f"{name} {said}" if len(homeworks) > 1 else said] if said else []
    return ", ".join(told) or "graded"


def escape_cell(value: Any) -> Any:
    """Format a cell on one line that no spreadsheet reads as a formula; "" for nothing."""
    if not isinstance(value, str):
        return "" if value is None else value
    return escape_formula(" ".join(value.split()))


def escape_formula(text: str) -> str:
    """Escape a string so that no spreadsheet reads it as a formula; line breaks stay."""
    text = text.strip()  # no tab before a formula
    return f"'{text}" if text.startswith(FORMULA) else text
