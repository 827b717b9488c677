"""One trainer a run: whoever trains a run holds a lock on `.<key>.lock` beside its record.

Two sweeps over one store then train each run once; the second waits, and reads what the first has
stored. The operating system takes a lock back when its process dies, however it dies. A Ray node
that does not see the store cannot lock here: two sweeps may then train one run, to one record.

A writer that is killed leaves the file of its lock behind, which is in nobody's way.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from labkit.experiments.engines.base import Task
from labkit.experiments.store import Store

# A file system without locks (some network ones): a run may train twice, to the same record.
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}
# Of a lock that is held, that was given back meanwhile, or that is another user's.
IN_USE = {errno.EWOULDBLOCK, errno.ENOENT, errno.EACCES, errno.EPERM}


@contextlib.contextmanager
def alone(task: Task, store: Store) -> Iterator[None]:
    """Wait until nobody else trains one of these runs, and keep it so for the length of a block."""
    # Everybody takes them in one order: no two wait for each other.
    keys = sorted({run.key() for run in task})
    with contextlib.ExitStack() as held:
        for key in keys:
            held.enter_context(locked(store.folder / f".{key}.lock"))
        yield


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until nobody else holds the lock that a file stands for, and hold it for a block."""
    import fcntl  # POSIX only: on Windows the book runs under WSL

    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            ours = _is_at(file, path)
        except BaseException as error:
            os.close(file)
            if isinstance(error, OSError) and error.errno in NO_LOCKS:
                file = None
                break
            raise
        if ours:
            break
        os.close(file)  # its holder removed it while we waited
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if file is not None:
            os.close(file)


def remove_unheld(path: Path, dry: bool = False) -> bool:
    """Remove the file of a lock that nobody holds; say whether it went, or would have gone."""
    import fcntl  # POSIX only

    try:
        file = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Held here, so that who waits for it sees that it is gone, and makes another.
            gone = _is_at(file, path)
            if gone and not dry:
                path.unlink()
            return gone
        finally:
            os.close(file)
    except OSError as error:
        if error.errno in IN_USE | NO_LOCKS:
            return False
        raise


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
