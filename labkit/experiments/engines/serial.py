"""The serial engine: trains in this process, one task after another."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from labkit.experiments.engines.base import Task
from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.engines.task import complete_task
from labkit.experiments.engines.waiting import Waiting
from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.pool import Pool
from labkit.share import limit_memory, read_fraction


class Serial:
    """No processes: a debugger's breakpoint in a training step stops here.

    Nobody watches this process: a run that hangs or leaks here is yours to stop.
    """

    name = "serial"

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        self.store, self._pool, self.slots = Store(root, device), Pool(root), 1
        self.timeout = run_timeout()

    def train_tasks(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train_tasks."""
        waiting = Waiting(tasks, until)
        if self.store.device != CPU:
            limit_memory(read_fraction())
        for task in waiting:
            train = partial(complete_task, task, self.store, self._pool.slot, engine=self.name)
            waiting.attempt_task(task, train)
            done(len(task))
        waiting.raise_first_failure()

    def close(self) -> None:
        """Nothing is held."""
