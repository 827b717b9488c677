"""`labkit homework collect, grade`: from an inbox to results; what follows is in scores."""

import argparse
from pathlib import Path

from labkit.book.files import Red
from labkit.commands import scores

COLLECT = """Take the latest notebook of every student out of a download of a learning platform.

INBOX is a folder or a zip: folders per student, files named ID_….ipynb, Canvas's and Moodle's
downloads, zips of students. The rest is listed with the reason. Links are refused."""

GRADE = """Grade what was collected, in parallel, each question in a fresh confined process.

What is graded already is kept; after a mended test only its questions are graded again, and what
changed is said. A question whose private test fails by itself is not graded: exit 1 names it.

Modes: full (root: namespaces, cgroups), restricted (as in a container), plain (any user). Where
the mode is not available nothing is graded."""


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the commands."""
    one = scores.verb(verbs, "collect", _collect, "take what students handed in", COLLECT)
    one.add_argument("inbox", type=Path, metavar="INBOX", help="a folder or a zip")
    one.add_argument("--homework", required=True, metavar="HW", help="such as hw1_norms")
    one.add_argument("--out", type=Path, required=True, metavar="DIR")
    one.add_argument("--students", type=Path, metavar="ROSTER.csv",
                     help="with it, ids and other names of students are known")  # fmt: skip
    one.add_argument("--release", type=Path, metavar="DIR", help="take the ids from a release")

    one = scores.verb(verbs, "grade", _grade, "grade what was collected", GRADE)
    one.add_argument("submissions", type=Path, nargs="+", metavar="SUBMISSIONS",
                     help="what collect wrote, or files ID.ipynb")  # fmt: skip
    _released(one)
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the results")
    one.add_argument("--mode", choices=("full", "restricted", "plain"), default="full")
    one.add_argument("--jobs", type=_count, metavar="N", help="default: one a core")
    one.add_argument("--seconds", type=float, default=5.0, metavar="S",
                     help="for one call of a student's code (default: 5)")  # fmt: skip
    one.add_argument("--only", action="append", default=[], metavar="ID", help="may be repeated")
    scores.add(verbs)


def _released(one: argparse.ArgumentParser) -> None:
    one.add_argument("--release", type=Path, required=True, metavar="DIR",
                     help="what `labkit homework release` wrote")  # fmt: skip
    one.add_argument("--homework", metavar="HW", help="where a release has several")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"--jobs is a number of at least 1, got {text!r}")
    return int(text)


def _collect(args: argparse.Namespace) -> int:
    from labkit.homework.grading import batch
    from labkit.homework.grading.collect import collect
    from labkit.homework.grading.whose import class_of, is_id
    from labkit.homework.private import load

    if not is_id(args.homework):
        raise ValueError(f"--homework is a name such as hw1_norms, got {args.homework!r}")
    ids = ()
    if args.release is not None:
        ids = load(batch.private_of(args.release, args.homework)).students
    done = collect(args.inbox, args.homework, args.out, class_of(args.students, ids))
    for each in done.taken:
        told = [f"{len(each.older)} older left"] if each.older else []
        told += ["in the place of the one collected before"] if each.replaced else []
        print(f"{each.student}: {each.label}" + (f" ({', '.join(told)})" if told else ""))
    for each in done.refused:
        print(f"not taken: {each.label}: {each.why}")
    if done.kept:
        print(f"kept from before: {', '.join(done.kept)}")
    if done.missing:
        print(f"missing: {', '.join(done.missing)}")
    print(f"{len(done.taken)} taken, {len(done.refused)} not taken, {len(done.missing)} missing; "
          f"in {args.out / args.homework}")  # fmt: skip
    if not done.taken and not done.kept:
        raise Red(f"nothing of {args.homework} was found in {args.inbox}; see above what was there")
    return 0


def _grade(args: argparse.Namespace) -> int:
    from tqdm.auto import tqdm

    from labkit.homework.grading import batch
    from labkit.homework.sandbox import available

    modes = available()
    if why := modes.get(args.mode, "there is no such mode"):
        works = ", ".join(name for name, lack in modes.items() if not lack) or "none"
        raise ValueError(f"mode {args.mode} is not available here: {why}; what is: {works}")
    how = batch.How(args.mode, args.seconds, args.jobs)
    private = batch.private_of(args.release, args.homework)
    files = batch.submissions(args.submissions, private.stem)
    total = len(set(args.only) & set(files)) if args.only else len(files)
    with tqdm(total=total, unit="submission", disable=None) as bar:
        done = batch.run(files, private, args.out, how, args.only, lambda *_: bar.update())
    for change in done.changes:
        print(change)
    if done.missing:
        print(f"nothing handed in: {', '.join(done.missing)}")
    print(f"{len(done.graded)} graded, {len(done.kept)} kept; in {done.folder}")
    if done.faults:
        scores.say_faults(done.faults)
        return 1
    return 0
