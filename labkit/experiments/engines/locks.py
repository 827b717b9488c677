"""One trainer per run: it holds a lock on `.<key>.lock` next to the run's record.

So two sweeps over the same store train each run once; the second waits, and reads the record that
the first has stored. The operating system frees a lock when its process dies for any reason.

A trainer that is killed leaves its lock file behind, which does no harm.
"""

import contextlib
import errno
from collections.abc import Callable, Iterator

from filelock import FileLock, Timeout

from labkit.experiments.run import Task
from labkit.experiments.store import Store

# A file system without locks (some network ones): a run may train twice, to the same record.
NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP}


@contextlib.contextmanager
def lock_runs(
    task: Task, store: Store, give_up: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Wait until nobody else trains any of these runs, and lock them for the block.

    Raises:
        Timeout: `give_up` returned True first.
    """
    with contextlib.ExitStack() as held:
        # Everybody takes them in the same order, so no two processes wait for each other.
        for path in sorted({store.folder / f".{run.key()}.lock" for run in task}):
            lock = FileLock(path)
            try:
                lock.acquire(cancel_check=give_up)
            except OSError as error:
                if isinstance(error, Timeout) or error.errno not in NO_LOCKS:
                    raise
            held.callback(lock.release)
            # Before the release: a waiting process finds its file missing, and makes a new one.
            held.callback(path.unlink, missing_ok=True)
        yield
