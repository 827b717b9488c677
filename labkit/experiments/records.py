"""A record as a line of JSON, and the files of records that belong to the book.

    .labkit/runs/<key>.json             one line: a run trained here (labkit.experiments.store)
    data/records/ladder.jsonl           the shared ladder
    data/records/06.jsonl               the additional runs of chapter 06
    data/records/06.nvidia-h200.jsonl   the same on a GPU, by its name

All files have the same format, which any reader of JSON lines accepts (pandas.read_json with
lines=True).

    format      1
    key         names the run: a hash of its configuration only (labkit.experiments.run)
    run         the configuration in full, seed and probes included
    steps       configured steps; diverged_at: the step whose loss was not finite, or null
    first       the first eight losses, exact in float32
    every, losses   the training loss as at most 200 means of `every` steps each
    probes      the measurements, in float32
    seconds, cpu_seconds, predictions_per_second    time and speed
    peak_bytes  the peak memory of its process, if it was measured
    provenance  device, versions, commit, engine, code
    at          when it was made (UTC)
    sum         a checksum of all of the above

A file of the book is plain text, so that git stores only changes. It is always rewritten in full,
with lines sorted by key, so the same records give the same bytes. A damaged line is skipped with a
warning that names it, and its run counts as missing; a file without any complete line is an error.
"""

import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from labkit.experiments.run import CPU, Run
from labkit.system.files import make_slug, write_whole
from labkit.training import Record

FORMAT = 1
FIRST = 8  # losses stored exactly, for replays
POINTS = 200  # of a loss curve, at most
LADDER = "ladder"
Row = dict[str, Any]


class RecordError(ValueError):
    """A damaged record, or a damaged file of records."""


class Records:
    """The files of one book, for one class of devices; each is read when it is needed."""

    def __init__(self, root: Path, device: str = CPU):
        self.folder, self.device = Path(root) / "data" / "records", device

    def build_path(self, name: str) -> Path:
        """Return the file with the records of a chapter, or of the ladder."""
        device = "" if self.device == CPU else f".{make_slug(self.device)}"
        return self.folder / f"{name}{device}.jsonl"

    def list_names(self) -> list[str]:
        """List the names with a file, the ladder first."""
        return list(self._list_paths())

    def _list_paths(self) -> dict[str, Path]:
        """List the files by name; reread the folder if its contents have changed."""
        try:
            changed = self.folder.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        return _list_paths(self.folder, self.build_path("").name, changed)

    def load_rows(self, name: str) -> dict[str, Row]:
        """Read one file, by key; empty if it does not exist.

        Raises:
            RecordError: a line is damaged, and would be lost if the file were written again.
        """
        rows, damaged = _read_rows(self.build_path(name))
        if damaged:
            raise RecordError(damaged[0])
        return rows

    def find_row(self, key: str) -> Row | None:
        """Look up a run in every file; None if no file has it.

        Raises:
            RecordError: no file has the run, and one of them has no complete line.
        """
        damaged = None
        for path in self._list_paths().values():
            try:
                if (row := _read_rows(path)[0].get(key)) is not None:
                    return row
            except RecordError as error:
                damaged = error
        if damaged is not None:
            raise damaged
        return None

    def write_rows(self, name: str, rows: Iterable[Row]) -> int:
        """Write one file, or remove it if there are no rows; return its size in bytes."""
        ordered, path = sorted(rows, key=lambda row: row["key"]), self.build_path(name)
        if not ordered:
            path.unlink(missing_ok=True)
            return 0
        content = "".join(map(format_row, ordered)).encode()
        write_whole(path, content)
        return len(content)


@lru_cache(maxsize=64)
def _list_paths(folder: Path, ending: str, changed: int) -> dict[str, Path]:
    found = {path.name.removesuffix(ending): path for path in folder.glob(f"*{ending}")}
    names = (name for name in found if "." not in name)
    return {name: found[name] for name in sorted(names, key=lambda name: (name != LADDER, name))}


def _read_rows(path: Path) -> tuple[dict[str, Row], list[str]]:
    """Read the complete lines of a file, by key, and describe the damaged ones."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return {}, []
    return _load_rows(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _load_rows(path: Path, changed: int, size: int) -> tuple[dict[str, Row], list[str]]:
    mend = "restore it (git checkout), or remove it and train its runs again (make runs)"
    rows, damaged = {}, []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            row = parse_row(line)
        except RecordError as error:
            damaged.append(f"line {number} of the records {path.name} is damaged ({error}); {mend}")
        else:
            rows[row["key"]] = row
    if not rows:
        reason = damaged[0] if damaged else f"it is empty; {mend}"
        raise RecordError(
            f"a file of records must have at least one complete line, but {path.name} has none: "
            f"{reason}"
        )
    for text in damaged:
        warnings.warn(f"{text}. Until then its run counts as missing", stacklevel=4)
    return rows, damaged


def format_row(row: Row) -> str:
    """Format a row as a line of any records file."""
    return f"{json.dumps(row, ensure_ascii=False)}\n"


def parse_row(line: bytes) -> Row:
    """Parse a line; raise RecordError if it is damaged."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(str(error)) from error
    found = row.get("format") if isinstance(row, dict) else type(row).__name__
    if found != FORMAT:
        raise RecordError(
            f"a record must have format {FORMAT}, got {found!r}; read it with the labkit version "
            "that wrote it"
        )
    if row.get("sum") != compute_checksum(row):
        raise RecordError("a record's checksum must match its content, but this record was edited")
    return row


def compute_checksum(row: Mapping[str, Any]) -> str:
    """Return a hash of a row's content."""
    content = {name: value for name, value in row.items() if name != "sum"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def to_row(run: Run, record: Record, at: str, *, peak_bytes: int | None = None, **made: Any) -> Row:
    """Reduce a record to the stored row; `made` describes how it was made."""
    every = max(1, math.ceil(len(record.losses) / POINTS))
    losses = [record.losses[i : i + every] for i in range(0, len(record.losses), every)]
    row = {
        "format": FORMAT,
        "key": run.key(),
        "run": run.to_dict(),
        "steps": record.steps,
        "diverged_at": record.diverged_at,
        "first": [_shorten_float(loss) for loss in record.losses[:FIRST]],
        "every": every,
        "losses": [_round_floats(math.fsum(part) / len(part)) for part in losses],
        "trained": len(record.losses),
        "probes": _round_floats(record.probes),
        "seconds": round(record.seconds, 3),
        "cpu_seconds": round(record.cpu_seconds, 3),
        "predictions_per_second": round(record.predictions_per_second),
        "peak_bytes": peak_bytes,
        "provenance": record.provenance | made,
        "at": at,
    }
    row = json.loads(json.dumps(row))  # as it will be read, with tuples as lists
    return {**row, "sum": compute_checksum(row)}


def from_row(row: Row) -> Record:
    """Rebuild a record from a row; a thinned curve has the mean of its interval at every step."""
    losses = [loss for loss in row["losses"] for _ in range(row["every"])][: row["trained"]]
    first = [float(np.float32(loss)) for loss in row["first"]]
    return Record(
        losses=[*first, *losses[len(first) :]],
        steps=row["steps"],
        diverged_at=row["diverged_at"],
        seconds=row["seconds"],
        cpu_seconds=row["cpu_seconds"],
        predictions_per_second=row["predictions_per_second"],
        probes=row["probes"],
        provenance=dict(row["provenance"]),
        at=row["at"],
    )


def _shorten_float(loss: float) -> float:
    """Round a float32 to the fewest digits that distinguish it from every other."""
    return float(str(np.float32(loss)))


def _round_floats(value: Any) -> Any:
    """Round every float to seven digits, like float32; values that are not finite become null."""
    if isinstance(value, dict):
        return {str(name): _round_floats(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_round_floats(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    return value
