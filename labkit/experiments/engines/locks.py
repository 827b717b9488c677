"""One trainer a run: whoever trains a run holds a lock on `.<key>.lock` beside its record.

Two sweeps over one store then train each run once; the second waits, and reads what the first has
stored. The operating system takes a lock back when its process dies, however it dies. A Ray node
that does not see the store cannot lock here: two sweeps may then train one run, to one record.
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


@contextlib.contextmanager
def alone(task: Task, store: Store) -> Iterator[None]:
    """Wait until nobody else trains one of these runs, and keep it so for the length of a block."""
    # Everybody takes them in one order: no two wait for each other.
    keys = sorted({run.key(store.device) for run in task})
    with contextlib.ExitStack() as held:
        for key in keys:
            held.enter_context(_locked(store.folder / f".{key}.lock"))
        yield


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
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


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False
