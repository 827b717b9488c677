"""Remove what no run asks for again. What is current stays, always, and so do the records.

stale     of an older schema: under keys that no run has any more
damaged   only on request: a person may want to look at them first
debris    of writers that were killed: what is half written, an hour ago or longer, and the files
          of locks that nobody holds
"""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from labkit.experiments.engines.locks import remove_unheld
from labkit.experiments.queries.entries import File, look, scan

AT_WORK = 3600.0  # seconds; a file younger than this may still be being written


@dataclass
class Removed:
    """What was removed, or would be."""

    count: Counter[str] = field(default_factory=Counter)  # by the reason
    size: Counter[str] = field(default_factory=Counter)  # bytes, by the reason
    kept: int = 0

    def text(self, dry: bool) -> str:
        """Say it, a line a reason."""
        verb = "would remove" if dry else "removed"
        lines = [
            f"  {self.count[why]:>6} {why}, {self.size[why] / 1e6:,.1f} MB" for why in self.count
        ]
        total = f"{verb} {self.count.total()} files, {self.size.total():,} bytes"
        return "\n".join([f"{total}; {self.kept} current runs stay", *lines])


def collect(folder: Path, older: float, *, dry: bool = False, damaged: bool = False) -> Removed:
    """Remove what is at least `older` seconds old and no run asks for again, and all debris."""
    shelf, now, removed = scan(folder), time.time(), Removed()
    removed.kept = len(shelf.of("current"))
    old = [(e.file, f"stale ({e.why})") for e in shelf.of("stale") if e.age >= older]
    if damaged:
        old += [(f, "damaged") for f in shelf.damaged if now - f.modified >= older]
    old += [(f, "left half written") for f in shelf.writing if now - f.modified >= AT_WORK]
    gone = [(file, why) for file, why in old if dry or _remove(file)]
    gone += [(f, "locks of nobody") for f in shelf.locks if remove_unheld(f.path, dry)]
    for file, why in gone:
        removed.count[why] += 1
        removed.size[why] += file.size
    return removed


def _remove(file: File) -> bool:
    """Remove a file, unless it was replaced since it was read: a sweep may run meanwhile."""
    try:
        if look(file.path).identity != file.identity:
            return False
        file.path.unlink()
    except FileNotFoundError:
        return False
    return True
