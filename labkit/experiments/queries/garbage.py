"""Remove what no run asks for again. What is current stays, always, and so do the records."""

import re
import time
from pathlib import Path
from typing import Any

from labkit.experiments.engines.locks import remove_unheld
from labkit.experiments.store import WRITING, read_entry
from labkit.training import Record

AT_WORK = 3600.0  # seconds; a file younger than this may still be being written
OLDER = "of an older version, which no run asks for again"
DAMAGED = "damaged"
UNFINISHED = "left half written"
LOCK = "locks"
FOREIGN = "no entries of a store"
_NAMES = {
    OLDER: re.compile(r"[0-9a-f]{64}\.json"),
    UNFINISHED: re.compile(rf"{re.escape(WRITING)}.*"),
    LOCK: re.compile(r"\.[0-9a-f]{24,64}\.lock"),
}
_ENTRY = re.compile(r"[0-9a-f]{24}\.json")
_NOTE = re.compile(r"\.[0-9a-f]{24}\.stale")  # a replay refuted this run's record


def sort_files(folder: Path) -> tuple[dict[Path, dict[str, Any]], dict[Path, str]]:
    """Read the entries of a store's folder, and say what every other file is."""
    entries, others = {}, {}
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            if _ENTRY.fullmatch(path.name) and path.is_file():
                entry = read_entry(path)
                Record(**entry["record"])
                entries[path] = entry
            elif not _NOTE.fullmatch(path.name):
                whats = (what for what, name in _NAMES.items() if name.fullmatch(path.name))
                others[path] = next(whats, FOREIGN) if path.is_file() else FOREIGN
        except FileNotFoundError:
            continue
        except (ValueError, TypeError, KeyError, RecursionError):
            others[path] = DAMAGED
    return entries, others


def remove_garbage(
    folder: Path, older: float, *, dry: bool = False, damaged: bool = False
) -> dict[str, list[int]]:
    """Remove what is `older` seconds old and no run asks for again, and what killed writers left.

    Returns the sizes in bytes of what went, or would go, by the reason.
    """
    began, gone = time.time(), {}
    least = {OLDER: older, UNFINISHED: AT_WORK} | ({DAMAGED: older} if damaged else {})
    for path, what in sort_files(folder)[1].items():
        try:
            state = path.stat()
            if what == LOCK:
                goes = remove_unheld(path, dry)
            else:  # the age of now: a sweep may have written a damaged entry anew
                goes = what in least and began - state.st_mtime >= least[what]
                if goes and not dry:
                    path.unlink()
        except FileNotFoundError:
            continue
        if goes:
            gone.setdefault(what, []).append(state.st_size)
    return gone
