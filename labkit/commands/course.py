"""`labkit course`: serve the book to a class, and carry homework to it and back."""

import argparse
import csv
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TextIO

from labkit.book.files import Red
from labkit.commands.sizing import add_sizing

ABOUT = """Serve the book to a class: JupyterHub on 127.0.0.1, a private home for everybody.

In this order: write course.toml; `material` makes the repository that students get a copy of;
`passwords` lets the people of a roster in; `check` says what is missing; `serve` starts the hub.
`hand-out` and `gather` carry homework into the homes and back.
The page "A GPU server for a class" of the book has every step."""


def add(commands) -> None:
    """Describe the commands."""
    course = commands.add_parser(
        "course",
        help="serve the book to a class on one machine",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = course.add_subparsers(title="verbs", required=True, metavar="VERB")

    serve = verbs.add_parser("serve", help="start JupyterHub; Ctrl-C ends it and every server")
    serve.set_defaults(run=_serve)
    check = verbs.add_parser("check", help="say what this machine lacks; start nothing")
    check.set_defaults(run=_check)

    fetch = verbs.add_parser("proxy", help="install configurable-http-proxy beside this Python")
    fetch.set_defaults(run=_proxy)

    words = verbs.add_parser("passwords", help="make a password for everybody in a roster")
    words.add_argument("roster", type=Path, help="a CSV file with a column id")
    words.add_argument("--again", nargs="+", default=[], metavar="ID", help="make theirs anew")
    words.add_argument("--out", type=Path, help="write the passwords there (default: print them)")
    words.add_argument("--drop", action="store_true", help="shut out who is not in the roster")
    words.set_defaults(run=_passwords)

    material = verbs.add_parser("material", help="make, or renew, the repository for students")
    material.add_argument("into", type=Path, help="where; a folder that every user may read")
    material.add_argument("chapters", nargs="*", metavar="CHAPTER", help="03, 05 … (default: all)")
    material.add_argument("--also", type=Path, nargs="+", default=[], help="more files, folders")
    material.set_defaults(run=_material)

    out = verbs.add_parser("hand-out", help="copy homework into every home; writes over nothing")
    out.add_argument("folder", type=Path, help="with a folder for each student, or files for all")
    out.set_defaults(run=_hand_out)
    gather = verbs.add_parser("gather", help="copy a file out of every home's folder homework")
    gather.add_argument("file", help="its name, such as hw1_norms_from_scratch.ipynb")
    gather.add_argument("out", type=Path, help="where; OUT/ID/FILE")
    gather.set_defaults(run=_gather)

    add_sizing(verbs)
    for verb in (serve, check, words, out, gather):
        verb.add_argument(
            "--settings",
            type=Path,
            default=Path("course.toml"),
            metavar="FILE",
            help="default: course.toml",
        )


def _serve(args: argparse.Namespace) -> int:
    from labkit.course.serve import serve
    from labkit.course.settings import read

    serve(read(args.settings), args.settings)
    return 0


def _check(args: argparse.Namespace) -> int:
    from labkit.course import check
    from labkit.course.settings import read

    wrong = 0
    for name, problem in check.look(read(args.settings)):
        print(f"{name:<13}{problem or 'ok'}", flush=True)
        wrong += bool(problem)
    return int(wrong > 0)


def _proxy(args: argparse.Namespace) -> int:
    from labkit.course import proxy

    proxy.install()
    print(" ".join(proxy.find()))
    return 0


def _passwords(args: argparse.Namespace) -> int:
    from labkit.course import passwords
    from labkit.course.settings import read

    course = read(args.settings)
    names = passwords.roster(args.roster)
    try:
        # A password is seen once: where it goes must be open before one is made.
        with _private(args.out) if args.out else nullcontext(sys.stdout) as out:
            new = passwords.give(course.passwords, names, again=args.again)
            csv.writer(out, lineterminator="\n").writerows([("id", "password"), *new.items()])
        gone = sorted(set(passwords.load(course.passwords)) - set(names)) if args.drop else []
        passwords.remove(course.passwords, gone)
    except PermissionError as error:
        raise Red(f"the passwords are root's: {error}; use sudo") from error
    kept = len(names) - len(new)
    print(f"{len(new)} new, {kept} kept, {len(gone)} shut out", file=sys.stderr)
    return 0


def _hand_out(args: argparse.Namespace) -> int:
    from labkit.course import handing, passwords
    from labkit.course.settings import read

    course = read(args.settings)
    _need_root("homework is written as each student")
    students = [name for name in passwords.load(course.passwords) if name not in course.admins]
    new = handing.hand_out(course, args.folder, students)
    print(f"{sum(map(len, new.values()))} files are new in {len(new)} homes")
    return 0


def _gather(args: argparse.Namespace) -> int:
    from labkit.course import handing
    from labkit.course.settings import read

    course = read(args.settings)
    _need_root("homework is read as each student")
    if Path(args.file).name != args.file:
        raise ValueError(f"gather takes a file's name without folders, got {args.file!r}")
    told = handing.gather(course, args.file, args.out)
    for name, wrong in told.items():
        if wrong:
            print(f"{name}: {wrong}")
    print(f"{sum(not wrong for wrong in told.values())} of {len(told)} gathered in {args.out}")
    return 0


def _need_root(what: str) -> None:
    if os.geteuid() != 0:
        raise Red(f"{what}, which only root can do; use sudo")


def _private(path: Path) -> TextIO:
    """Open a new file that nobody else can read."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ValueError(f"--out writes a new file, and {path} is there; name another") from None
    return os.fdopen(number, "w", newline="", encoding="utf-8")


def _material(args: argparse.Namespace) -> int:
    from labkit.course.material import make
    from labkit.experiments.lab import project_root  # needs torch

    commit = make(project_root(), args.into.resolve(), args.chapters, args.also)
    print(f"{args.into}: {commit[:12]}; users get it with their next login")
    return 0
