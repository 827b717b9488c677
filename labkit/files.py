"""Files written whole or not at all, locks that die with their holder, and one hash of labkit."""

import fcntl
import hashlib
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

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


@contextmanager
def locked(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a file's lock; the system frees it when the holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def code_hash() -> str:
    """Hash every source file of the labkit that is running, as it was when this was first asked."""
    root, whole = Path(__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]
