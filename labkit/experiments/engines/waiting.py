"""The tasks of one call of an engine: handed out one by one, their failures kept to the end."""

import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from labkit.experiments.engines.base import FULL, Lost, Task, disk_full


class Waiting:
    """Tasks that wait for their turn; several threads may take from it."""

    def __init__(self, tasks: Sequence[Task], until: float | None = None):
        self._waiting, self._all, self._until = deque(tasks), len(tasks), until
        self._longest, self._failures, self._why = 0.0, [], ""
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[Task]:
        """Hand out tasks, until there is none, or no time for one as long as the longest."""
        while (task := self._take_next()) is not None:
            yield task

    def _take_next(self) -> Task | None:
        with self._lock:
            if self._until is not None and time.monotonic() + self._longest > self._until:
                return None
            return self._waiting.popleft() if self._waiting and not self._why else None

    def attempt_task(self, task: Task, train: Callable[[], object]) -> None:
        """Train a task; note how long that took, and why it failed."""
        began, failure = time.monotonic(), None
        try:
            train()
        except Lost as lost:
            failure = str(lost)
            self.cancel_remaining(lost.hopeless)
        except Exception as error:
            failure = traceback.format_exc()
            self.cancel_remaining(FULL if disk_full(error) else "")
        with self._lock:
            self._longest = max(self._longest, time.monotonic() - began)
            if failure is not None:
                self._failures.append(f"{name_of(task)}\n{failure}")

    def cancel_remaining(self, why: str) -> None:
        """Hand out no more: what went wrong would go wrong for every other task too."""
        with self._lock:
            self._why = self._why or why

    def raise_first_failure(self) -> None:
        """Raise the first failure, if there is one."""
        if not self._failures:
            return
        first, *others = self._failures
        message_lines = [f"{len(self._failures)} of {self._all} tasks failed; the first:", first]
        for other in others:
            lines = other.splitlines()
            message_lines.append(f"also {lines[0]}: {lines[-1]}")
        if self._why:
            message_lines.append(f"{len(self._waiting)} more were not begun: {self._why}")
        raise RuntimeError("\n".join(message_lines))


def name_of(task: Task) -> str:
    """Name a task in a message by its first run."""
    first, *others = task
    return f"{first} and {len(others)} more that train with it" if others else str(first)
