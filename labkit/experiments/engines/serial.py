"""The serial engine: trains in this process, one task after another."""

import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from labkit.experiments.engines.base import Task
from labkit.experiments.engines.task import complete
from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.pool import Pool


class Serial:
    """No processes: a debugger's breakpoint in a training step stops here."""

    name = "serial"

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        self.store, self._pool = Store(root, device), Pool(root)

    def train(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train."""
        longest, failures = 0.0, []
        for task in tasks:
            began = time.monotonic()
            if until is not None and began + longest > until:
                break
            try:
                with self._pool.slot():
                    complete(task, self.store)
            except Exception:
                failures.append(f"{task}\n{traceback.format_exc()}")
            longest = max(longest, time.monotonic() - began)
            done(len(task))
        if failures:
            raise RuntimeError(
                f"{len(failures)} of {len(tasks)} tasks failed; the first:\n{failures[0]}"
            )

    def close(self) -> None:
        """Nothing is held."""
