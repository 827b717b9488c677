"""`labkit homework`: release a homework from its source, grade what comes back, hand out scores."""

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from press.commands import grading, scores
from press.commands.options import sources
from press.homework.private import match_names
from press.homework.roster import read_roster

app = Typer(name="homework", help="Release homework, grade it safely, export scores.")


@app.command("release")
def release_homework(
    homework: Annotated[str, Argument(metavar="HW", help="the source, or its name")],
    out: Annotated[Path, Option(help="the folder to create")],
    students: Annotated[Path | None, Option(help="a roster: one notebook per student")] = None,
    seed: Annotated[int, Option(help="the seed of the students' numbers")] = 0,
) -> None:
    """Make notebooks, key and private tests from one source.

    HW is a source such as chapters/homework/hw1_norms.py, or its name, or hw1. With a roster (a CSV
    file with the column id) each student's notebook gets different numbers, drawn from the seed.
    Nothing is written if the source has a mistake, a public check fails on the key, the points of a
    question differ from its parts, or a line of a solution would reach a student.
    """
    from press.homework.release import write_release  # needs torch

    ids = [] if students is None else [each.id for each in read_roster(students)]
    done = write_release(_find_source(homework), out, ids, seed)
    for warning in done.warnings:
        print(f"labkit: {warning}", file=sys.stderr)
    points = sum(question.points for question in done.private.questions)
    print(
        f"{done.folder}: {done.private.homework}, {len(done.private.questions)} questions, "
        f"{points} points; {done.notebooks} notebook{'' if done.notebooks == 1 else 's'}"
        + (f", {done.different} with different numbers" if done.notebooks > 1 else "")
    )
    print("student/ is for students, key/ for you; private/ is for the grader alone")


app.add_typer(grading.app)
app.add_typer(scores.app)


def _find_source(name: str) -> Path:
    """Find a homework by its path, its name, or the number in its name."""
    if name.endswith(".py"):
        return Path(name)
    try:
        found = sources()
    except ValueError as error:  # an installed package has no homeworks
        raise ValueError(
            f"{name!r} is a homework of the book, which is not here; run this command in a clone "
            "of its repository, or name a source of your own, such as homework/hw9_mine.py"
        ) from error
    hits = match_names(name, found)
    if len(hits) != 1:
        listing = ", ".join(found) or "none yet in chapters/homework"
        raise ValueError(f"unknown homework {name!r}; choose one of {listing}, or name a .py file")
    return found[hits[0]]
