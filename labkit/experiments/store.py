"""The records of runs: one file for each run that was trained here, and the book's files.

    .labkit/runs/<key>.json      one line, as labkit.experiments.records describes it
    data/records/*.jsonl         many such lines

If both have a run, the newer record counts (`choose_newer`). A file of the store that is truncated,
edited, or copied under another run's name causes a warning and is treated as missing, so that its
run trains again.
"""

import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from labkit.experiments.records import (
    RecordError,
    Records,
    Row,
    format_row,
    from_row,
    parse_row,
    to_row,
)
from labkit.experiments.run import CPU, Run
from labkit.system.files import code_hash, make_slug, write_whole
from labkit.training import Record

# Computed now, because a record must name the imported code, not a later edit of it.
CODE = code_hash()


class Store:
    """The records below `root`, of runs on one class of devices."""

    def __init__(self, root: Path, device: str = CPU):
        self.root, self.device = Path(root).absolute(), device
        self.folder = self.root / ".labkit" / "runs"
        if device != CPU:
            self.folder /= make_slug(device)
        self.records = Records(self.root, device)

    def build_path(self, run: Run) -> Path:
        """Return the path of the store's own record of a run."""
        return self.folder / f"{run.key()}.json"

    def read_record(self, run: Run) -> Record | None:
        """Read a run's record; None if there is no complete one."""
        row = self.find_row(run.key())
        return None if row is None else from_row(row)

    def find_row(self, key: str) -> Row | None:
        """Return a run's row, from the store or the book, whichever was made later."""
        own = self.read_own_row(key)
        try:
            recorded = self.records.find_row(key)
        except RecordError:
            if own is None:
                raise
            recorded = None  # the store's row is enough
        return choose_newer(own, recorded)

    def read_recorded(self, run: Run) -> Record | None:
        """Read the book's own record of a run, ignoring the store."""
        row = self.records.find_row(run.key())
        return None if row is None else from_row(row)

    def read_own_row(self, key: str) -> Row | None:
        """Read the store's own row of a run; None if it is missing or damaged."""
        path = self.folder / f"{key}.json"
        try:
            return read_file(path)
        except FileNotFoundError:
            return None
        except RecordError as error:
            warnings.warn(
                f"the stored record {path.name} is damaged ({error}); its run trains again",
                stacklevel=2,
            )
            return None

    def read_fresh(self, run: Run) -> Record | None:
        """Read a run's record, unless a replay has refuted it and it was not trained again."""
        return None if self._build_mark_path(run.key()).is_file() else self.read_record(run)

    def mark_stale(self, key: str) -> None:
        """Mark a run's record as refuted by a replay; its next training removes the mark."""
        write_whole(self._build_mark_path(key), "")

    def _build_mark_path(self, key: str) -> Path:
        return self.folder / f".{key}.stale"

    def write_record(self, run: Run, record: Record, *, at: str = "", **made: Any) -> None:
        """Store a run's record, with its date (UTC; default now) and how it was made."""
        at = at or datetime.now(UTC).isoformat(timespec="seconds")
        row = to_row(run, record, at, **{"code": CODE, **made})
        write_whole(self.build_path(run), format_row(row))
        self._build_mark_path(run.key()).unlink(missing_ok=True)


def choose_newer(own: Row | None, recorded: Row | None) -> Row | None:
    """Return the later of two records of a run; the book's if they are equally old."""
    if own is None or recorded is None:
        return own or recorded
    return own if own["at"] > recorded["at"] else recorded


def read_file(path: Path) -> Row:
    """Read one file of a store; raise RecordError if it is damaged."""
    row = parse_row(path.read_bytes())
    if row["key"] != path.stem:
        raise RecordError(
            "a record's file must be named after its run's key, but this record belongs to a "
            "different run"
        )
    return row
