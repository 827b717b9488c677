"""One pool of slots for everything that computes at the same time, in any process.

A slot is a lock on a small file below `<root>/.labkit/slots`. The kernel of a chapter holds one
while it computes, and an engine one for each task that trains, so that two builds together still
use each core once. What runs at low priority has as many slots of its own: nobody waits for it,
and the operating system gives it the time that is left. It takes a lock back when its process dies,
however it dies.
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
    """Count the cores that this process may use; LABKIT_SLOTS says otherwise."""
    if asked := os.environ.get("LABKIT_SLOTS"):
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"LABKIT_SLOTS must be a number of slots, 1 or more; got {asked!r}")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gives_way() -> bool:
    """Return whether this process runs at low priority."""
    return hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) >= _LOW


def end_with(parent: int) -> None:
    """End this process, whatever it is doing, soon after its parent, however that ends."""

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


class Pool:
    """As many slots as cores, shared by every process that names the same root."""

    def __init__(self, root: Path):
        self.folder = Path(root) / ".labkit" / "slots"
        self.slots = count_cores()

    def acquire(self, give_up: Callable[[], bool] = lambda: False) -> FileLock:
        """Wait for a free slot and return its lock, which is released to give it back.

        Raises:
            Timeout: `give_up` said yes before that.
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
