"""Files: names, atomic writes, locks that are freed when their holder dies, hashes."""

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock, Timeout

WRITING = ".writing-"  # start of an unfinished file's name


def write_whole(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file atomically: a reader sees either the old file or the new one, even after a kill.

    `mode` sets the permissions of a new file, minus the process's umask.
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
        if isinstance(error, OSError):  # for a full disk the system does not name the file
            raise OSError(error.errno, f"not written: {error.strerror}", str(path)) from error
        raise


def make_slug(name: str) -> str:
    """Convert a name to a part of a file name: NVIDIA H200 becomes nvidia-h200."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


@contextmanager
def hold_lock(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a file's lock; the system frees it when the holder ends, for whatever reason.

    If another process holds the lock, `on_wait` is called, and then this waits for the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    with suppress(Timeout):
        lock.acquire(blocking=False)
    if not lock.is_locked:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def folder_of(package: str) -> Path:
    """Return a package's folder without importing it; raise ModuleNotFoundError if missing."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"package {package!r} must be installed, but was not found", name=package
        )
    return Path(spec.origin).parent


@cache
def code_hash(package: str = "labkit") -> str:
    """Hash every source file of a running package, as of the first call."""
    root, whole = folder_of(package), hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        whole.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]
