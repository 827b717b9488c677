"""Folders that are whole or count for nothing: what vouches for them, a JSON, is written last.

A writer that fails removes what it began; one that is killed leaves a folder without its JSON,
which no reader takes.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.system.files import write_whole


@contextmanager
def fill_folder(folder: Path) -> Iterator[None]:
    """Make a folder for the block to fill, and remove it where the block fails.

    ValueError where it exists: another process may be writing it.
    """
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise ValueError(
            f"{folder} exists already; name a new folder, or remove it first if no other process "
            "is writing it"
        ) from None
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader, or a kill, at any moment sees the old file or the new one."""
    write_whole(path, json.dumps(value, indent=1, allow_nan=False))
    sync_path(path.parent)


def read_json(path: Path, schema: int, way_out: str) -> dict[str, Any]:
    """Read a JSON object of a schema; ValueError says which file is damaged and what helps."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, but it is damaged ({error}); {way_out}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}; {way_out}")
    if value.get("schema") != schema:
        raise ValueError(
            f"{path} must have schema {schema}, got {value.get('schema')!r}; {way_out}"
        )
    return value


def sync_path(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """Hash a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
