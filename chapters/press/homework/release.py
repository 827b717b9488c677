"""Release a homework: students' notebooks, the key and the private tests, from one source.

    DIR/student/[ID/]NAME.ipynb, AI_ASSISTANTS.md   for students
    DIR/key/NAME.ipynb, NAME.rubric.md              for instructors; for students after the deadline
    DIR/private/NAME.json                           for the grader alone

The files are searched for solutions and hidden tests before any is written, and the folder is
written whole or not at all. The same source, roster and seed give the same bytes.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from press.book.files import Red
from press.homework import documents, leaks, private, source, variants
from press.homework.notebook import write_notebook
from press.homework.private import Private
from press.homework.regions import keep_solutions
from press.homework.rehearsal import rehearse_homework
from press.homework.source import Homework

REHEARSED = 5  # variants


@dataclass(frozen=True)
class Released:
    """What was written: the homework, its private half, the number of notebooks, and warnings."""

    private: Private
    folder: Path
    notebooks: int
    different: int  # notebooks that differ in their numbers
    warnings: tuple[str, ...]


def write_release(path: Path, out: Path, students: Sequence[str] = (), seed: int = 0) -> Released:
    """Write a homework's release folder; `students` are ids, each with different numbers.

    ValueError where the source, the ids or the folder are not as they must be; Red where running
    the homework shows a fault, or where a solution would reach a student.
    """
    homework, out = source.read_homework(path), out.resolve()
    _check_free(out)
    drawing = draft_private(homework, students, seed)
    values = {student: variants.draw_variants(drawing, student) for student in students or ("",)}
    told = rehearse_homework(
        homework, drawing, [variants.draw_variants(drawing), *list(values.values())[:REHEARSED]]
    )
    if told.faults:
        raise Red("\n".join(f"{path.name}, {fault}" for fault in told.faults))
    ready = Private(**{**vars(drawing), "rubric": told.parts}).seal()
    files = _make_files(homework, ready, values)
    _search_leaks(files, homework)
    try:
        _write_files(out, files)
    except OSError as error:
        raise Red(
            f"{out} must be a writable folder, but is not ({error}); choose another"
        ) from error
    different = len({json.dumps(each, sort_keys=True) for each in values.values()})
    return Released(ready, out, len(values), different, told.warnings)


def draft_private(homework: Homework, students: Sequence[str] = (), seed: int = 0) -> Private:
    """Return the private half without its rubric, which a rehearsal determines."""
    return Private(
        homework=homework.name,
        title=homework.title,
        packages=homework.packages,
        questions=tuple(
            private.Question(each.id, each.points, each.hidden, each.wanted)
            for each in homework.questions
        ),
        probes=homework.probes,
        variants=homework.variants,
        rubric=(),
        seed=seed,
        students=tuple(students),
    )


def _make_files(
    homework: Homework, ready: Private, values: Mapping[str, Mapping[str, Any]]
) -> dict[str, bytes]:
    """Make every file of a release, by its path in the release folder."""
    texts: dict[str, str] = {}
    for student, numbers in values.items():
        folder = f"student/{student}/" if student else "student/"
        texts[f"{folder}{homework.name}.ipynb"] = write_notebook(homework, numbers, student)
        texts[f"{folder}AI_ASSISTANTS.md"] = documents.write_note(homework)
    texts[f"key/{homework.name}.ipynb"] = write_notebook(
        homework, variants.draw_variants(ready), part=keep_solutions
    )
    texts[f"key/{homework.name}.rubric.md"] = documents.write_rubric(homework, ready.rubric)
    texts[f"private/{homework.name}.json"] = ready.to_json()
    return {name: text.encode() for name, text in texts.items()}


def _check_free(out: Path) -> None:
    """Refuse a folder that is not empty: students may be working on an earlier release."""
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        kind = "is a file" if out.is_file() else "is not empty"
        raise ValueError(f"--out must name a new folder, but {out} {kind}; choose another")


def _write_files(out: Path, files: Mapping[str, bytes]) -> None:
    """Write the files to a temporary folder, then rename it to the release folder."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # what a kill left
    try:
        for name, content in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for secret in ("key", "private"):
            os.chmod(part / secret, 0o700)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _search_leaks(files: Mapping[str, bytes], homework: Homework) -> None:
    """Refuse a release if a student could read a line of a solution or a hidden test."""
    given_out = {name: files[name] for name in sorted(files) if name.startswith("student/")}
    found = leaks.find_leaks(leaks.list_secrets(homework.cells), given_out, homework.cells)
    if found:
        raise Red(
            "\n".join(f"{homework.path.name}, {leak}" for leak in found)
            + "\nstudents must see no line of a solution or a hidden test, so nothing was written; "
            "reword the line, or the place that shows it"
        )
