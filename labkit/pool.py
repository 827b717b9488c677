"""One pool of slots for everything that computes at the same time, in any process.

A slot is a lock on a small file below `<root>/.labkit/slots`. The kernel of a chapter holds one
while it computes, and each worker one while it trains, so that two builds together still use each
core once. The operating system takes a lock back when its process dies, however it dies.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

_POLL = 0.05  # seconds between two looks for a free slot


def cores() -> int:
    """Count the cores that this process may use; LABKIT_SLOTS says otherwise."""
    if asked := os.environ.get("LABKIT_SLOTS"):
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"LABKIT_SLOTS must be a number of slots, 1 or more; got {asked!r}")
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """As many slots as cores, shared by every process that names the same root."""

    def __init__(self, root: Path):
        self.folder = Path(root) / ".labkit" / "slots"
        self.slots = cores()

    def acquire(self) -> int:
        """Wait for a free slot and return its open file, which `release` closes."""
        import fcntl  # POSIX only: on Windows the book runs under WSL

        self.folder.mkdir(parents=True, exist_ok=True)
        while True:
            for number in range(self.slots):
                slot = os.open(self.folder / f"{number}.lock", os.O_RDWR | os.O_CREAT, 0o644)
                try:
                    fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return slot
                except BlockingIOError:
                    os.close(slot)
            time.sleep(_POLL)

    @staticmethod
    def release(slot: int) -> None:
        """Give a slot back."""
        os.close(slot)

    @contextlib.contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot for the length of a block."""
        held = self.acquire()
        try:
            yield
        finally:
            self.release(held)
