"""Engines: the interface, the list of them, and the distribution of tasks."""

import errno
import logging
import os
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path

from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.engines.task import Trained
from labkit.experiments.run import CPU, Task
from labkit.experiments.store import Store
from labkit.system.pool import Pool
from labkit.system.unknown import explain_unknown

LOG = logging.getLogger(__name__)
ENGINES = ("processes", "ray", "serial")
# labkit's own errors if a run cannot train; they state the rule, the value and a fix.
SENTENCES = (ValueError, TimeoutError, MemoryError)
TRACE = "(labkit.experiments.execute_run(run) shows where it was raised)"
FULL = "the disk is full; free some space, and run the same command again: finished runs are stored"
CLOSED = "runs are stored in the clone, which is not writable; work in a clone that you may change"
HOPELESS = {
    errno.ENOSPC: FULL,
    errno.EDQUOT: FULL,
    errno.EROFS: CLOSED,
    errno.EACCES: CLOSED,
}


class Lost(Exception):
    """A worker that had to be ended; the message gives the reason.

    `hopeless` gives the reason if the waiting tasks would fail, too.
    """

    def __init__(self, why: str, hopeless: str = ""):
        super().__init__(why)
        self.hopeless = hopeless


class Died(Lost):
    """A worker that was killed or ended; a different worker may succeed."""


class Interrupted(Exception):
    """The sweep was interrupted; running tasks are ended."""


class Engine(ABC):
    """Base class: places that each train one task at a time; records are stored as they arrive.

    A task whose worker dies is retried, up to `tries` times in total. Records go to `store`: the
    device's store, unless it is replaced.
    """

    name: str
    tries = 1

    def __init__(self, root: Path, device: str = CPU):
        self.device, self.store, self.pool = device, Store(root, device), Pool(root)
        self.longest = 0.0  # seconds that a task took so far, at most
        self.timeout = run_timeout()  # seconds that a run may take, where the engine can end one
        self.interrupted = threading.Event()

    @property
    @abstractmethod
    def slots(self) -> int:
        """Return the number of tasks that train at the same time."""

    @abstractmethod
    def train_at(self, place: int, task: Task) -> Trained:
        """Train a task in one slot; raise Died if its worker dies, Interrupted if `interrupted`."""

    def hold_slot(self) -> AbstractContextManager[None]:
        """Hold a slot of this machine's pool during a block."""
        return self.pool.slot(self.interrupted.is_set)

    def make_threads(self, count: int) -> Executor:
        """Make an executor that waits for `count` places at once."""
        return ThreadPoolExecutor(count)

    def close(self) -> None:  # noqa: B027 (not every engine holds something)
        """Release the engine's resources."""

    def train_tasks(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; call `done` with the number of runs of each task.

        A task that fails does not stop the others; at the end the first failure is raised as a
        RuntimeError. No task starts if it would end after `until` (in time.monotonic's seconds),
        assuming that it takes as long as this engine's longest task so far.
        """
        if not tasks:
            return
        waiting, free = deque(tasks), [*range(min(self.slots, len(tasks)))]
        running: dict[Future[None], tuple[Task, int, float]] = {}
        failures, hopeless = list[str](), ""
        self.interrupted.clear()
        with self.make_threads(len(free)) as threads:
            try:
                while True:
                    while waiting and free and not hopeless:
                        began = time.monotonic()
                        if until is not None and began + self.longest > until:
                            break
                        task, place = waiting.popleft(), free.pop()
                        running[threads.submit(self._complete, place, task)] = task, place, began
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        task, place, began = running.pop(future)
                        free.append(place)
                        self.longest = max(self.longest, time.monotonic() - began)
                        if (error := future.exception()) is not None:
                            failures.append(f"{name_of(task)}\n{_describe_failure(error)}")
                            hopeless = hopeless or _explain_hopeless(error)
                        done(len(task))
            except BaseException:
                self.interrupted.set()
                raise
        if failures:
            raise RuntimeError(_format_failures(failures, len(tasks), len(waiting), hopeless))

    def _complete(self, place: int, task: Task) -> None:
        """Train and store the runs of a task that the store lacks.

        If another process already trains one of them, wait for it.
        """
        with lock_runs(task, self.store, self.interrupted.is_set):
            missing = tuple(run for run in task if self.store.read_fresh(run) is None)
            if missing:
                with self.hold_slot():
                    records, taken = self._train_with_retries(place, missing)
                made = {"engine": self.name, "together": len(missing), **taken}
                for run, record in zip(missing, records, strict=True):
                    self.store.write_record(run, record, **made)

    def _train_with_retries(self, place: int, task: Task) -> Trained:
        for _ in range(self.tries - 1):
            try:
                return self.train_at(place, task)
            except Died as died:
                if self.interrupted.is_set():
                    raise Interrupted from died
                LOG.warning("%s; %s is trained once more", died, name_of(task))
        try:
            return self.train_at(place, task)
        except Died as died:
            reason = f"{self.tries} times, the last time: {died}"
            raise Died(reason, died.hopeless) from died


def _describe_failure(error: BaseException) -> str:
    """Return labkit's own message, or the full traceback of any other error."""
    if isinstance(error, Lost):
        return str(error)
    if _explain_hopeless(error):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, SENTENCES) and str(error):
        return f"{type(error).__name__}: {error}\n{TRACE}"
    return "".join(traceback.format_exception(error))


def _explain_hopeless(error: BaseException) -> str:
    """Return why the waiting tasks would fail too, or "" if they may succeed."""
    if isinstance(error, Lost):
        return error.hopeless
    return HOPELESS.get(error.errno or 0, "") if isinstance(error, OSError) else ""


def _format_failures(failures: Sequence[str], tasks: int, left: int, hopeless: str) -> str:
    """Format the first failure in full, and the task and last line of every other one."""
    first, *others = failures
    lines = [f"{len(failures)} of {tasks} tasks failed; the first:", first]
    for other in others:
        task, *_, last = other.removesuffix(f"\n{TRACE}").splitlines()
        lines.append(f"also {task}: {last}")
    if hopeless:
        lines.append(f"{left} more were not begun: {hopeless}")
    return "\n".join(lines)


def name_of(task: Task) -> str:
    """Return the name of a task for messages: its first run, and the number of others."""
    first, *others = task
    return f"{first} and {len(others)} more that train with it" if others else str(first)


def make_engine(
    root: Path, device: str = CPU, name: str | None = None, address: str | None = None
) -> Engine:
    """Make an engine by name: `name`, else LABKIT_ENGINE, else processes.

    `address` is a cluster's, for engines that use one; the default is LABKIT_ENGINE_ADDRESS.
    """
    name = check_engine(name, address)
    root = Path(root).absolute()
    if name == "ray":
        from labkit.experiments.engines.on_ray import OnRay

        return OnRay(root, device, address or os.environ.get("LABKIT_ENGINE_ADDRESS"))
    if name == "serial":
        from labkit.experiments.engines.serial import Serial

        return Serial(root, device)
    from labkit.experiments.engines.processes import Processes

    return Processes(root, device)


def check_engine(name: str | None = None, address: str | None = None) -> str:
    """Return the name of the engine; raise ValueError if it is unknown or cannot use `address`."""
    name = name or os.environ.get("LABKIT_ENGINE") or "processes"
    if name not in ENGINES:
        raise ValueError(explain_unknown("engine", name, ENGINES))
    if address and name != "ray":
        raise ValueError(
            f"only the engine 'ray' has an address, but {name!r} was given the address "
            f"{address!r}; leave it out, or choose the engine 'ray'"
        )
    return name
