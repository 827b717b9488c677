"""`labkit homework feedback, gradebook, gradescope, nbgrader`: results for people and platforms."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.book.files import write_whole


def add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the commands."""
    one = verb(verbs, "feedback", _feedback, "write Markdown and HTML for every student")
    _results(one)
    one.add_argument("--out", type=Path, required=True, metavar="DIR")

    one = verb(verbs, "gradebook", _gradebook, "write the scores as CSV")
    _results(one)
    one.add_argument("--out", type=Path, metavar="FILE.csv", help="default: print it")
    one.add_argument("--columns", choices=("plain", "canvas", "moodle"), default="plain")
    one.add_argument("--students", type=Path, metavar="ROSTER.csv",
                     help="names and numbers for the columns; who handed in nothing")  # fmt: skip

    one = verb(verbs, "gradescope", _gradescope, "write a self-contained autograder zip")
    one.add_argument("release", type=Path, metavar="RELEASE")
    one.add_argument("--homework", metavar="HW", help="where a release has several")
    one.add_argument("--out", type=Path, required=True, metavar="FILE.zip")
    one.add_argument("--visibility", default="visible", metavar="WHEN",
                     help="visible (default), after_due_date, after_published, hidden")  # fmt: skip

    one = verb(verbs, "nbgrader", _nbgrader, "write the scores into nbgrader's gradebook.db")
    _results(one)
    one.add_argument("--db", type=Path, default=Path("gradebook.db"), metavar="FILE.db")
    one.add_argument("--assignment", metavar="NAME", help="default: the homework's name")


def verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
    about: str = "",
) -> argparse.ArgumentParser:
    """Add a command that is described in the words of its help, unless there are more."""
    one = verbs.add_parser(
        name, help=help, description=about or help.capitalize() + ".",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    one.set_defaults(run=run)
    return one


def _results(one: argparse.ArgumentParser) -> None:
    one.add_argument("results", type=Path, metavar="RESULTS", help="what grade wrote")
    one.add_argument("--homework", metavar="HW", help="where there are several")


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


def _feedback(args: argparse.Namespace) -> int:
    from labkit.homework.grading import feedback, results

    found = results.load_all(results.folder_of(args.results, args.homework))
    folder = results.own_folder(args.out) / found[0]["homework"]
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
        args.out.chmod(0o600)  # marks are nobody else's
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
        say_faults(faults)
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
