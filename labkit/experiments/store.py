"""The records on disk: one file for each run that was trained here, and the book's own.

    .labkit/runs/<key>.json      {"schema": 3, "checksum": …, "key": …, "run": {…}, "record": {…},
                                  "made": {…}}
    data/records/*.jsonl.gz      see labkit.experiments.records

A run is read from whichever has it; where both have it, the one that was made later counts. A file
of the store carries its key and a checksum of its own content: one that is truncated, edited, or
copied under another run's name is noticed, said, and treated as absent, so that its run trains
again. `made` says how the record came about (engine, device, code, memory); no number of a chapter
depends on it.
"""

import contextlib
import hashlib
import json
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.records import RecordError, Records, Row, from_row, make_slug, to_row
from labkit.experiments.run import CPU, Run
from labkit.system.files import WRITING as WRITING  # known by this name here too
from labkit.system.files import code_hash, write_whole
from labkit.training import Record

SCHEMA = 3
# Taken now: a record must name the code that this process has imported, not a later edit of it.
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
        """Return where the store's own record of a run stands, or would stand."""
        return self.folder / f"{run.key()}.json"

    def read_record(self, run: Run) -> Record | None:
        """Read a run's record; None where there is none, or none that is whole."""
        entry, row = self._read_newer(run)
        if row is not None:
            return from_row(row)
        if entry is None:
            return None
        return replace(Record.from_json(json.dumps(entry["record"])), at=entry["made"]["at"])

    def read_row(self, run: Run) -> Row | None:
        """Read a run's record as the book keeps it; None where there is none."""
        entry, row = self._read_newer(run)
        if entry is None:
            return row
        made = entry["made"]
        rest = {what: made[what] for what in ("engine", "code", "together") if what in made}
        return to_row(run, Record(**entry["record"]), made["at"], **rest)

    def _read_newer(self, run: Run) -> tuple[dict[str, Any] | None, Row | None]:
        """Read what the store has of a run or what the book has, whichever was made later."""
        entry = self.read_own_entry(run)
        try:
            row = self.records.find_row(run.key())
        except RecordError:
            if entry is None:
                raise
            row = None  # what the store has needs no other file
        if entry is None or (row is not None and entry["made"]["at"] <= row["at"]):
            return None, row
        return entry, None

    def read_fresh(self, run: Run) -> Record | None:
        """Read a run's record, unless a replay has refuted it and it was not trained since."""
        return None if self._build_mark_path(run.key()).is_file() else self.read_record(run)

    def mark_stale(self, key: str) -> None:
        """Note that a replay has refuted a run's record; its next training takes the note away."""
        write_whole(self._build_mark_path(key), "")

    def made_at(self, key: str) -> str:
        """Return when (UTC) the newest record of a run was made; nothing where it has none."""
        stamps = [""]
        with contextlib.suppress(OSError, ValueError, KeyError):  # absent, or not whole
            stamps.append(read_entry(self.folder / f"{key}.json")["made"]["at"])
        try:
            row = self.records.find_row(key)
        except RecordError:
            if len(stamps) == 1:
                raise
            row = None
        return max(*stamps, row["at"] if row is not None else "")

    def _build_mark_path(self, key: str) -> Path:
        return self.folder / f".{key}.stale"

    def read_own_entry(self, run: Run) -> dict[str, Any] | None:
        """Read what the store itself has of a run; None where that is nothing, or not whole."""
        path = self.build_path(run)
        try:
            entry = read_entry(path)
            Record.from_json(json.dumps(entry["record"]))
            return entry
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            warnings.warn(
                f"the stored record {path.name} is damaged ({error}); its run trains again",
                stacklevel=2,
            )
            return None

    def write_record(self, run: Run, record: Record, **made: Any) -> None:
        """Keep a run's record, and how and when (UTC) it was made."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        how = {"device": self.device, "code": CODE, "torch": torch.__version__, "at": now}
        entry = {
            "schema": SCHEMA,
            "key": run.key(),
            "run": run.to_dict(),
            "record": json.loads(record.to_json()),
            "made": how | made,
        }
        entry = json.loads(json.dumps(entry))  # as it will be read: tuples are lists
        write_whole(
            self.build_path(run), json.dumps({"checksum": _compute_checksum(entry), **entry})
        )
        self._build_mark_path(run.key()).unlink(missing_ok=True)


def read_entry(path: Path) -> dict[str, Any]:
    """Read a stored file, its checksum taken off; ValueError where it is not what was put there."""
    entry = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(entry, dict) or entry.get("schema") != SCHEMA:
        raise ValueError(f"it is no entry of schema {SCHEMA}")
    if entry.pop("checksum", None) != _compute_checksum(entry):
        raise ValueError("its checksum differs from its content")
    if entry.get("key") != path.stem:
        raise ValueError("it belongs to another run")
    return entry


def _compute_checksum(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
