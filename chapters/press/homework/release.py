"""Release a homework: students' notebooks, the key and the private tests, from one source.

    DIR/student/[ID/]NAME.ipynb, AI_ASSISTANTS.md   for students
    DIR/key/NAME.ipynb, NAME.rubric.md              for instructors; for students after the deadline
    DIR/private/NAME.json, files.json               for the grader alone

The folder is written whole or not at all: the files are made beside it, searched for solutions and
hidden tests, and then take its place. The same source, roster and seed give the same bytes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from press.book.files import Red
from press.homework import documents, leaks, notebook, private, source, variants
from press.homework.private import Private
from press.homework.rehearsal import rehearse
from press.homework.source import Homework

MANIFEST = "private/files.json"
REHEARSED = 5  # variants


@dataclass(frozen=True)
class Released:
    """What was written: the homework, its private half, how many notebooks, and warnings."""

    private: Private
    folder: Path
    notebooks: int
    different: int  # notebooks that differ in their numbers
    warnings: tuple[str, ...]
    replaced: str = ""  # what was there before


def release(path: Path, out: Path, students: Sequence[str] = (), seed: int = 0) -> Released:
    """Write a homework's release folder; `students` are ids, each with numbers of their own.

    ValueError where the source, the ids or the folder are not as they must be; Red where running
    the homework shows a fault, or where a solution would reach a student.
    """
    homework, out = source.read(path), out.resolve()
    _recover(out)
    before = _check_free(out, homework)
    drawing = _drawing(homework, students, seed)
    values = {student: variants.given(drawing, student) for student in students or ("",)}
    told = rehearse(
        homework, drawing, [variants.given(drawing), *list(values.values())[:REHEARSED]]
    )
    if told.faults:
        raise Red("\n".join(f"{path.name}, {fault}" for fault in told.faults))
    ready = Private(**{**vars(drawing), "rubric": told.parts}).sealed()
    files = _files(homework, ready, values)
    try:
        _put(out, files, homework)
    except OSError as error:
        raise Red(f"{out} must be a folder that can be written; {error}; name another") from error
    different = len({json.dumps(each, sort_keys=True) for each in values.values()})
    replaced = _compare(before, files) if before else ""
    return Released(ready, out, len(values), different, told.warnings, replaced)


def _drawing(homework: Homework, students: Sequence[str], seed: int) -> Private:
    """Return the private half without its rubric, which a rehearsal shows."""
    drawn: dict[str, str] = {}
    for cell in homework.cells:
        if cell.role == "variant":
            drawn |= variants.sources(cell.source, cell.line)
    return Private(
        homework=homework.name,
        title=homework.title,
        packages=homework.packages,
        questions=tuple(
            private.Question(each.id, each.points, each.hidden, each.wanted)
            for each in homework.questions
        ),
        probes=homework.probes,
        variants=drawn,
        rubric=(),
        seed=seed,
        students=tuple(students),
    )


def _files(
    homework: Homework, ready: Private, values: Mapping[str, Mapping[str, Any]]
) -> dict[str, bytes]:
    """Make every file of a release, by its path in the folder."""
    texts: dict[str, str] = {}
    for student, numbers in values.items():
        folder = f"student/{student}/" if student else "student/"
        texts[f"{folder}{homework.name}.ipynb"] = notebook.for_student(homework, numbers, student)
        texts[f"{folder}AI_ASSISTANTS.md"] = documents.note(homework)
    texts[f"key/{homework.name}.ipynb"] = notebook.for_key(homework, variants.given(ready))
    texts[f"key/{homework.name}.rubric.md"] = documents.rubric(homework, ready.rubric)
    texts[f"private/{homework.name}.json"] = ready.to_json()
    files = {name: text.encode() for name, text in texts.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(files.items())}
    files[MANIFEST] = (json.dumps(sums, indent=1) + "\n").encode()
    return files


def _compare(before: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    """Say what became of the files of an earlier release."""
    after = json.loads(files[MANIFEST])
    both = before.keys() & after.keys()
    same = sum(before[name] == after[name] for name in both)
    gone, new = len(before) - len(both), len(after) - len(both)
    return (
        f"{same} of its files are the same, {len(both) - same} differ, {gone} are gone, {new} new"
    )


def _check_free(out: Path, homework: Homework) -> dict[str, str]:
    """Return the sums of an earlier release of this homework, untouched; refuse anything else."""
    if not out.exists():
        return {}
    rule = f"--out names a new folder, or an earlier release of {homework.name} to replace"
    if not out.is_dir():
        raise ValueError(f"{rule}; {out} is a file")
    found = {
        str(path.relative_to(out)) for path in out.rglob("*") if path.is_symlink() or path.is_file()
    }
    if not found and not any(out.iterdir()):
        return {}
    try:
        sums = json.loads((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        sums = {}
    if not isinstance(sums, dict) or f"private/{homework.name}.json" not in sums:
        raise ValueError(f"{rule}; {out} holds something else: name another folder")
    changed = sorted(
        name
        for name in found - {MANIFEST}
        if hashlib.sha256((out / name).read_bytes()).hexdigest() != sums.get(name)
    )
    if changed:
        raise ValueError(
            f"{rule}; {out} holds {changed[0]}, which is not as a release wrote it: move it away"
        )
    return sums


def _beside(out: Path) -> tuple[Path, Path]:
    """Name the folders that are there for a moment; the next release knows what a kill left."""
    return out.with_name(f".{out.name}.part"), out.with_name(f".{out.name}.old")


def _recover(out: Path) -> None:
    """Bring back the earlier release, where a kill fell between its leaving and the new one."""
    _, old = _beside(out)
    if old.is_dir() and not out.exists():
        old.rename(out)


def _put(out: Path, files: Mapping[str, bytes], homework: Homework) -> None:
    """Write the files beside their folder, search them, and let them take its place."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part, old = _beside(out)
    for leftover in (part, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        for name, content in files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for secret in ("key", "private"):
            os.chmod(part / secret, 0o700)
        _search(part, homework)
        if out.exists():
            out.rename(old)
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _search(folder: Path, homework: Homework) -> None:
    """Refuse when a student would read a line of a solution or a hidden test."""
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted((folder / "student").rglob("*"))
        if path.is_file()
    }
    found = leaks.find(leaks.secrets(homework.cells), files, homework.cells)
    if found:
        raise Red(
            "\n".join(f"{homework.path.name}, {leak}" for leak in found)
            + "\nstudents must see no line of a solution or a hidden test, so nothing was written; "
            "reword the line, or the place that shows it"
        )
