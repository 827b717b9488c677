"""`labkit homework collect, grade`: from an inbox to results; what follows is in scores."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from press import control_groups
from press.book.files import Red
from press.commands import scores
from press.commands.options import Homework, sources
from press.homework.grading.collect import collect_inbox
from press.homework.grading.file_owner import is_id, read_class
from press.homework.private import find_private_file, load_private, match_names

app = Typer()


@app.command("collect")
def collect_submissions(
    inbox: Annotated[Path, Argument(help="a folder or zip file of submissions")],
    homework: Annotated[str, Option(metavar="HW", help="the homework's name, or hw1")],
    out: Annotated[Path, Option(help="the folder for collected files")],
    students: Annotated[
        Path | None, Option(help="a roster: ids, and other names of students")
    ] = None,
    release: Annotated[Path | None, Option(help="take the ids from a release")] = None,
) -> int:
    """Take the latest notebook of every student.

    INBOX is a folder or a zip: folders per student, files named ID_….ipynb, downloads of Canvas
    and Moodle, zips of students. Other files are listed with the reason. Links are refused. The
    exit code is 1 if a student is missing, a file was not taken, or a file that was taken cannot be
    graded.
    """
    if not is_id(homework):
        raise ValueError(f"--homework must be a name such as hw1_norms, got {homework!r}")
    ids = ()
    if release is not None:
        private = load_private(find_private_file(release, homework))
        homework, ids = private.homework, private.students
    else:
        with suppress(ValueError):  # a homework that is not this book's is called what it is called
            (homework,) = match_names(homework, sources())
    done = collect_inbox(inbox, homework, out, read_class(students, ids))
    for each in done.taken:
        told = [f"{len(each.older)} older left"] if each.older else []
        told += ["in the place of the one collected before"] if each.replaced else []
        told += [each.problem] if each.problem else []
        print(f"{each.student}: {each.label}" + (f" ({', '.join(told)})" if told else ""))
    for each in done.refused:
        print(f"not taken: {each.label}: {each.why}")
    if done.kept:
        print(f"kept from before: {', '.join(done.kept)}")
    if done.missing:
        print(f"missing: {', '.join(done.missing)}")
    print(
        f"{len(done.taken)} taken, {len(done.refused)} not taken, {len(done.missing)} missing; "
        f"in {out / homework}"
    )
    if not done.taken and not done.kept:
        raise Red(
            f"{inbox} must contain submissions of {homework}, but none was found; the files found "
            "there are listed above"
        )
    odd = any(each.problem for each in done.taken)
    return 1 if done.missing or done.refused or odd else 0


@app.command("grade")
def grade_submissions(
    submissions: Annotated[
        list[Path], Argument(help="the folder that collect wrote, or files ID.ipynb")
    ],
    release: Annotated[Path, Option(help="the folder that `labkit homework release` wrote")],
    out: Annotated[Path, Option(help="the folder for the results")],
    homework: Homework = None,
    jobs: Annotated[int | None, Option(min=1, help="processes (default: one per core)")] = None,
    # More would pass the limit of a question, see press.homework.sandbox.limits.
    seconds: Annotated[
        float, Option(min=0.1, max=60, help="limit for one call of a student's code")
    ] = 5.0,
    only: Annotated[
        list[str] | None, Option(metavar="ID", help="grade only this student; may be repeated")
    ] = None,
) -> int:
    """Grade the collected files, each question in a sandbox.

    Questions are graded in parallel, each in a new process. Existing results are kept. After a test
    has changed, only its questions are graded again, and the changes are listed. A question whose
    private test raises an error is named and not graded; the exit code is 1.

    If the sandbox cannot start, nothing is graded.
    """
    from tqdm.auto import tqdm

    from press.homework.sandbox.needs import require_walls

    require_walls()
    from press.homework.grading import batch  # what it needs is in the same extra as the walls

    private = find_private_file(release, homework)
    files = batch.find_submissions(submissions, private.stem)
    total = len(set(only) & set(files)) if only else len(files)
    with tqdm(total=total, unit="submission", disable=None) as bar:
        done = batch.grade_class(
            files, private, out, only or (), lambda *_: bar.update(), seconds=seconds, jobs=jobs
        )
    for change in done.changes:
        print(change)
    if done.missing:
        print(f"nothing handed in: {', '.join(done.missing)}")
    scores.say_scores(done.results)
    cap = "its address space alone" if control_groups.find_problem() else "a control group"
    print(
        f"{len(done.graded)} graded, {len(done.kept)} kept; in {done.folder}; "
        f"the memory of a worker capped by {cap}"
    )
    if done.strangers:
        print(
            f"labkit: not on the roster of {release}: {', '.join(done.strangers)}; they were "
            "graded with the numbers that such an id draws; is it this class's release?",
            file=sys.stderr,
        )
    return 1 if scores.say_faults(done.results) or done.strangers else 0
