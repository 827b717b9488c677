"""Find whose file it is, from the names that learning platforms give downloads and a roster.

Canvas      leeann_LATE_4711_90210_hw1_norms-2.ipynb    name, user's number, submission's, file
Moodle      Ann Lee_4711_assignsubmission_file_/hw1_norms.ipynb     name, participant's number
others      ann/hw1_norms.ipynb, ann_hw1_norms.ipynb
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from press.homework import roster

MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)(?P<file>_.*)?"
)
CANVAS = re.compile(
    r"(?P<name>[^_]+)(?:_LATE)?_(?P<number>\d+)_(?P<upload>\d+)_(?P<file>.+)", re.IGNORECASE
)
PLATFORMS = (CANVAS, MOODLE)
ATTEMPT = re.compile(r"(?:-| ?\()(\d{1,3})\)?$")


def is_id(text: str) -> bool:
    """Return whether a string may be a student's id, and so a file name."""
    return roster.ID.fullmatch(text) is not None and not text.endswith(".")


@dataclass(frozen=True)
class Class:
    """The students of a class: ids, and {alias in lower case: id} from the roster."""

    ids: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)

    def find_student(self, names: Iterable[str]) -> str | None:
        """Return the student of the first known name; without a class, the first id."""
        for name in names:
            if not self.ids and is_id(name):
                return name
            if found := self.other.get(_fold_name(name)):
                return found
        return None


def read_class(path: Path | None, ids: Iterable[str] = ()) -> Class:
    """Read a roster, whose every column is an alias of a student; or use ids only.

    A name that two students share finds neither.
    """
    students = roster.read_roster(path) if path is not None else ()
    found = {_fold_name(each): each for each in ids} | {
        _fold_name(each.id): each.id for each in students
    }
    shared: set[str] = set()
    for student in students:
        for name in filter(None, map(_fold_name, student.names)):
            if found.setdefault(name, student.id) != student.id:
                shared.add(name)
    own = {*ids, *(each.id for each in students)}
    shared -= {_fold_name(each) for each in own}
    return Class(
        tuple(sorted(own)), {name: one for name, one in found.items() if name not in shared}
    )


def find_owner(parts: tuple[str, ...], students: Class, homework: str) -> str | None:
    """Return the student who owns the file at this path, folder before file; or None."""
    for folder in parts[:-1]:
        part = folder[:-4] if folder.lower().endswith(".zip") else folder
        if one := students.find_student(_list_names(part, homework, [part])):
            return one
        if any(platform.fullmatch(part) for platform in PLATFORMS):
            return None  # a platform says whose it is: what a stranger packed inside does not count
    stem = PurePosixPath(parts[-1]).stem
    short = stem.removesuffix(f"_{homework}")
    # Without a roster nobody knows whether ann_lee is a name or ann's file lee.
    first = [short] if short != stem else [stem] if students.ids else []
    return students.find_student(_list_names(stem, homework, first))


def read_attempt(parts: tuple[str, ...]) -> tuple[int, int]:
    """Read a file's attempt number from its name: Canvas's upload number, then hw1-2 or hw1 (2)."""
    stem = PurePosixPath(parts[-1]).stem
    upload, again = CANVAS.fullmatch(stem), ATTEMPT.search(stem)
    return int(upload["upload"]) if upload else 0, int(again[1]) if again else 0


def _list_names(text: str, homework: str, first: list[str]) -> Iterable[str]:
    """List what a folder or file name may say about its student, most reliable first."""
    # What a platform writes comes first; a student's own name of a file may look like either.
    for platform in PLATFORMS:
        if found := platform.fullmatch(text):
            yield from (found["number"], found["name"])
            return
    if text.startswith(homework):
        return  # hw1_norms is no student of the name hw1
    yield from first
    # ann_lee_hw1: the longest beginning that is a student; without a roster, ann.
    words = text.split("_")
    counts = range(len(words), 0, -1)
    yield from ("_".join(words[:count]) for count in counts if is_id("_".join(words[:count])))


def _fold_name(name: str) -> str:
    return " ".join(name.split()).casefold()
