"""Grade a class: what is new or changed is graded, in parallel; what is graded already is kept."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.system.files import hold_lock
from labkit.system.pool import count_cores
from press.book.files import Red
from press.homework.grading import pool, results
from press.homework.grading.digests import Change, Grader, digest_code, find_changes
from press.homework.grading.examiner import open_examiner
from press.homework.grading.file_owner import is_id
from press.homework.grading.results import NOT_GRADED, Result
from press.homework.grading.submission import ENDINGS
from press.homework.private import Private, load_private, match_names
from press.homework.sandbox.limits import Limits

# For reading one file and starting its workers; each question has its own limit beside.
READING_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """How to grade: seconds for one call of a student's code, examiners."""

    seconds: float = 5.0
    jobs: int | None = None  # one a core

    def __post_init__(self):
        # More would pass the limits of a question, see press.homework.grading.private_test.
        if not 0 < self.seconds <= 60:
            raise ValueError(f"one call has above 0 and at most 60 seconds, got {self.seconds!r}")


@dataclass(frozen=True)
class Batch:
    """What a grading did: the results by student, which were kept, what changed for whom."""

    homework: str
    folder: Path
    graded: tuple[str, ...]
    kept: tuple[str, ...]
    changes: tuple[Change, ...]
    missing: tuple[str, ...]
    # Students whom the release does not know; they are graded with the numbers that are theirs.
    strangers: tuple[str, ...]
    results: tuple[Result, ...]


def find_private_file(release: Path, homework: str | None = None) -> Path:
    """The file of a release's private half: DIR/private/HW.json, the only one or the one named."""
    there = sorted((release / "private").glob("*.json"))
    stems = [path.stem for path in there]
    stems = stems if homework is None else match_names(homework, stems)
    found = [path for path in there if path.stem in stems]
    if len(found) != 1:
        names = ", ".join(path.stem for path in there)
        raise ValueError(
            f"{release} must be what `labkit homework release --out` wrote, with one homework"
            f"{f' {homework!r}' if homework else ''}; it has {names or 'none'}"
            f"{'; name one with --homework' if names and not homework else ''}"
        )
    return found[0]


def find_submissions(places: Sequence[Path], homework: str) -> dict[str, Path]:
    """The files to grade, by student: STUDENT.ipynb or .py in a folder, in its folder HW, or named.

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
            raise ValueError(f"{place} must be a submission or a folder of them; there is none")
        for path in paths:
            if not is_id(path.stem):
                raise ValueError(
                    f"a submission is named by its student's id, got {path.name!r}; "
                    "`labkit homework collect` names them so"
                )
            if path.stem in found:
                raise ValueError(
                    f"{path.stem} has two submissions, {found[path.stem]} and {path}; keep one, or "
                    "let `labkit homework collect` take the latest"
                )
            found[path.stem] = path
    if not found:
        raise ValueError(
            f"there is nothing to grade here: no folder {homework} that `labkit homework collect` "
            "wrote, and no .ipynb or .py named by a student's id; collect again, and name the "
            f"homework with --homework {homework}"
        )
    return dict(sorted(found.items()))


def grade_class(
    files: dict[str, Path],
    private_path: Path,
    out: Path,
    how: Options,
    only: Collection[str] = (),
    told: Callable[[str, Result], object] = lambda *_: None,
) -> Batch:
    """Grade files into out/HW/STUDENT.json; Red when no examiner can begin.

    A result whose file, numbers, tests and labkit are the same as before is not made again,
    nor is a question of which nothing changed.
    """
    private = load_private(private_path)
    if unknown := sorted(set(only) - set(files)):
        raise ValueError(f"--only names {', '.join(unknown)}, who handed in nothing")
    strangers = sorted(set(files) - set(private.students)) if private.students else []
    if len(strangers) == len(files):
        raise Red(
            f"{private_path.parents[1]} was released to {len(private.students)} students, such as "
            f"{private.students[0]}, and none of the {len(files)} who handed in is among them; "
            "name the release of this class with --release"
        )
    folder = out / private.homework
    graded: list[str] = []
    kept: list[str] = []
    moved: list[Change] = []
    found: list[Result] = []
    with hold_lock(results.make_own_folder(out) / f".{private.homework}.lock"):
        before = {student: results.load_result(folder / f"{student}.json") for student in files}
        chosen = [student for student in files if not only or student in only]
        for student, result, fresh in _grade_students(
            chosen, files, private_path, private, how, before
        ):
            (graded if fresh else kept).append(student)
            found.append(result)
            if result != before[student]:
                results.write_result(folder, result)
            moved += find_changes(before[student], result) if fresh else []
            told(student, result)
    return Batch(
        private.homework,
        folder,
        tuple(sorted(graded)),
        tuple(sorted(kept)),
        tuple(sorted(moved)),
        tuple(sorted(set(private.students) - set(files))),
        tuple(strangers),
        tuple(sorted(found, key=lambda each: each["student"])),
    )


def _grade_students(
    chosen: list[str],
    files: dict[str, Path],
    private_path: Path,
    private: Private,
    how: Options,
    before: dict[str, Result | None],
) -> Iterator[tuple[str, Result, bool]]:
    """Each student's result, and whether it was made now."""
    grader = Grader(private, digest_code(private, Limits(seconds=float(how.seconds))))
    tasks: list[dict[str, Any]] = []
    for student in chosen:
        old = before[student]
        same = old and old["digest"] == grader.digest_submission(files[student], student)
        if old and same and not results.list_not_graded(old):
            yield student, {**old, "handed_in": results.read_change_time(files[student])}, False
        else:
            tasks.append({"student": student, "path": str(files[student]), "before": old})
    if not tasks:
        return
    settings = {
        "private": str(private_path),
        "code": grader.code,
        "seconds": how.seconds,
    }
    try:
        for task, result, why in pool.run_examiners(
            tasks, open_examiner, settings, how.jobs or count_cores(), limit_seconds(private)
        ):
            student = task["student"]
            lost = make_lost_result(private, student, files[student], why)
            yield student, result or lost, True
    except pool.Lost as error:
        raise Red(f"nothing can be graded: {error}; what is graded is kept") from error


def make_lost_result(private: Private, student: str, path: Path, why: str) -> Result:
    """The result of a submission that could not be graded at all; it is tried again next time."""
    questions = [results.make_question(each, [], NOT_GRADED, why) for each in private.questions]
    return results.make_result(private, student, path, questions)


def limit_seconds(private: Private) -> float:
    """After how long an examiner hangs: each question has a limit of its own, well below this."""
    return READING_SECONDS + 400.0 * len(private.questions)
