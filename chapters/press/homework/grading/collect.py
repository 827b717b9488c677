"""Collect a homework from a download: the latest file per student, and a report on the rest.

    OUT/HW/STUDENT.ipynb (or .py), OUT/HW.collected.json

The JSON holds the report, and under "files" the name of each student's file in its download. Only
bytes are copied, under names that this chooses; nothing is executed and no link is followed.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from labkit.system.files import hold_lock, write_whole
from press.homework.grading.file_owner import Class, find_owner, read_attempt
from press.homework.grading.inbox import Found, Refused, list_files
from press.homework.grading.results import make_own_folder
from press.homework.grading.submission import (
    ENDINGS,
    Unreadable,
    name_other_homework,
    parse_submission,
)

# A zip keeps times to two seconds: files that differ by less are told apart by their numbers.
SAME_SECONDS = 2.0


@dataclass(frozen=True)
class Taken:
    """A student's file, the earlier files of the same student, and whether it replaced one.

    `problem` says why it cannot be graded, where that is seen already.
    """

    student: str
    label: str
    older: tuple[str, ...] = ()
    replaced: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Collected:
    """What was taken, what was not and why, and who in the class has handed in nothing."""

    homework: str
    taken: tuple[Taken, ...]
    refused: tuple[Refused, ...]
    missing: tuple[str, ...]
    kept: tuple[str, ...]


def collect_inbox(
    inbox: Path, homework: str, out: Path, students: Class | None = None
) -> Collected:
    """Take the latest file of every student; students who are not in this inbox keep theirs.

    The latest is the one that was changed last, in whichever inbox it came; of two of one time, the
    one that was handed in again, by its name. An older one than what is there is refused.
    Raises a ValueError when the inbox is neither a folder nor a zip, or lies where `out` is.
    """
    students = students or Class()
    folder = out / homework
    if out.resolve() == inbox.resolve() or inbox.resolve() in out.resolve().parents:
        raise ValueError(
            f"--out must be outside the inbox, but {out} is in {inbox}; choose another folder"
        )
    found, refused = _assign_files(list_files(inbox), students, homework)
    with hold_lock(make_own_folder(out) / f".{homework}.lock"):
        folder.mkdir(parents=True, exist_ok=True)
        tried = [
            _take_latest(student, files, folder, homework)
            for student, files in sorted(found.items())
        ]
        taken = [each for each in tried if isinstance(each, Taken)]
        refused += [each for each in tried if isinstance(each, Refused)]
        there = {path.stem for path in folder.iterdir() if path.suffix in ENDINGS}
        result = Collected(
            homework,
            tuple(taken),
            tuple(refused),
            tuple(sorted(set(students.ids) - there)),
            tuple(sorted(there - {each.student for each in taken})),
        )
        names = read_download_names(out, homework) | {each.student: each.label for each in taken}
        told = {
            "schema": 1,
            **asdict(result),
            "files": {name: names[name] for name in sorted(names)},
        }
        text = json.dumps(told, indent=1, ensure_ascii=False)
        write_whole(_name_report(out, homework), text + "\n")
    return result


def read_download_names(out: Path, homework: str) -> dict[str, str]:
    """Return the name that each student's file had in its download, {} where none was collected."""
    path = _name_report(out, homework)
    return json.loads(path.read_text(encoding="utf-8")).get("files", {}) if path.exists() else {}


def _name_report(out: Path, homework: str) -> Path:
    return out / f"{homework}.collected.json"


def _assign_files(
    files: Iterable[Found | Refused], students: Class, homework: str
) -> tuple[dict[str, list[Found]], list[Refused]]:
    found: dict[str, list[Found]] = {}
    refused: list[Refused] = []
    for each in files:
        if isinstance(each, Refused):
            refused.append(each)
        elif student := find_owner(each.parts, students, homework):
            found.setdefault(student, []).append(each)
        else:
            known = "no student on the roster" if students.ids else "no student ID"
            refused.append(Refused(each.label, f"its path names {known}"))
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


def _take_latest(student: str, files: list[Found], folder: Path, homework: str) -> Taken | Refused:
    newest = max(each.changed for each in files)
    order = sorted(
        files,
        key=lambda each: (
            newest - each.changed < SAME_SECONDS,
            each.changed if newest - each.changed >= SAME_SECONDS else 0,
            read_attempt(each.parts),
            PurePosixPath(each.parts[-1]).suffix == ".ipynb",
            each.parts,
        ),
    )
    last = order[-1]
    path = folder / f"{student}{PurePosixPath(last.parts[-1]).suffix.lower()}"
    before = [old for end in ENDINGS if (old := path.with_name(student + end)).exists()]
    others = [old for old in before if old.read_bytes() != last.content]
    # What was collected has the time at which its student changed it.
    if later := [old for old in others if old.stat().st_mtime - newest >= SAME_SECONDS]:
        return Refused(
            last.label,
            f"it is older than the {later[0].name} that was collected before; to take it all the "
            "same, move that one away and collect again",
        )
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.write_bytes(last.content)
    part.chmod(0o600)  # a homework is nobody else's to read
    when = max([newest, *(old.stat().st_mtime for old in before if old not in others)])
    os.utime(part, (when, when))
    os.replace(part, path)
    for old in before:
        if old != path:
            old.unlink()
    older = tuple(each.label for each in order[:-1])
    problem = _find_problem(last.content, path.suffix, homework)
    return Taken(student, last.label, older, bool(others), problem)


def _find_problem(content: bytes, ending: str, homework: str) -> str:
    """Return why a file cannot be graded; "" if it looks like this homework."""
    try:
        other = name_other_homework(parse_submission(content, ending), homework)
    except Unreadable as error:
        return f"{error.status}: {error}"
    return f"another homework: {other}" if other else ""
