"""Collect a homework out of a download: one file a student, the latest, and a report of the rest.

    OUT/HW/STUDENT.ipynb (or .py), OUT/HW.collected.json

Only bytes are copied, under names that this chooses; nothing is executed and no link is followed.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from labkit.book.files import locked, write_whole
from labkit.homework.grading.inbox import Found, Refused, look
from labkit.homework.grading.results import own_folder
from labkit.homework.grading.submission import ENDINGS
from labkit.homework.grading.whose import Class, attempt, whose

# A zip keeps times to two seconds: files that differ by less are told apart by their numbers.
SAME_SECONDS = 2.0


@dataclass(frozen=True)
class Taken:
    """A student's file, and the earlier ones of the same student that were left."""

    student: str
    label: str
    older: tuple[str, ...] = ()


@dataclass(frozen=True)
class Collected:
    """What was taken, what was not and why, who of the class handed in nothing, now or before."""

    homework: str
    taken: tuple[Taken, ...]
    refused: tuple[Refused, ...]
    missing: tuple[str, ...]
    kept: tuple[str, ...]


def collect(inbox: Path, homework: str, out: Path, students: Class | None = None) -> Collected:
    """Take the latest file of every student; students who are not in this inbox keep theirs.

    Raises a ValueError when the inbox is neither a folder nor a zip, or lies where `out` is.
    """
    students = students or Class()
    folder = out / homework
    if out.resolve() == inbox.resolve() or inbox.resolve() in out.resolve().parents:
        raise ValueError(f"--out must lie outside the inbox, got {out} in {inbox}; name another")
    found, refused = _sorted_out(look(inbox), students, homework)
    with locked(own_folder(out) / f".{homework}.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        taken = [_take(student, files, folder) for student, files in sorted(found.items())]
        there = {path.stem for path in folder.iterdir() if path.suffix in ENDINGS}
        result = Collected(
            homework, tuple(taken), tuple(refused), tuple(sorted(set(students.ids) - there)),
            tuple(sorted(there - set(found))),
        )  # fmt: skip
        told = json.dumps({"schema": 1, **asdict(result)}, indent=1, ensure_ascii=False)
        write_whole(out / f"{homework}.collected.json", told + "\n")
    return result


def _sorted_out(
    files: Iterable[Found | Refused], students: Class, homework: str
) -> tuple[dict[str, list[Found]], list[Refused]]:
    found: dict[str, list[Found]] = {}
    refused: list[Refused] = []
    for each in files:
        if isinstance(each, Refused):
            refused.append(each)
        elif student := whose(each.parts, students, homework):
            found.setdefault(student, []).append(each)
        else:
            known = "no student of the roster" if students.ids else "no student's id"
            refused.append(Refused(each.label, f"its path holds {known}"))
    for student, mine in found.items():
        # Where one file is named as the homework, the others are not meant.
        named = [each for each in mine if homework.lower() in each.parts[-1].lower()]
        if named and len(named) < len(mine):
            refused += [
                Refused(each.label, f"another file is named {homework}")
                for each in mine
                if each not in named
            ]
            found[student] = named
    return found, refused


def _take(student: str, files: list[Found], folder: Path) -> Taken:
    newest = max(each.changed for each in files)
    order = sorted(
        files,
        key=lambda each: (
            newest - each.changed < SAME_SECONDS,
            each.changed if newest - each.changed >= SAME_SECONDS else 0,
            attempt(each.parts),
            PurePosixPath(each.parts[-1]).suffix == ".ipynb",
            each.parts,
        ),
    )
    last = order[-1]
    path = folder / f"{student}{PurePosixPath(last.parts[-1]).suffix.lower()}"
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.write_bytes(last.content)
    part.chmod(0o600)  # a homework is nobody else's to read
    os.replace(part, path)
    for ending in set(ENDINGS) - {path.suffix}:
        path.with_name(student + ending).unlink(missing_ok=True)
    return Taken(student, last.label, tuple(each.label for each in order[:-1]))
