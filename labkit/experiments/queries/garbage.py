"""Remove what killed processes left in a store, and damaged records where that is asked.

Every record that is whole stays, and so does what is no file of a store.
"""

import re
import time
from pathlib import Path

from labkit.experiments.engines.locks import remove_unheld
from labkit.experiments.records import RecordError
from labkit.experiments.store import WRITING, read_file

AT_WORK = 3600.0  # seconds; a file younger than this may still be being written
RECORD = re.compile(r"[0-9a-f]{24}\.json")
_LOCK = re.compile(r"\.[0-9a-f]{24}\.lock")


def remove_garbage(folder: Path, *, dry: bool = False, damaged: bool = False) -> dict[str, int]:
    """Remove what nobody needs, at least an hour old, and locks that nobody holds.

    Returns how many files went, or would go, by the reason.
    """
    gone: dict[str, int] = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            what = _name_garbage(path, damaged)
            if what == "locks":
                goes = remove_unheld(path, dry)
            else:  # the age of now: a sweep may have written a damaged record anew
                goes = bool(what) and time.time() - path.stat().st_mtime >= AT_WORK
                if goes and not dry:
                    path.unlink()
        except FileNotFoundError:
            continue
        if goes:
            gone[what] = gone.get(what, 0) + 1
    return gone


def _name_garbage(path: Path, damaged: bool) -> str:
    """Say why a file may go; nothing where it stays."""
    if not path.is_file():
        return ""
    if path.name.startswith(WRITING):
        return "left half written"
    if _LOCK.fullmatch(path.name):
        return "locks"
    if damaged and RECORD.fullmatch(path.name):
        try:
            read_file(path)
        except RecordError:
            return "damaged"
    return ""
