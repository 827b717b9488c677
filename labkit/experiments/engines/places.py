"""Engines whose tasks train elsewhere: a thread for each place hands them out and waits."""

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from labkit.experiments.engines.base import Died, Task
from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.engines.task import Trained, complete_task
from labkit.experiments.engines.waiting import Waiting, name_of
from labkit.experiments.store import Store
from labkit.pool import Pool

LOG = logging.getLogger(__name__)


class Interrupted(Exception):
    """The sweep was interrupted: what is in hand is ended."""


class Places(ABC):
    """Places that train one task at a time; the records are stored here, as soon as they come.

    A task whose place dies of it is tried again, `tries` times in all.
    """

    name: str
    tries: int

    def __init__(self, root: Path, device: str):
        self.store, self.pool, self.timeout = Store(root, device), Pool(root), run_timeout()
        self.interrupted = threading.Event()

    @abstractmethod
    def train_at(self, place: int, task: Task) -> Trained:
        """Train a task at a place; Died when that died, Interrupted once `interrupted` is set."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Count the tasks that train at the same time."""

    def hold_slot(self) -> AbstractContextManager[None]:
        """Hold a slot of this machine's pool for the length of a block."""
        return self.pool.slot(self.interrupted.is_set)

    def train_tasks(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train_tasks."""
        if not tasks:
            return
        waiting, ended = Waiting(tasks, until), queue.SimpleQueue[int | None]()
        places = range(min(self.slots, len(tasks)))
        self.interrupted.clear()
        with ThreadPoolExecutor(len(places)) as threads:
            try:
                served = [
                    threads.submit(self._serve_place, place, waiting, ended) for place in places
                ]
                for _ in places:
                    for count in iter(ended.get, None):
                        done(count)
            except BaseException:
                waiting.cancel_remaining("the sweep was interrupted")
                self.interrupted.set()
                raise
        for place in served:
            place.result()
        waiting.raise_first_failure()

    def _serve_place(
        self, place: int, waiting: Waiting, ended: queue.SimpleQueue[int | None]
    ) -> None:
        train, give_up = partial(self._train_with_retries, place), self.interrupted.is_set
        done = partial(
            complete_task, store=self.store, slot=self.hold_slot, train=train, give_up=give_up
        )
        try:
            for task in waiting:
                waiting.attempt_task(task, partial(done, task, engine=self.name))
                ended.put(len(task))
        finally:
            ended.put(None)

    def _train_with_retries(self, place: int, task: Task, device: str) -> Trained:
        for _ in range(self.tries - 1):
            try:
                return self.train_at(place, task)
            except Died as died:
                LOG.warning("%s; %s is trained once more", died, name_of(task))
        try:
            return self.train_at(place, task)
        except Died as died:
            reason = f"{self.tries} times, the last time: {died}"
            raise Died(reason, died.hopeless) from died
