"""The tasks of one call of an engine: handed out one by one, their failures kept to the end."""

import threading
import time
from collections import deque
from collections.abc import Sequence

from labkit.experiments.engines.base import Task


class Waiting:
    """Tasks that wait for their turn; several threads may take from it."""

    def __init__(self, tasks: Sequence[Task], until: float | None = None):
        self._waiting, self._all, self._until = deque(tasks), len(tasks), until
        self._longest, self._failures, self._why = 0.0, [], ""
        self._lock = threading.Lock()

    def next(self) -> Task | None:
        """Hand out a task; None when there is none, or no time for one as long as the longest."""
        with self._lock:
            if self._until is not None and time.monotonic() + self._longest > self._until:
                return None
            return self._waiting.popleft() if self._waiting and not self._why else None

    def ended(self, seconds: float, failure: str | None = None) -> None:
        """Note how long a task took, and why it failed."""
        with self._lock:
            self._longest = max(self._longest, seconds)
            if failure is not None:
                self._failures.append(failure)

    def stop(self, why: str) -> None:
        """Hand out no more: what went wrong would go wrong for every other task too."""
        with self._lock:
            self._why = self._why or why

    def check(self) -> None:
        """Raise the first failure, if there is one."""
        if not self._failures:
            return
        first, *others = self._failures
        said = [f"{len(self._failures)} of {self._all} tasks failed; the first:", first]
        for other in others:
            lines = other.splitlines()
            said.append(f"also {lines[0]}: {lines[-1]}")
        if self._why:
            said.append(f"{len(self._waiting)} more were not begun: {self._why}")
        raise RuntimeError("\n".join(said))


def name_of(task: Task) -> str:
    """Name a task in a message by its first run."""
    more = f" and {len(task) - 1} more that train with it" if len(task) > 1 else ""
    return f"{task[0]}{more}"
