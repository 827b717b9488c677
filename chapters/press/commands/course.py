"""`labkit course`: serve the book to a class, and carry homework to it and back."""

import csv
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, TextIO

from typer import Argument, Option, Typer

from labkit.system.root import project_root
from press.book.files import Red
from press.commands.options import Several
from press.course import check, handing, passwords
from press.course.material import commit_material
from press.course.serve import start_hub
from press.course.settings import read
from press.homework.roster import read_roster

app = Typer(name="course")

Settings = Annotated[Path, Option(help="the course's file")]
SETTINGS = Path("course.toml")


@app.callback()
def course() -> None:
    """Serve the book to a class: JupyterHub on 127.0.0.1, a private home for everybody.

    In this order: write course.toml; `material` makes the repository that students get a copy of;
    `passwords` lets the people of a roster in; `check` says what is missing; `serve` starts the
    hub. `hand-out` and `gather` carry homework into the homes and back.
    The page "A GPU server for a class" of the book has every step.
    """


@app.command("serve")
def serve_course(settings: Settings = SETTINGS) -> None:
    """Start JupyterHub; Ctrl-C stops it and every server."""
    start_hub(read(settings), settings)


@app.command("check")
def check_machine(settings: Settings = SETTINGS) -> int:
    """List the requirements that this machine lacks; start nothing."""
    wrong = 0
    for name, problem in check.check_needs(read(settings)):
        print(f"{name:<13}{problem or 'ok'}", flush=True)
        wrong += bool(problem)
    return int(wrong > 0)


@app.command("passwords", cls=Several)
def make_passwords(
    roster: Annotated[Path, Argument(help="a CSV file with a column id")],
    again: Annotated[
        list[str] | None, Option(metavar="ID...", help="make new passwords for these students")
    ] = None,
    out: Annotated[
        Path | None, Option(help="a new file for the passwords (default: print them)")
    ] = None,
    drop: Annotated[
        bool, Option("--drop", help="disable the logins of all who are not in the roster")
    ] = False,
    settings: Settings = SETTINGS,
) -> None:
    """Make a password for everybody in a roster."""
    course = read(settings)
    names = [student.id for student in read_roster(roster)]
    try:
        # A password is seen once: where it goes must be open before one is made.
        with _private(out) if out else nullcontext(sys.stdout) as file:
            new = passwords.give_passwords(course.passwords, names, again=again or ())
            csv.writer(file, lineterminator="\n").writerows([("id", "password"), *new.items()])
        gone = sorted(set(passwords.load_hashes(course.passwords)) - set(names)) if drop else []
        passwords.remove_users(course.passwords, gone)
    except PermissionError as error:
        raise Red(f"reading the passwords needs root, but failed: {error}; use sudo") from error
    kept = len(names) - len(new)
    print(f"{len(new)} new, {kept} kept, {len(gone)} shut out", file=sys.stderr)


@app.command("material", cls=Several)
def make_material(
    into: Annotated[Path, Argument(help="the repository's folder, which every user may read")],
    chapters: Annotated[list[str] | None, Argument(help="such as 03 05 (default: all)")] = None,
    also: Annotated[list[Path] | None, Option(metavar="PATH...", help="more files")] = None,
) -> None:
    """Create or update the repository for students."""
    commit = commit_material(project_root(), into.resolve(), chapters or [], also or [])
    print(f"{into}: {commit[:12]}; users get it with their next login")


@app.command("hand-out")
def hand_out(
    folder: Annotated[Path, Argument(help="contains a folder for each student, or files for all")],
    settings: Settings = SETTINGS,
) -> None:
    """Copy homework into every home; overwrite nothing."""
    course = read(settings)
    _need_root("writing homework as each student")
    students = [
        name for name in passwords.load_hashes(course.passwords) if name not in course.admins
    ]
    new = handing.hand_out(course, folder, students)
    print(f"{sum(map(len, new.values()))} files are new in {len(new)} homes")


@app.command("gather")
def gather_file(
    file: Annotated[str, Argument(help="the file's name, such as hw1_norms_from_scratch.ipynb")],
    out: Annotated[Path, Argument(help="the folder for the copies, OUT/ID/FILE")],
    settings: Settings = SETTINGS,
) -> None:
    """Copy a file from the folder homework of every home."""
    course = read(settings)
    _need_root("reading homework as each student")
    if Path(file).name != file:
        raise ValueError(
            f"gather needs a file name without folders, as in hw1_norms.ipynb; got {file!r}"
        )
    told = handing.gather_files(course, file, out)
    for name, wrong in told.items():
        if wrong:
            print(f"{name}: {wrong}")
    print(f"{sum(not wrong for wrong in told.values())} of {len(told)} gathered in {out}")


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise Red(f"{what} needs root; use sudo")


def _private(path: Path) -> TextIO:
    """Open a new file that nobody else can read."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(
            f"--out must name a new file, but {path} exists; choose another name"
        ) from None
    return os.fdopen(number, "w", newline="", encoding="utf-8")
