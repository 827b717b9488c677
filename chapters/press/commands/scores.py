"""`labkit homework feedback, gradebook, gradescope, nbgrader`: results for people and platforms."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option, Typer

from labkit.files import write_whole
from press.commands.options import Homework

app = Typer()

Results = Annotated[Path, Argument(help="what grade wrote")]


@app.command("feedback")
def write_feedback(
    results: Results, out: Annotated[Path, Option(help="a folder")], homework: Homework = None
) -> None:
    """Write Markdown and HTML for every student."""
    from press.homework.grading import feedback
    from press.homework.grading.results import own_folder

    found = _load(results, homework)
    folder = own_folder(out) / found[0]["homework"]
    for result in found:
        feedback.write(folder, result)
    print(f"{len(found)} students, Markdown and HTML; in {folder}")


@app.command("gradebook")
def write_gradebook(
    results: Results,
    homework: Homework = None,
    out: Annotated[Path | None, Option(help="a CSV file (default: print it)")] = None,
    columns: Literal["plain", "canvas", "moodle"] = "plain",
    students: Annotated[Path | None, Option(help="a roster: names; who handed in nothing")] = None,
) -> int:
    """Write the scores as CSV."""
    from press.homework import roster
    from press.homework.grading import gradebook

    found = _load(results, homework)
    people = roster.read(students) if students is not None else ()
    table_text = gradebook.table(found, columns, {each.id: each.others for each in people})
    if out is None:
        print(table_text, end="")
    else:
        write_whole(out, table_text)
        out.chmod(0o600)  # marks are nobody else's
        print(f"{table_text.count(chr(10)) - 1} rows; in {out}")
    return _open_questions(found)


@app.command("gradescope")
def write_autograder(
    release: Annotated[Path, Argument(help="what `labkit homework release` wrote")],
    out: Annotated[Path, Option(help="a zip file")],
    homework: Homework = None,
    visibility: Annotated[
        str, Option(help="or after_due_date, after_published, hidden")
    ] = "visible",
) -> None:
    """Write a self-contained autograder zip."""
    from press.homework.grading import batch, gradescope

    path = gradescope.build(batch.private_of(release, homework), out, visibility)
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; upload it as the autograder")


@app.command("nbgrader")
def fill_nbgrader(
    results: Results,
    homework: Homework = None,
    db: Path = Path("gradebook.db"),
    assignment: Annotated[str | None, Option(help="default: the homework's name")] = None,
) -> int:
    """Write the scores into nbgrader's gradebook.db."""
    from press.homework.grading.to_nbgrader import write_back

    found = _load(results, homework)
    written = write_back(found, db, assignment)
    print(f"{written} scores of {len(found)} students; in {db}")
    return _open_questions(found)


def _load(results: Path, homework: str | None) -> list:
    from press.homework.grading.results import folder_of, load_all

    return load_all(folder_of(results, homework))


def _open_questions(found: list) -> int:
    from press.homework.grading import results

    faults = {
        each["student"]: {q["id"]: q["reason"] for q in each["questions"] if q["reason"]}
        for each in found
        if results.not_graded(each)
    }
    if faults:
        say_faults(faults)
    return 1 if faults else 0


def say_faults(faults: dict[str, dict[str, str]]) -> None:
    """Name what could not be graded, once for each reason, and whom it concerns."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for student, bad in faults.items():
        for question, reason in bad.items():
            by_reason.setdefault((question, reason), []).append(student)
    for (question, reason), students in sorted(by_reason.items()):
        print(f"labkit: {question} is not graded for {', '.join(students)}: {reason}",
              file=sys.stderr)  # fmt: skip
    print("labkit: nobody loses points by it; mend it and grade again", file=sys.stderr)
