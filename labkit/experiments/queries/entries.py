"""Read all runs that there are: the store's, and the book's records.

current     in the store, under the key of its run
recorded    in data/records
stale       in the store, of an older schema: no run asks for it again
damaged     named as an entry, but not what was put there
writing     not yet whole: of a writer at work, or of one that was killed
locks       files that a writer holds a lock on while it is at work, see engines/locks.py
foreign     anything else in the folder; nobody here touches it
"""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from labkit.experiments.engines.ray_sign import SIGN
from labkit.experiments.records import Records, Row, from_row
from labkit.experiments.store import SCHEMA, WRITING, checked

NAME = re.compile(r"([0-9a-f]{24}|[0-9a-f]{64})\.json")  # the longer ones of older schemas
MARK = re.compile(r"\.[0-9a-f]{24}\.stale")
LOCK = re.compile(rf"\.[0-9a-f]{{24,64}}\.lock|{re.escape(SIGN)}.+")


class Unreadable(Exception):
    """An entry that is not what was put there."""


class Newer(Unreadable):
    """An entry of a later schema: not ours to judge."""


@dataclass(frozen=True)
class File:
    """A file in a store's folder that is no readable entry, or the file of one that is."""

    path: Path
    size: int  # bytes
    modified: float  # seconds since 1970
    identity: tuple[int, int]  # changes when the file is replaced
    why: str = ""  # what is wrong with it


@dataclass(frozen=True)
class Entry:
    """One run in the store, its record, and how it was made."""

    file: File
    run: dict[str, Any]
    record: dict[str, Any]
    made: dict[str, Any]
    state: str  # current, recorded or stale
    key: str  # names the run
    why: str = ""  # what is wrong with it

    @property
    def born(self) -> float:
        """Say when the record was made, in seconds since 1970: a copied file is younger."""
        try:
            return datetime.fromisoformat(self.made["at"]).timestamp()
        except (KeyError, TypeError, ValueError):
            return self.file.modified

    @property
    def age(self) -> float:
        """Count the seconds since then; below 0 where a clock was set back."""
        return time.time() - self.born


@dataclass
class Shelf:
    """What lies in a store's folder, newest first."""

    entries: list[Entry] = field(default_factory=list)
    damaged: list[File] = field(default_factory=list)
    writing: list[File] = field(default_factory=list)
    locks: list[File] = field(default_factory=list)
    foreign: list[File] = field(default_factory=list)

    def of(self, *states: str) -> list[Entry]:
        """Choose entries by their state."""
        return [entry for entry in self.entries if entry.state in states]


def scan(folder: Path) -> Shelf:
    """Read every file of a store, and the book's records; one that vanishes was never there."""
    shelf = Shelf(recorded(folder))
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            file = look(path)
            if path.name.startswith(WRITING):
                shelf.writing.append(file)
            elif LOCK.fullmatch(path.name) and path.is_file():
                shelf.locks.append(file)
            elif MARK.fullmatch(path.name):
                continue  # a replay refuted this run's record
            elif not NAME.fullmatch(path.name) or not path.is_file():
                shelf.foreign.append(file)
            else:
                shelf.entries.append(read(path))
        except FileNotFoundError:
            continue
        except Newer as error:
            shelf.foreign.append(look(path, str(error)))
        except Unreadable as error:
            shelf.damaged.append(look(path, str(error)))
        except OSError as error:
            shelf.foreign.append(File(path, 0, 0.0, (0, 0), str(error)))
    shelf.entries.sort(key=lambda entry: (-entry.born, entry.key))
    return shelf


def recorded(folder: Path) -> list[Entry]:
    """Read the records of the book whose store lies in `folder`, of runs on CPUs."""
    records, found = Records(folder.parents[1]), []
    for name in records.names():
        file = look(records.path(name))
        found += [_entry(file, row) for row in records.load(name).values()]
    return found


def _entry(file: File, row: Row) -> Entry:
    record = json.loads(from_row(row).to_json())
    made = {"at": row["at"], "device": row["provenance"].get("device"), "where": file.path.name}
    return Entry(file, row["run"], record, made, "recorded", row["key"])


def look(path: Path, why: str = "") -> File:
    """Note a file's size and identity; a link is itself, not what it leads to."""
    found = path.lstat()
    return File(path, found.st_size, found.st_mtime, (found.st_ino, found.st_mtime_ns), why)


def read(path: Path) -> Entry:
    """Read one entry, of this schema or the one before; Unreadable where it is damaged."""
    file = look(path)
    try:
        raw = json.loads(path.read_bytes())
        if isinstance(raw, dict) and isinstance(raw.get("schema"), int) and raw["schema"] > SCHEMA:
            raise Newer(f"a later labkit wrote it, of schema {raw['schema']}")
        older = isinstance(raw, dict) and raw.get("schema", 1) < SCHEMA
        whole = raw if older else checked(raw, path.stem)
        run, record, made = whole["run"], whole["record"], whole.get("made", {})
        if not all(isinstance(part, dict) for part in (run, record, made)):
            raise ValueError("its parts are no objects")
        if not isinstance(record.get("losses"), list):
            raise ValueError("its record has no losses")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    state, why = ("stale", "an older schema") if older else ("current", "")
    return Entry(file, run, record, made, state, path.stem, why)


def find(folder: Path, prefix: str) -> Entry:
    """Read the entry whose key begins so; ValueError where none does, or more than one."""
    begin = prefix.lower()
    names = [path for path in _named(folder) if path.name.startswith(begin)]
    stored = {path.stem for path in names}
    rows = [e for e in recorded(folder) if e.key.startswith(begin) and e.key not in stored]
    if not prefix or len(names) + len(rows) != 1:
        some = ", ".join(sorted(name[:12] for name in (*stored, *(e.key for e in rows)))[:5])
        count = len(names) + len(rows)
        raise ValueError(
            f"a key is named by a beginning that only it has; {count} begin with {prefix!r}"
            + (f": {some}{' …' if count > 5 else ''}" if prefix and count else "")
            + "; `labkit runs` lists them"
        )
    if rows:
        return rows[0]
    try:
        return read(names[0])
    except Unreadable as error:
        raise Unreadable(
            f"the entry {names[0].stem[:12]} cannot be read ({error}); if it is damaged, its run "
            "trains again when it is asked for, and `labkit runs gc --damaged` removes it"
        ) from error


def _named(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if NAME.fullmatch(path.name):
            yield path
