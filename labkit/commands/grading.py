"""`labkit homework collect, grade, feedback, gradebook, …`: from an inbox to scores."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.book.files import Red, write_whole

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
    one = _verb(verbs, "collect", _collect, "take what students handed in", COLLECT)
    one.add_argument("inbox", type=Path, metavar="INBOX", help="a folder or a zip")
    one.add_argument("--homework", required=True, metavar="HW", help="such as hw1_norms")
    one.add_argument("--out", type=Path, required=True, metavar="DIR")
    one.add_argument("--students", type=Path, metavar="ROSTER.csv",
                     help="with it, ids and other names of students are known")  # fmt: skip
    one.add_argument("--release", type=Path, metavar="DIR", help="take the ids from a release")

    one = _verb(verbs, "grade", _grade, "grade what was collected", GRADE)
    one.add_argument("submissions", type=Path, nargs="+", metavar="SUBMISSIONS",
                     help="what collect wrote, or files ID.ipynb")  # fmt: skip
    _released(one)
    one.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the results")
    one.add_argument("--mode", choices=("full", "restricted", "plain"), default="full")
    one.add_argument("--jobs", type=_count, metavar="N", help="default: one a core")
    one.add_argument("--seconds", type=float, default=5.0, metavar="S",
                     help="for one call of a student's code (default: 5)")  # fmt: skip
    one.add_argument("--only", action="append", default=[], metavar="ID", help="may be repeated")

    one = _verb(verbs, "feedback", _feedback, "write Markdown and HTML for every student")
    _results(one)
    one.add_argument("--out", type=Path, required=True, metavar="DIR")

    one = _verb(verbs, "gradebook", _gradebook, "write the scores as CSV")
    _results(one)
    one.add_argument("--out", type=Path, metavar="FILE.csv", help="default: print it")
    one.add_argument("--columns", choices=("plain", "canvas", "moodle"), default="plain")
    one.add_argument("--students", type=Path, metavar="ROSTER.csv",
                     help="names and numbers for the columns; who handed in nothing")  # fmt: skip

    one = _verb(verbs, "gradescope", _gradescope, "write a self-contained autograder zip")
    one.add_argument("release", type=Path, metavar="RELEASE")
    one.add_argument("--homework", metavar="HW", help="where a release has several")
    one.add_argument("--out", type=Path, required=True, metavar="FILE.zip")
    one.add_argument("--visibility", default="visible", metavar="WHEN",
                     help="visible (default), after_due_date, after_published, hidden")  # fmt: skip

    one = _verb(verbs, "nbgrader", _nbgrader, "write the scores into nbgrader's gradebook.db")
    _results(one)
    one.add_argument("--db", type=Path, default=Path("gradebook.db"), metavar="FILE.db")
    one.add_argument("--assignment", metavar="NAME", help="default: the homework's name")


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
    about: str = "",
) -> argparse.ArgumentParser:
    one = verbs.add_parser(
        name, help=help, description=about or help.capitalize() + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    one.set_defaults(run=run)
    return one


def _released(one: argparse.ArgumentParser) -> None:
    one.add_argument("--release", type=Path, required=True, metavar="DIR",
                     help="what `labkit homework release` wrote")  # fmt: skip
    one.add_argument("--homework", metavar="HW", help="where a release has several")


def _results(one: argparse.ArgumentParser) -> None:
    one.add_argument("results", type=Path, metavar="RESULTS", help="what grade wrote")
    one.add_argument("--homework", metavar="HW", help="where there are several")


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
        older = f" ({len(each.older)} older left)" if each.older else ""
        print(f"{each.student}: {each.label}{older}")
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
        _say_faults(done.faults)
        return 1
    return 0


def _say_faults(faults: dict[str, dict[str, str]]) -> None:
    """Name what could not be graded, once for each reason, and whom it concerns."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for student, bad in faults.items():
        for question, reason in bad.items():
            by_reason.setdefault((question, reason), []).append(student)
    for (question, reason), students in sorted(by_reason.items()):
        print(f"labkit: {question} is not graded for {', '.join(students)}: {reason}",
              file=sys.stderr)  # fmt: skip
    print("labkit: nobody loses points by it; mend it and grade again", file=sys.stderr)


def _feedback(args: argparse.Namespace) -> int:
    from labkit.homework.grading import feedback, results

    found = results.load_all(results.folder_of(args.results, args.homework))
    folder = args.out / found[0]["homework"]
    for result in found:
        feedback.write(folder, result)
    print(f"{len(found)} students, Markdown and HTML; in {folder}")
    return 0


def _gradebook(args: argparse.Namespace) -> int:
    from labkit.homework import roster
    from labkit.homework.grading import gradebook, results

    found = results.load_all(results.folder_of(args.results, args.homework))
    students = roster.read(args.students) if args.students is not None else ()
    told = gradebook.table(found, args.columns, {each.id: each.others for each in students})
    if args.out is None:
        print(told, end="")
    else:
        write_whole(args.out, told)
        print(f"{told.count(chr(10)) - 1} rows; in {args.out}")
    return _open_questions(found)


def _open_questions(found: list) -> int:
    from labkit.homework.grading import results

    faults = {
        each["student"]: {q["id"]: q["reason"] for q in each["questions"] if q["reason"]}
        for each in found
        if results.not_graded(each)
    }
    if faults:
        _say_faults(faults)
    return 1 if faults else 0


def _gradescope(args: argparse.Namespace) -> int:
    from labkit.homework.grading import batch, gradescope

    path = gradescope.build(
        batch.private_of(args.release, args.homework), args.out, args.visibility
    )
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB; upload it as the autograder")
    return 0


def _nbgrader(args: argparse.Namespace) -> int:
    from labkit.homework.grading import results
    from labkit.homework.grading.to_nbgrader import write_back

    found = results.load_all(results.folder_of(args.results, args.homework))
    written = write_back(found, args.db, args.assignment)
    print(f"{written} scores of {len(found)} students; in {args.db}")
    return _open_questions(found)
