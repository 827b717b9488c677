"""Move the runs trained here into the book's records, except those that no chapter requests.

A record is a line in both places: to record it is to copy the line, whose checksum holds. A run of
the shared ladder goes into its file; every other one into that of the first chapter which asks for
it. A file is written whole before the store's own copies go, so a kill loses nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from labkit.experiments import ladder
from labkit.experiments.lab import device_of
from labkit.experiments.records import LADDER, Row
from labkit.experiments.store import Store, choose_newer
from labkit.system.files import WRITING, hold_lock
from press.book import asked, chapters
from press.book.chapters import Chapter

LIMIT = 40_000_000  # bytes of all files together


@dataclass(frozen=True)
class Recorded:
    """The current content of one file."""

    name: str
    runs: int
    new: int
    dropped: int
    bytes: int

    def __str__(self) -> str:
        dropped = f", {self.dropped} that nobody asks for left out" if self.dropped else ""
        return f"{self.name}: {self.runs} runs, {self.new} new{dropped}; {self.bytes / 1e6:.2f} MB"


def update_records(root: Path, chosen: Sequence[Chapter], size: str) -> list[Recorded]:
    """Bring the files of the ladder and of these chapters up to date with the store."""
    store = Store(root, device_of(size))
    with hold_lock(root / ".labkit" / "record.lock"):
        for part in store.records.folder.glob(f"{WRITING}*"):
            part.unlink()  # of a call that was killed: only who holds the lock writes here
        on_ladder = ladder_keys(store)
        done = [_write_records(store, LADDER, on_ladder, store.records.load_rows(LADDER).keys())]
        wanted = wanted_anywhere(root, size)
        for chapter in chosen:
            asked_for = set(asked.read_run_keys(root, size, chapter.name))
            others = {
                key
                for name in store.records.list_names()
                if name not in (LADDER, chapter.number)
                for key in store.records.load_rows(name)
            }
            if asked_for or asked.is_whole(root, size, chapter.name):
                rest = store.records.load_rows(chapter.number).keys() - on_ladder - others
                stays = rest if wanted is None else rest & wanted
                own = asked_for - on_ladder - others
                done.append(_write_records(store, chapter.number, own, stays))
        total = sum(path.stat().st_size for path in store.records.folder.glob("*.jsonl"))
        if total > LIMIT:
            raise ValueError(
                f"the book's records may take at most {LIMIT / 1e6:.0f} MB, but take "
                f"{total / 1e6:.1f} MB; record fewer probes or runs"
            )
    return [one for one in done if one.runs or one.dropped]


def wanted_anywhere(root: Path, size: str) -> set[str] | None:
    """List what all chapters request, recorded or not; None if a list is incomplete.

    Two chapters may ask for one run: it stays while either does.
    """
    names = [chapter.name for chapter in chapters.find_chapters(root)]
    if not all(asked.is_whole(root, size, name) for name in names):
        return None
    return {key for name in names for key in asked.read_run_keys(root, size, name)}


def ladder_keys(store: Store) -> set[str]:
    """List the ladder's existing runs, by key, including incomplete arms."""
    read = cache(store.read_record)  # to list the runs is to read many of them again
    runs = [
        run
        for rung in ladder.CLIMBED
        for arm in ladder.ARMS
        for run in ladder.MethodRuns(rung, arm, read).every
    ]
    return {run.key() for run in runs if read(run)}


def _write_records(
    store: Store, name: str, wanted: Collection[str], stays: Collection[str]
) -> Recorded:
    """Write the newest line of each wanted run to one file; unchanged lines stay in place."""
    before = store.records.load_rows(name)
    rows: dict[str, Row] = {key: row for key, row in before.items() if key in stays}
    copied = []
    for key in wanted:
        # What another file has goes out of that one next.
        recorded = before.get(key) or store.records.find_row(key)
        own = store.read_own_row(key)
        row = choose_newer(own, recorded)
        if row is not None:
            rows[key] = row
        if own is not None:
            copied.append(key)
    new = sum(before.get(key) != row for key, row in rows.items())
    path = store.records.build_path(name)
    if rows != before:
        written = store.records.write_rows(name, rows.values())
    else:
        written = path.stat().st_size if rows else 0
    for key in copied:
        (store.folder / f"{key}.json").unlink(missing_ok=True)
    return Recorded(name, len(rows), new, len(set(before) - set(rows)), written)
