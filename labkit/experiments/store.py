"""The records on disk: one file a run, named by its key, whole or absent.

A file is written beside its place and moved there at once, so that a kill leaves either the old
state or the new. It carries a checksum of its own content: a truncated or edited file is noticed,
said, and treated as absent, so that its run trains again.
"""

import hashlib
import json
import os
import tempfile
import warnings
from pathlib import Path

from labkit.experiments.run import CPU, Run
from labkit.training import Record


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader, or a kill, at any moment sees all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".writing-", delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


class Store:
    """The records below `<root>/.labkit/runs`, of runs on one class of devices."""

    def __init__(self, root: Path, device: str = CPU):
        self.folder, self.device = Path(root) / ".labkit" / "runs", device

    def path(self, run: Run) -> Path:
        """Say where the record of a run stands, or would stand."""
        return self.folder / f"{run.key(self.device)}.json"

    def get(self, run: Run) -> Record | None:
        """Read a run's record; None where there is none, or none that is whole."""
        path = self.path(run)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            entry = json.loads(text)
            if entry["checksum"] != _checksum(entry["run"], entry["record"]):
                raise ValueError("its checksum differs from its content")
            return Record.from_json(json.dumps(entry["record"]))
        except (ValueError, KeyError, TypeError) as error:
            warnings.warn(
                f"the stored record {path.name} is damaged ({error}); its run trains again",
                stacklevel=2,
            )
            return None

    def put(self, run: Run, record: Record) -> None:
        """Keep a run's record."""
        described, kept = json.loads(json.dumps(run.to_dict())), json.loads(record.to_json())
        entry = {"checksum": _checksum(described, kept), "run": described, "record": kept}
        write_whole(self.path(run), json.dumps(entry))


def _checksum(run: dict, record: dict) -> str:
    return hashlib.sha256(json.dumps([run, record], sort_keys=True).encode()).hexdigest()
