"""Write files whole or not at all, read JSON or say what is wrong with it, and take turns."""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Red(Exception):
    """Something that a person must look at; its text says the rule, what came, and the way out."""


def write_whole(path: Path, text: str) -> None:
    """Replace a file in one step, so that a kill leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # One fixed name: what a kill leaves behind is overwritten by the next attempt. No reader
    # mistakes it for a result, and callers hold a lock, so no two write it at once.
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_json(path: Path, way_out: str) -> Any:
    """Read a JSON file, or say which file is damaged and what helps."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Red(f"{path} must be JSON, but it is damaged ({error}); {way_out}") from error


def sha256_of(path: Path) -> str | None:
    """Hash a file's bytes; None when there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a file's lock; the system frees it when the holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
