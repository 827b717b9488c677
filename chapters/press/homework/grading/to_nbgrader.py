"""Write scores into nbgrader's gradebook.db, through nbgrader's own interface.

A question's points become the automatic score of the cell `test-q1`; a score that an instructor
gave by hand stays, and counts.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from press.homework.grading.results import Result, not_graded


def write_back(results: Sequence[Result], database: Path, assignment: str | None = None) -> int:
    """Write the scores of graded questions; the number of scores written.

    The assignment (by default the homework's name), its notebook, cells, students and submissions
    are made where they are not there. ValueError when nbgrader is not installed.
    """
    api = _api()
    name = str(results[0]["homework"])
    assignment = assignment or name
    written = 0
    with _alembic_found(), api.Gradebook(f"sqlite:///{database.resolve()}") as book:
        book.update_or_create_assignment(assignment)
        book.update_or_create_notebook(name, assignment)
        for each in results[0]["questions"]:
            book.update_or_create_grade_cell(
                _cell(each), name, assignment, max_score=float(each["max"]), cell_type="code"
            )
        for result in results:
            student = result["student"]
            book.update_or_create_student(student)
            with book.db.no_autoflush:  # nbgrader 0.9.6 builds it half outside its session
                book.update_or_create_submission(assignment, student)
            bad = not_graded(result)
            for each in result["questions"]:
                if each["id"] not in bad:
                    grade = _grade(api, book, _cell(each), name, assignment, student)
                    grade.auto_score = float(each["points"])
                    grade.needs_manual_grade = False
                    written += 1
        book.db.commit()
    return written


def _cell(question: dict[str, Any]) -> str:
    """The grade_id that a release gives to the question's test cell."""
    return f"test-{question['id']}"


def _grade(
    api: Any, book: Any, cell: str, notebook: str, assignment: str, student: str
) -> Any:  # fmt: skip
    """The student's grade for a cell; made where the submission is older than the cell."""
    try:
        return book.find_grade(cell, notebook, assignment, student)
    except api.MissingEntry:
        submission = book.find_submission(assignment, student)
        mine = next((each for each in submission.notebooks if each.name == notebook), None)
        if mine is None:
            master = book.find_notebook(notebook, assignment)
            mine = api.SubmittedNotebook(notebook=master, assignment=submission)
            book.db.add(mine)
        cell_id = book.find_grade_cell(cell, notebook, assignment).id
        grade = api.Grade(cell_id=cell_id, notebook=mine)
        book.db.add(grade)
        book.db.flush()
        return grade


@contextmanager
def _alembic_found() -> Iterator[None]:
    """nbgrader calls the program `alembic` for a new file, which lies beside this Python."""
    before = os.environ.get("PATH", os.defpath)
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), before])
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _api() -> Any:
    try:
        from nbgrader import api
    except ImportError as error:
        raise ValueError(
            "`labkit homework nbgrader` needs nbgrader; install it with `pip install nbgrader`"
        ) from error
    return api
