"""Files and folders that are whole or absent, whatever kills the writer."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PART, _GONE = ".writing-", ".removing-"


def write_json(path: Path, value: Any) -> None:
    """Write JSON so that a reader, or a kill, at any moment sees the old file or the new one."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False))


def write_text(path: Path, text: str) -> None:
    """Write text so that a reader, or a kill, at any moment sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(_PART + path.name)
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)
    sync(path.parent)


def read_json(path: Path, way_out: str) -> Any:
    """Read a JSON object; ValueError says which file is damaged and what helps."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, but it is damaged ({error}); {way_out}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(value).__name__}; {way_out}")
    return value


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Fill a folder beside its place; it is moved there, synced, when the block ends well.

    ValueError where another writer of the same folder is at work, or was killed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(_PART + path.name)
    try:
        part.mkdir()
    except FileExistsError:
        raise ValueError(
            f"{part} exists: another process writes {path}, or was killed while it did; wait for "
            "it, or remove that folder"
        ) from None
    try:
        yield part
        for file in part.iterdir():
            sync(file)
        sync(part)
        os.rename(part, path)
        sync(path.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def remove_folder(path: Path) -> None:
    """Remove a folder; half of it never stands under its name."""
    gone = path.with_name(_GONE + path.name)
    os.rename(path, gone)
    shutil.rmtree(gone)


def sweep(folder: Path) -> None:
    """Remove what killed writers and removers left in a folder."""
    for mark in (_PART, _GONE):
        for left in folder.glob(f"{mark}*"):
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()


def sync(path: Path) -> None:
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
