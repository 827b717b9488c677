"""`labkit homework`: release a homework from its source, grade what comes back, hand out scores."""

import argparse
import sys
from pathlib import Path

from labkit.commands import grading

ABOUT = """Make the students' notebooks, the key and the private tests from one source.

HW is a source such as chapters/homework/hw1_norms.py, or its name, or hw1. With a roster (a CSV
with the column id) every student gets a notebook with numbers of their own, drawn from the seed.
Nothing is written when the source has a mistake, a public check fails on the key, the points of
a question differ from its parts, or a line of a solution would reach a student."""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the commands."""
    top = commands.add_parser("homework", help="release homework, grade it safely, export scores")
    verbs = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    one = verbs.add_parser(
        "release",
        help="make notebooks, key and private tests from one source",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("homework", metavar="HW", help="the source, or its name")
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new folder")
    one.add_argument("--students", type=Path, metavar="ROSTER.csv", help="one notebook each")
    one.add_argument("--seed", type=int, default=0, metavar="N", help="of the students' numbers")
    one.set_defaults(run=_release)
    grading.add(verbs)


def _release(args: argparse.Namespace) -> int:
    from labkit.homework import roster
    from labkit.homework.release import release  # needs torch

    students = roster.read(args.students) if args.students is not None else ()
    done = release(_source(args.homework), args.out, [each.id for each in students], args.seed)
    for warning in done.warnings:
        print(f"labkit: {warning}", file=sys.stderr)
    points = sum(question.points for question in done.private.questions)
    print(
        f"{done.folder}: {done.private.homework}, {len(done.private.questions)} questions, "
        f"{points} points; {done.notebooks} notebook{'' if done.notebooks == 1 else 's'}"
        + (f", {done.different} with different numbers" if done.notebooks > 1 else "")
    )
    print("student/ is for students, key/ for you; private/ is for the grader alone")
    return 0


def _source(name: str) -> Path:
    """Find a homework by its path, its name, or the number of its name."""
    if name.endswith(".py"):
        return Path(name)
    from labkit.book.chapters import find_root

    folder = find_root() / "chapters" / "homework"
    found = {path.stem: path for path in sorted(folder.glob("hw*.py"))}
    hits = [path for stem, path in found.items() if name in (stem, stem.partition("_")[0])]
    if len(hits) != 1:
        listing = ", ".join(found) or f"none yet in {folder}"
        raise ValueError(f"unknown homework {name!r}; choose one of {listing}, or name a .py file")
    return hits[0]
