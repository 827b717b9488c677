"""nbgrader's gradebook.db, where marks by hand, due dates and penalties are kept.

Results go in: automatic scores as those of the cells `test-q1`, times, and a place for each answer
that a person marks, the cell `q2`. Marks, comments and penalties come out again. What was given by
hand, here or in nbgrader's formgrader, stays and counts.
"""

import csv
import io
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from labkit.system.files import write_whole
from press.homework.grading.gradebook import escape_cell, escape_formula
from press.homework.grading.results import Result, plain_number, sum_points

DAY = 86_400
MARKS: tuple[str, ...] = ("student", "homework", "question", "points", "max", "comment", "answer")


@dataclass(frozen=True)
class Rules:
    """When a homework is due, and what a roster says of its students.

    `rows` is a roster's rest by student. Its columns `extension` (days) and `handed in` (a time)
    are of all homeworks; `extension hw1` is of one.
    """

    due: datetime | None = None
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def read_column(self, student: str, what: str, homework: str) -> str:
        """Return what the roster says of a student in this homework; "" for nothing."""
        row = self.rows.get(student, {})
        names = (f"{what} {homework}", f"{what} {homework.partition('_')[0]}", what)
        return next((row[name] for name in names if row.get(name)), "")

    def find_extension(self, student: str, homework: str) -> timedelta | None:
        """Return the days that a student has more."""
        said = self.read_column(student, "extension", homework)
        try:
            return timedelta(days=float(said)) if said else None
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"the roster's extension is a number of days; {student} has {said!r}"
            ) from error


def read_time(text: str) -> datetime:
    """Read a time such as 2026-12-01 23:59, which is this machine's; give it as nbgrader does."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    except ValueError as error:
        raise ValueError(f"a time is written 2026-12-01 23:59, got {text!r}") from error


@contextmanager
def open_gradebook(database: Path) -> Iterator[Any]:
    """Open a gradebook, made where there is none. ValueError when nbgrader is missing."""
    try:
        from nbgrader import api
    except ImportError as error:
        raise ValueError(
            "gradebook.db needs nbgrader; install it with `pip install nbgrader`"
        ) from error
    before = os.environ.get("PATH", os.defpath)
    # nbgrader calls the program `alembic` for a new file, which lies beside this Python.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        with api.Gradebook(f"sqlite:///{database.resolve()}") as book:
            yield book
    finally:
        os.environ["PATH"] = before


def write_scores(
    results: Sequence[Result], book: Any, assignment: str | None = None, rules: Rules = Rules()
) -> list[str]:
    """Write the scores of one homework; return who handed in again after a mark by hand.

    The assignment (by default the homework's name), its notebook, cells, students and submissions
    are made where they are not there.
    """
    name = str(results[0]["homework"])
    assignment = assignment or name
    due = {} if rules.due is None else {"duedate": rules.due}
    book.update_or_create_assignment(assignment, **due)
    notebook = book.update_or_create_notebook(name, assignment)
    for each in results[0]["questions"]:
        kind = "markdown" if _is_by_hand(each) else "code"
        book.update_or_create_grade_cell(
            _name_cell(each), name, assignment, max_score=float(each["max"]), cell_type=kind
        )
        book.update_or_create_solution_cell(each["id"], name, assignment)
    again = []
    for result in results:
        student, row = result["student"], rules.rows.get(result["student"], {})
        named = {"last_name": row.get("name"), "email": row.get("email")}
        book.update_or_create_student(student, **{key: one for key, one in named.items() if one})
        with book.db.no_autoflush:  # nbgrader 0.9.6 builds it half outside its session
            submission = book.update_or_create_submission(assignment, student)
        when = rules.read_column(student, "handed in", name) or result.get("handed_in", "")
        before, submission.timestamp = submission.timestamp, read_time(when) if when else None
        extension = rules.find_extension(student, name)  # for nbgrader, of a due date
        submission.extension = extension if submission.assignment.duedate else None
        grades = {each.name: each for each in _complete_notebook(book, submission, notebook).grades}
        for each in result["questions"]:
            grade = grades[_name_cell(each)]
            if not _is_by_hand(each) and each["points"] is not None:
                grade.auto_score, grade.needs_manual_grade = float(each["points"]), False
            elif grade.manual_score is not None and before != submission.timestamp:
                grade.needs_manual_grade = True
                again.append(student)
    book.db.commit()
    return list(dict.fromkeys(again))


def set_penalties(results: Sequence[Result], book: Any, percent: float) -> None:
    """Take percent of all points for each day begun after the due date, at most what was earned."""
    for result in results:
        mine = _find_notebook(book, result)
        if mine.assignment.assignment.duedate is None:
            raise ValueError("a penalty is for what is late: say when the homework was --due")
        days = math.ceil(mine.assignment.total_seconds_late / DAY)
        earned = sum(map(_sum_points, mine.grades))
        mine.late_submission_penalty = min(days * percent / 100 * result["max"], earned) or None
    book.db.commit()


def read_scores(result: Result, book: Any) -> Result:
    """Return a result with the marks, comments and the penalty that the gradebook has for it."""
    mine = _find_notebook(book, result)
    if mine is None:
        return result
    grades = {grade.name: grade for grade in mine.grades}
    comments = {each.name: each.manual_comment for each in mine.comments}
    questions = []
    for each in result["questions"]:
        grade, one = (
            grades.get(_name_cell(each)),
            {**each, "comment": comments.get(each["id"]) or ""},
        )
        if grade is not None and (grade.manual_score is not None or grade.extra_credit):
            one |= {
                "points": plain_number(_sum_points(grade)),
                "failure": "",
                "reason": "",
                "marked": True,
            }
        questions.append(one)
    late, points = plain_number(mine.late_submission_penalty or 0), sum_points(questions)
    found = {**result, "questions": questions, "total": points}
    if any(each.get("marked") for each in questions):  # somebody has looked at it
        found["status"] = ""
    if late:
        found |= {"late": late, "total": None if points is None else plain_number(points - late)}
    return found


def write_marks(path: Path, results: Sequence[Result]) -> None:
    """Write the table in which a person marks: a row for each student and each answer by hand."""
    told = io.StringIO()
    writer = csv.DictWriter(told, list(MARKS), lineterminator="\n")
    writer.writeheader()
    for result in results:
        for each in filter(_is_by_hand, result["questions"]):
            row = {**each, "question": each["id"]}
            row |= {key: result[key] for key in ("student", "homework")}
            shown = {key: escape_cell(row.get(key)) for key in MARKS}
            writer.writerow({**shown, "answer": escape_formula(each["answer"])})
    write_whole(path, told.getvalue(), 0o600)


def read_marks(path: Path, book: Any, assignment: str | None = None) -> None:
    """Read the marks out of such a table; ValueError names the row that is wrong."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter)
    if missing := set(MARKS) - {"answer"} - set(rows.fieldnames or ()):
        raise ValueError(f"{path} has the columns {', '.join(MARKS)}; it lacks {min(missing)}")
    for row in rows:
        if not (row["points"] or "").strip():
            continue
        where = f"{path}, {row['student']}, {row['question']}: "
        try:
            homework = row["homework"]
            words = (row["question"], homework, assignment or homework, row["student"])
            grade, comment = book.find_grade(*words), book.find_comment(*words)
            points, most = float(row["points"].replace(",", ".")), grade.max_score
        except ValueError as error:  # nbgrader's for what is not there is one too
            raise ValueError(f"{where}{error}") from error
        if not 0 <= points <= most:
            raise ValueError(f"{where}points are from 0 to {most:g}, got {row['points']!r}")
        grade.manual_score, grade.needs_manual_grade = points, False
        comment.manual_comment = (row["comment"] or "").removeprefix("'") or None
    book.db.commit()


def _find_notebook(book: Any, result: Result) -> Any:
    """The student's notebook of this homework; None where the gradebook has none."""
    try:
        submissions = book.find_student(result["student"]).submissions
    except ValueError:  # nbgrader's MissingEntry
        return None
    found = [one for each in submissions for one in each.notebooks]
    return next((one for one in found if one.name == result["homework"]), None)


def _is_by_hand(question: Mapping[str, Any]) -> bool:
    return "answer" in question


def _name_cell(question: Mapping[str, Any]) -> str:
    """The grade_id that a release gives to the cell with the question's points."""
    return question["id"] if _is_by_hand(question) else f"test-{question['id']}"


def _sum_points(grade: Any) -> float:
    given = grade.auto_score if grade.manual_score is None else grade.manual_score
    return (given or 0.0) + (grade.extra_credit or 0.0)


def _complete_notebook(book: Any, submission: Any, notebook: Any) -> Any:
    """The student's notebook, with what it lacks where the submission is older than a cell."""
    from nbgrader import api

    mine = next((each for each in submission.notebooks if each.name == notebook.name), None)
    mine = mine or api.SubmittedNotebook(notebook=notebook, assignment=submission)
    book.db.add(mine)
    known = {each.cell_id for each in (*mine.grades, *mine.comments)}
    for kind, cells in (
        (api.Grade, notebook.grade_cells),
        (api.Comment, notebook.solution_cells),
    ):
        book.db.add_all(
            kind(cell_id=cell.id, notebook=mine) for cell in cells if cell.id not in known
        )
    book.db.flush()
    return mine
