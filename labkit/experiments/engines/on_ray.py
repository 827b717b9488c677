"""The Ray engine: one Ray task a task, on this machine or on a cluster.

Ray says where a task trains; this engine hands out as many as there is room for, watches over
each and keeps what comes back. See chapters/cluster.md for the commands.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.experiments.engines.base import FULL, Task, disk_full
from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.engines.ray_cluster import Cluster, import_ray
from labkit.experiments.engines.ray_needs import needs
from labkit.experiments.engines.ray_sign import sign
from labkit.experiments.engines.ray_work import BEGAN, order
from labkit.experiments.engines.waiting import Waiting, name_of
from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.pool import Pool
from labkit.share import fraction
from labkit.training import Record

RETRIES = 2  # of a task whose worker died
TICK = 1.0  # seconds between two looks for tasks that hang
KEPT = "what finished is stored: the same command goes on"


@dataclass(eq=False)
class Flight:
    """A task in Ray's hands."""

    task: Task
    order: dict[str, Any]
    answers: Any  # what Ray streams back, see ray_work
    attempt: int = 1
    began: float | None = None  # when it had its slot, as time.monotonic counts


class OnRay:
    """Ray tasks of one CPU, on a GPU with LABKIT_GPU_FRACTION of one (default: a quarter).

    Without an address Ray runs on this machine for the life of the engine, on as many CPUs as
    the pool has slots; with one ("auto", "host:port") a cluster is joined, and left running. A
    cluster's runs add up to whole GPUs; a Ray of our own stays within LABKIT_GPU_FRACTION.
    """

    name = "ray"

    def __init__(self, root: Path, device: str = CPU, address: str | None = None):
        import_ray()
        self.root, self.store, self.address = Path(root), Store(root, device), address
        self.timeout, self.needs = run_timeout(), needs(device)
        self.share = self.needs.get("GPU", 1)
        if device != CPU and address is None and fraction() is not None:
            self.needs["GPU"] = 1  # a Ray of our own: one run at a time has all of our part
        self._cluster: Cluster | None = None
        self._deep = 2  # tasks in flight for each place

    @property
    def slots(self) -> int:
        """Count the tasks that train at the same time; asks the cluster, where there is one."""
        return self._connected().slots() if self.address else Pool(self.root).slots

    def train(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; see Engine.train."""
        if not tasks:
            return
        ray, waiting = self._connected().ray, Waiting(tasks, until)
        # A worker that finds the next task in Ray's hands goes on at once; with little time left
        # none is handed over before it can begin.
        self._deep = 2 if until is None else 1
        in_flight: dict[Any, Flight] = {}
        with sign(self.store.folder) as ours:
            try:
                while self._launch(waiting, in_flight, ours, done):
                    ready, _ = ray.wait(list(in_flight), timeout=TICK)
                    for answers in ready:
                        self._advance(in_flight.pop(answers), waiting, in_flight, done)
                    self._end_overdue(waiting, in_flight, done)
            finally:
                for answers in in_flight:
                    ray.cancel(answers, force=True)
        waiting.check()

    def close(self) -> None:
        """Leave the cluster; end a Ray that this engine started."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None or not self._cluster.ray.is_initialized():
            self._cluster = Cluster(self.address, Pool(self.root).slots, self.needs)
        return self._cluster

    def _launch(
        self, waiting: Waiting, in_flight: dict[Any, Flight], ours: Path, done: Callable
    ) -> bool:
        """Fill the free places with tasks; say whether any is under way."""
        free = self._deep * self._connected().slots() - len(in_flight)
        while free > 0 and (task := waiting.next()) is not None:
            if all(self.store.get(run) is not None for run in task):  # another sweep was faster
                done(len(task))
                continue
            memory = int(self.needs["memory"]) if "memory" in self.needs else None
            self._submit(
                Flight(task, order(task, self.store, ours, memory, self.share), None),
                in_flight,
            )
            free -= 1
        return bool(in_flight)

    def _submit(self, flight: Flight, in_flight: dict[Any, Flight]) -> None:
        flight.answers, flight.began = self._connected().submit(flight.order), None
        in_flight[flight.answers] = flight

    def _advance(
        self, flight: Flight, waiting: Waiting, in_flight: dict[Any, Flight], done: Callable
    ) -> None:
        """Take a task's next answer: it began, it is finished, it failed, or its worker died."""
        ray, failure = self._connected().ray, None
        try:
            answer = ray.get(next(flight.answers))
            if answer == BEGAN:
                flight.began = time.monotonic()
                in_flight[flight.answers] = flight
                return
            if isinstance(answer, dict):
                failure = answer["error"]
                ray.cancel(flight.answers, force=True)
            else:
                self._keep(flight, answer)
        except ray.exceptions.RayTaskError as error:
            failure = str(error)
            if disk_full(error.cause):
                waiting.stop(FULL)
        except ray.exceptions.RuntimeEnvSetupError as error:
            failure = str(error)
        except ray.exceptions.RayError as error:
            if flight.attempt <= RETRIES:
                flight.attempt += 1
                self._submit(flight, in_flight)
                return
            failure = f"its worker died {flight.attempt} times, the last time: {error}\n{KEPT}"
        except OSError as error:
            failure = f"its records could not be stored: {error}"
            if disk_full(error):
                waiting.stop(FULL)
        self._ended(flight, failure, waiting, done)

    def _keep(self, flight: Flight, entries: list[dict[str, Any]]) -> None:
        """Store what a node trained and could not store here by itself."""
        for run, entry in zip(flight.task, entries, strict=True):
            if self.store.get(run) is None:
                record = Record(**entry["record"])
                self.store.put(run, record, **entry["made"])

    def _end_overdue(self, waiting: Waiting, in_flight: dict[Any, Flight], done: Callable) -> None:
        now = time.monotonic()
        for flight in list(in_flight.values()):
            limit = self.timeout * len(flight.task)
            if flight.began is None or now - flight.began <= limit:
                continue
            self._connected().ray.cancel(flight.answers, force=True)
            del in_flight[flight.answers]
            failure = (
                f"it may take {limit:g} seconds and was ended; if it does not hang but takes "
                "long, let it (LABKIT_RUN_TIMEOUT=7200, in seconds per run)"
            )
            self._ended(flight, failure, waiting, done)

    def _ended(self, flight: Flight, failure: str | None, waiting: Waiting, done: Callable) -> None:
        seconds = time.monotonic() - (flight.began or time.monotonic())
        waiting.ended(seconds, failure and f"{name_of(flight.task)}\n{failure}")
        done(len(flight.task))
