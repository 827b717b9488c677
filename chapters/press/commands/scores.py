"""`labkit homework feedback, gradebook, marks`: results for people and platforms."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option, Typer

from labkit.system.files import write_whole
from press.commands.options import Homework
from press.homework.grading.collect import read_download_names
from press.homework.grading.results import (
    BY_HAND,
    NOT_GRADED,
    load_results,
    make_own_folder,
    plain_number,
)
from press.homework.roster import read_roster

app = Typer()

Results = Annotated[list[Path], Argument(help="the folder that grade wrote")]
Students = Annotated[
    Path | None, Option(help="a roster: adds names, and students who handed in nothing")
]
Marks = Annotated[Path | None, Option(help="the table that `labkit homework marks` wrote")]


@app.command("feedback")
def write_feedback(
    results: Results,
    out: Annotated[Path, Option(help="the folder to write")],
    homework: Homework = None,
    marks: Marks = None,
    collected: Annotated[
        Path | None, Option(help="the folder that collect wrote; makes a zip for Canvas or Moodle")
    ] = None,
) -> int:
    """Write Markdown and HTML for every student."""
    from press.homework.grading import feedback  # needs torch

    lacking = []
    for name, found in _load_results(results, homework, marks).items():
        folder = make_own_folder(out) / name
        for result in found:
            feedback.write_feedback(folder, result)
        print(f"{_count_things(len(found), 'student')}, Markdown and HTML; in {folder}")
        if collected is not None:
            path = out / f"{name}.zip"
            lacking += feedback.pack_feedback(found, read_download_names(collected, name), path)
            if path.exists():
                print(f"{path}: upload it where the submissions were downloaded")
    if lacking:
        print(
            f"labkit: not in a zip, because neither Canvas nor Moodle named the file: "
            f"{', '.join(lacking)}",
            file=sys.stderr,
        )
    return 1 if lacking else 0


@app.command("gradebook")
def write_gradebook(
    results: Results,
    homework: Homework = None,
    out: Annotated[Path | None, Option(help="a CSV file (default: print it)")] = None,
    columns: Literal["plain", "canvas", "moodle", "questions"] = "plain",
    students: Students = None,
    marks: Marks = None,
) -> int:
    """Write the scores as CSV.

    The table of one homework has a column for each question. The table of several has a column for
    each homework, and the sum. With `--columns questions` it has the mean of each question and
    shares of the class.
    """
    from press.homework.grading import gradebook  # needs torch

    found = [each for mine in _load_results(results, homework, marks).values() for each in mine]
    table_text = gradebook.write_table(found, columns, _read_rows(students))
    if out is None:
        print(table_text, end="")
    else:
        write_whole(out, table_text, 0o600)  # marks are nobody else's
        print(f"{_count_things(table_text.count(chr(10)) - 1, 'row')}; in {out}")
    return _say_open(found)


@app.command("marks")
def update_marks(
    results: Results,
    out: Annotated[Path, Option(help="the table: read if it exists, then written")],
    homework: Homework = None,
    students: Students = None,
    due: Annotated[str | None, Option(metavar="TIME", help="like '2026-12-01 23:59'")] = None,
    late: Annotated[
        float | None, Option(min=0, max=100, help="percent of all points for each day begun")
    ] = None,
) -> int:
    """Write the table for manual marks: answers in prose, penalties for late work.

    Fill in its points and comments, and give it to feedback and gradebook. When called again,
    the command adds new rows and keeps your entries.
    """
    from press.homework.grading import marks as by_hand  # needs torch

    found = load_results(results, homework)
    table, again = by_hand.list_answers(found, by_hand.read_marks(out) if out.exists() else {})
    if again:
        print(f"answered again, although marked by hand: {', '.join(again)}")
    if (due is None) != (late is None):
        raise ValueError("--due and --late must be given together, but one is missing; add it")
    if due is not None and late is not None:
        if len({each["homework"] for each in found}) > 1:
            raise ValueError(
                "--due and --late apply to one homework at a time, but there are several; choose "
                "one with --homework"
            )
        when = by_hand.read_time(due)
        table = by_hand.set_penalties(found, table, when, late, _read_rows(students))
    marked = by_hand.apply_marks(found, table)
    by_hand.write_marks(out, table)
    print(f"{_count_things(len(table), 'row')}; in {out}")
    return _say_open(marked)


def say_scores(results: Sequence[Any]) -> None:
    """Print each student's points, their mean, and the results of each question."""
    from press.homework.grading.gradebook import summarize_questions
    from press.homework.verdicts import NOT_BEGUN

    said = (BY_HAND, NOT_GRADED, NOT_BEGUN)
    for each in results:
        points = ", ".join(
            f"{q['id']} {q['failure'] if q['failure'] in said else q['points']}"
            for q in each["questions"]
        )
        points = each.get("status") or points
        total = sum(q["points"] or 0 for q in each["questions"])
        so_far = " so far" if each["total"] is None else ""
        print(f"{each['student']}: {plain_number(total)} of {each['max']}{so_far} ({points})")
    totals = [each["total"] for each in results if each["total"] is not None]
    if totals:
        print(f"mean: {sum(totals) / len(totals):.1f} of {results[0]['max']}")
    for row in summarize_questions(results):
        if row["graded"]:
            print(
                f"{row['question']}: mean {row['mean']:.1f} of {row['max']}, full points "
                f"{row['full points']:.0%}, not begun {row['not begun']:.0%}"
            )


def _load_results(
    results: Sequence[Path], homework: str | None, marks: Path | None
) -> dict[str, list]:
    """Load the results by homework, with the marks given by hand."""
    from press.homework.grading import marks as by_hand

    found = load_results(results, homework)
    if marks is not None:
        if not marks.exists():
            raise ValueError(
                f"--marks must name a file that `labkit homework marks` wrote, but {marks} does "
                "not exist"
            )
        found = by_hand.apply_marks(found, by_hand.read_marks(marks))
    names = dict.fromkeys(each["homework"] for each in found)
    return {name: [each for each in found if each["homework"] == name] for name in names}


def _read_rows(students: Path | None) -> dict[str, dict[str, str]]:
    return {} if students is None else {each.id: each.others for each in read_roster(students)}


def _count_things(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _say_open(found: Sequence[Any]) -> int:
    """List what has no points yet; return 1 if there is anything."""
    waiting = [
        each["student"] for each in found for q in each["questions"] if q["failure"] == BY_HAND
    ]
    if waiting:
        print(f"labkit: to be marked by hand: {', '.join(dict.fromkeys(waiting))}", file=sys.stderr)
    return 1 if say_faults(found) or waiting else 0


def say_faults(found: Sequence[Any]) -> bool:
    """Report the questions and files that were not graded, by reason, with the students' names."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for each in found:
        for question in each["questions"]:
            if question["reason"]:
                key = (question["id"], question["reason"])
                by_reason.setdefault(key, []).append(each["student"])
    for (question, reason), students in sorted(by_reason.items()):
        print(
            f"labkit: {question} is not graded for {', '.join(students)}: {reason}", file=sys.stderr
        )
    if by_reason:
        print("labkit: nobody loses points by it; mend it and grade again", file=sys.stderr)
    by_status: dict[str, list[str]] = {}
    for each in found:
        if status := each.get("status"):
            by_status.setdefault(status, []).append(each["student"])
    for status, students in sorted(by_status.items()):
        print(
            f"labkit: {status}: {', '.join(students)}; ask for another file, collect and grade "
            "again",
            file=sys.stderr,
        )
    return bool(by_reason or by_status)
