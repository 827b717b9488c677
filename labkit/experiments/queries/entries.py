"""Read a whole store: what is current, what is stale, what is no record at all.

current     its key follows from its run, this code, this torch and its device
elsewhere   as current, but for the torch of a device that this machine has not
stale       its key follows from other code or another torch: no run here asks for it again
damaged     named as an entry, but not what was put there
writing     not yet whole: of a writer at work, or of one that was killed
locks       files that a writer holds a lock on while it is at work, see engines/locks.py
foreign     anything else in the folder; nobody here touches it
"""

import hashlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.engines.ray_sign import SIGN
from labkit.experiments.run import CPU, gpu
from labkit.experiments.store import SCHEMA, WRITING, checked
from labkit.fingerprint import fingerprint_of

NAME = re.compile(r"[0-9a-f]{64}\.json")
LOCK = re.compile(rf"\.[0-9a-f]{{64}}\.lock|{re.escape(SIGN)}.+")


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
    state: str  # current, elsewhere or stale
    why: str = ""  # what has changed since

    @property
    def key(self) -> str:
        """Name the run."""
        return self.file.path.stem

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
    """Read every file of a store; one that vanishes meanwhile was never there."""
    shelf = Shelf()
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            file = look(path)
            if path.name.startswith(WRITING):
                shelf.writing.append(file)
            elif LOCK.fullmatch(path.name) and path.is_file():
                shelf.locks.append(file)
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
        older = isinstance(raw, dict) and set(raw) == {"checksum", "run", "record"}
        whole = _checked_older(raw) if older else checked(raw, path.stem)
        run, record, made = whole["run"], whole["record"], whole.get("made", {})
        if not all(isinstance(part, dict) for part in (run, record, made)):
            raise ValueError("its parts are no objects")
        if not isinstance(record.get("losses"), list):
            raise ValueError("its record has no losses")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    state, why = ("stale", "an older schema") if older else _state(path.stem, run, made)
    return Entry(file, run, record, made, state, why)


def find(folder: Path, prefix: str) -> Entry:
    """Read the entry whose key begins so; ValueError where none does, or more than one."""
    names = [path for path in _named(folder) if path.name.startswith(prefix.lower())]
    if not prefix or len(names) != 1:
        some = ", ".join(sorted(path.stem[:12] for path in names)[:5])
        raise ValueError(
            f"a key is named by a beginning that only it has; {len(names)} begin with {prefix!r}"
            + (f": {some}{' …' if len(names) > 5 else ''}" if prefix and names else "")
            + "; `labkit runs` lists them"
        )
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


def _checked_older(entry: dict[str, Any]) -> dict[str, Any]:
    """Check an entry of schema 1, which had neither key nor origin."""
    content = json.dumps([entry["run"], entry["record"]], sort_keys=True)
    if entry["checksum"] != hashlib.sha256(content.encode()).hexdigest():
        raise ValueError("its checksum differs from its content")
    return entry


def _state(key: str, run: dict[str, Any], made: dict[str, Any]) -> tuple[str, str]:
    """Say whether a key still follows from what it was made of, and what has changed if not."""
    code, device = fingerprint_of("labkit.experiments.run"), made.get("device")

    def follows(torch_version: Any) -> bool:
        content = {"run": run, "code": code, "torch": torch_version, "device": device}
        return key == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    if follows(torch.__version__):
        return "current", ""
    if device not in (CPU, gpu()) and follows(made.get("torch")):
        return "elsewhere", f"torch {made.get('torch')} of {device}"
    changed = []
    if made.get("code") != code:
        changed.append("other code")
    if made.get("torch") != torch.__version__:
        changed.append(f"torch {made.get('torch')}")
    return "stale", " and ".join(changed) or "its key does not follow from its run"
