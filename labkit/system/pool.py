"""A pool of slots, shared by all processes that compute at the same time.

A slot is a lock on a small file below `<root>/.labkit/slots`. The kernel of a chapter holds a slot
while it computes, and an engine holds a slot for each task that trains, so that two builds together
still use each core once. Low-priority processes have the same number of separate slots: nobody
waits for them, and the operating system gives them the remaining time. The operating system frees a
lock when its process dies for any reason.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout

_LOW = 10  # from this nice value on, a process gives way to all others
_POLL = 0.05  # seconds between two looks for a free slot
_WATCH = 0.2  # seconds between two looks whether a parent lives


def count_cores() -> int:
    """Return the number of cores that this process may use, or LABKIT_SLOTS if it is set."""
    if asked := os.environ.get("LABKIT_SLOTS"):
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"LABKIT_SLOTS must be a whole number of at least 1, got {asked!r}")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gives_way() -> bool:
    """Return whether this process runs at low priority."""
    return hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) >= _LOW


def end_with(parent: int) -> None:
    """End this process soon after its parent, however the parent ends."""

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


class Pool:
    """A slot per core, shared by every process with the same root."""

    def __init__(self, root: Path):
        self.folder = Path(root) / ".labkit" / "slots"
        self.slots = count_cores()

    def acquire(self, give_up: Callable[[], bool] = lambda: False) -> FileLock:
        """Wait for a free slot and return its lock; release the lock to free the slot.

        Raises:
            Timeout: `give_up` returned True first.
        """
        kind = "low-" if gives_way() else ""
        while not give_up():
            for number in range(self.slots):
                name = f"{kind}{number}.lock"
                lock = FileLock(self.folder / name, blocking=False, thread_local=False)
                with contextlib.suppress(Timeout):
                    lock.acquire()
                    return lock
            time.sleep(_POLL)
        raise Timeout(str(self.folder))

    @contextlib.contextmanager
    def slot(self, give_up: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold a slot during a block."""
        held = self.acquire(give_up)
        try:
            yield
        finally:
            held.release()
