"""The records on disk: one file a run, named by its key, whole or absent.

    {"schema": 2, "checksum": …, "key": …, "run": {…}, "record": {…}, "made": {…}}

A file is written beside its place and moved there at once, so that a kill leaves either the old
state or the new. It carries its key and a checksum of its own content: a file that is truncated,
edited, or copied under another run's name is noticed, said, and treated as absent, so that its run
trains again. `made` says how the record came about (engine, device, code, memory); no number of a
chapter depends on it.
"""

import hashlib
import json
import os
import uuid
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.run import CPU, Run
from labkit.fingerprint import fingerprint_of
from labkit.training import Record

SCHEMA = 2
# Taken now: a key must name the code that this process has imported, not a later edit of it.
CODE = fingerprint_of("labkit.experiments.run")
WRITING = ".writing-"  # how the name of a file begins that is not yet whole


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that a reader, or a kill, at any moment sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{WRITING}{uuid.uuid4().hex}")
    try:
        with part.open("xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


class Store:
    """The records below `<root>/.labkit/runs`, of runs on one class of devices."""

    def __init__(self, root: Path, device: str = CPU):
        self.folder, self.device = Path(root).absolute() / ".labkit" / "runs", device

    def path(self, run: Run) -> Path:
        """Say where the record of a run stands, or would stand."""
        return self.folder / f"{run.key(self.device)}.json"

    def get(self, run: Run) -> Record | None:
        """Read a run's record; None where there is none, or none that is whole."""
        path = self.path(run)
        try:
            return Record.from_json(json.dumps(read_entry(path)["record"]))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            warnings.warn(
                f"the stored record {path.name} is damaged ({error}); its run trains again",
                stacklevel=2,
            )
            return None

    def put(self, run: Run, record: Record, **made: Any) -> None:
        """Keep a run's record, and how and when (UTC) it was made."""
        key = run.key(self.device)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = {
            "schema": SCHEMA,
            "key": key,
            "run": run.to_dict(),
            "record": json.loads(record.to_json()),
            "made": {
                "device": self.device,
                "code": CODE,
                "torch": torch.__version__,
                "at": now,
                **made,
            },
        }
        entry = json.loads(json.dumps(entry))  # as it will be read: tuples are lists
        write_whole(self.folder / f"{key}.json", json.dumps({"checksum": _sum(entry), **entry}))


def read_entry(path: Path) -> dict[str, Any]:
    """Read a stored file; ValueError where it is not what was put there."""
    return checked(json.loads(path.read_text(encoding="utf-8")), path.stem)


def checked(entry: Any, key: str) -> dict[str, Any]:
    """Take the checksum off what was read; ValueError where it is not what was put under `key`."""
    if not isinstance(entry, dict) or entry.get("schema") != SCHEMA:
        raise ValueError(f"it is no entry of schema {SCHEMA}")
    if entry.pop("checksum", None) != _sum(entry):
        raise ValueError("its checksum differs from its content")
    if entry.get("key") != key:
        raise ValueError("it belongs to another run")
    return entry


def _sum(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
