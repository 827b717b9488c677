"""Grade a class: grade new or changed submissions in parallel; keep existing results."""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit.system.files import hold_lock
from labkit.system.pool import count_cores
from press.book.files import Red
from press.homework.grading import pool, results
from press.homework.grading.digests import Grader, digest_code, find_changes
from press.homework.grading.examiner import open_examiner
from press.homework.grading.file_owner import is_id
from press.homework.grading.results import NOT_GRADED, Result
from press.homework.grading.submission import ENDINGS
from press.homework.private import Private, load_private
from press.homework.sandbox.limits import Limits
from press.homework.sandbox.sandbox import sweep_leftovers

# For reading one file and starting its workers; each question has its own limit beside.
READING_SECONDS = 120.0


@dataclass(frozen=True)
class Batch:
    """The outcome of grading: results by student, which were kept, what changed for whom."""

    folder: Path
    graded: tuple[str, ...]
    kept: tuple[str, ...]
    changes: tuple[str, ...]
    missing: tuple[str, ...]
    # Students whom the release does not know; they are graded with the numbers that are theirs.
    strangers: tuple[str, ...]
    results: tuple[Result, ...]


def find_submissions(places: Sequence[Path], homework: str) -> dict[str, Path]:
    """List the files to grade by student: STUDENT.ipynb or .py in a folder, in HW, or named.

    The folder HW may have the homework's short name, hw1 of hw1_norms.

    Raises a ValueError for a place that is not there, a name that is no id, a student with two.
    """
    found: dict[str, Path] = {}
    for place in places:
        if place.is_dir():
            inner = [place / each for each in (homework, homework.partition("_")[0])]
            folder = next((each for each in inner if each.is_dir()), place)
            paths = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
        elif place.exists():
            paths = [place]
        else:
            raise ValueError(
                f"{place} must be a submission or a folder of submissions, but does not exist"
            )
        for path in paths:
            if not is_id(path.stem):
                raise ValueError(
                    f"a submission must be named after its student's id, got {path.name!r}; "
                    "`labkit homework collect` does this"
                )
            if path.stem in found:
                raise ValueError(
                    f"a student may have only one submission, but {path.stem} has two, "
                    f"{found[path.stem]} and {path}; keep one, or let `labkit homework collect` "
                    "choose the latest"
                )
            found[path.stem] = path
    if not found:
        raise ValueError(
            f"grading needs a folder {homework} that `labkit homework collect` wrote, or .ipynb "
            "or .py files named by a student's id, but found neither; collect again, and name "
            f"the homework with --homework {homework}"
        )
    return dict(sorted(found.items()))


def grade_class(
    files: dict[str, Path],
    private_path: Path,
    out: Path,
    only: Collection[str] = (),
    told: Callable[[str, Result], object] = lambda *_: None,
    *,
    seconds: float = 5.0,
    jobs: int | None = None,
) -> Batch:
    """Grade files into out/HW/STUDENT.json; raise Red if no examiner can start.

    A result whose file, numbers, tests and labkit are the same as before is not made again,
    nor is a question of which nothing changed. `seconds` limits one call of a student's code;
    `jobs` is the number of examiners (default: one per core).
    """
    private = load_private(private_path)
    if unknown := sorted(set(only) - set(files)):
        raise ValueError(
            f"--only may name only students who handed in, but {', '.join(unknown)} handed in "
            "nothing"
        )
    strangers = sorted(set(files) - set(private.students)) if private.students else []
    if len(strangers) == len(files):
        raise Red(
            f"the release must be that of this class, but {private_path.parents[1]} was released "
            f"to {len(private.students)} students, such as {private.students[0]}, and none of the "
            f"{len(files)} who handed in is among them; name the right one with --release"
        )
    folder = out / private.homework
    grader = Grader(private, digest_code(Limits(seconds=float(seconds))))
    with hold_lock(results.make_own_folder(out) / f".{private.homework}.lock"):
        before = {student: results.load_result(folder / f"{student}.json") for student in files}
        chosen = [student for student in files if not only or student in only]
        kept = {
            student: {**old, "handed_in": results.read_change_time(files[student])}
            for student in chosen
            if (old := before[student]) and _is_up_to_date(old, files[student], grader)
        }
        waiting = {student: files[student] for student in chosen if student not in kept}
        found: list[Result] = []
        fresh = _grade_students(waiting, private_path, grader, before, seconds, jobs)
        for student, result in itertools.chain(kept.items(), fresh):
            if result != before[student]:
                results.write_result(folder, result)
            found.append(result)
            told(student, result)
    found.sort(key=lambda each: each["student"])
    return Batch(
        folder,
        graded=tuple(sorted(waiting)),
        kept=tuple(sorted(kept)),
        changes=tuple(
            said for each in found for said in find_changes(before[each["student"]], each)
        ),
        missing=tuple(sorted(set(private.students) - set(files))),
        strangers=tuple(strangers),
        results=tuple(found),
    )


def _is_up_to_date(old: Result, path: Path, grader: Grader) -> bool:
    same = old["digest"] == grader.digest_submission(path, old["student"])
    return same and not any(each["failure"] == NOT_GRADED for each in old["questions"])


def _grade_students(
    files: dict[str, Path],
    private_path: Path,
    grader: Grader,
    before: dict[str, Result | None],
    seconds: float,
    jobs: int | None,
) -> Iterator[tuple[str, Result]]:
    """Yield each student's result as it comes."""
    if not files:
        return
    private = grader.private
    tasks = [
        {"student": student, "path": str(path), "before": before[student]}
        for student, path in files.items()
    ]
    settings = {"private": str(private_path), "code": grader.code, "seconds": seconds}
    # Each question has a limit of its own, well below this.
    longest = READING_SECONDS + 400.0 * len(private.questions)
    jobs = jobs or count_cores()
    try:
        for task, result, why in pool.run_examiners(tasks, open_examiner, settings, jobs, longest):
            student = task["student"]
            yield student, result or make_lost_result(private, student, files[student], why)
    except pool.Lost as error:
        raise Red(
            f"grading must be able to start, but cannot: {error}; existing results are kept"
        ) from error
    finally:
        sweep_leftovers()


def make_lost_result(private: Private, student: str, path: Path, why: str) -> Result:
    """Return the result of a submission that could not be graded; it is tried again next time."""
    questions = [results.make_question(each, [], NOT_GRADED, why) for each in private.questions]
    return results.make_result(private, student, path, questions)
