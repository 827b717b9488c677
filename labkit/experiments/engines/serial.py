"""The serial engine: it trains in this process, one task after another."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path

from labkit.experiments.engines.base import Engine
from labkit.experiments.engines.task import Trained, train_here
from labkit.experiments.run import CPU, Task
from labkit.system.share import limit_memory, read_fraction


class Serial(Engine):
    """Training without worker processes: a debugger's breakpoint in a training step works.

    There are no limits: you must stop a run that hangs or leaks memory yourself.
    """

    name = "serial"

    def __init__(self, root: Path, device: str = CPU):
        super().__init__(root, device)
        if device != CPU:
            limit_memory(read_fraction())

    @property
    def slots(self) -> int:
        """Return 1: this process trains one task at a time."""
        return 1

    def train_at(self, place: int, task: Task) -> Trained:
        """Train a task in this process."""
        return train_here(task, self.device)

    def make_threads(self, count: int) -> Executor:
        """Make an executor that runs each call at once, in this thread."""
        return _AtOnce()


class _AtOnce(Executor):
    def submit(self, fn: Callable, /, *args, **kwargs) -> Future:
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
