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


def write_whole(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file so that a reader, or a kill, at any moment sees the old one or the new one.

    `mode` says who may read a new one, less what the process' umask takes away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{WRITING}{uuid.uuid4().hex}")
    try:
        part.touch(mode, exist_ok=False)
        with part.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):  # of a full disk the system does not say which file
            raise OSError(error.errno, f"not written: {error.strerror}", str(path)) from error
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
