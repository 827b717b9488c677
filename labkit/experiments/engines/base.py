"""What an engine is, and which there are."""

import errno
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.run import CPU, Run
from labkit.unknown import explain_unknown

# Runs that train together, as one batched model where they are more than one.
Task = tuple[Run, ...]

# name -> module: class. A module is imported when its engine is asked for.
ENGINES = {
    "processes": "labkit.experiments.engines.processes:Processes",
    "ray": "labkit.experiments.engines.on_ray:OnRay",
    "serial": "labkit.experiments.engines.serial:Serial",
}
LOCAL = ("processes", "serial")  # those of this machine, which know no address
FULL = "the disk is full; free some space, and the same command goes on: what finished is stored"


class Lost(Exception):
    """A worker that had to be ended; its text says why.

    `hopeless` says why the tasks that wait would fare no better, where they would not.
    """

    def __init__(self, why: str, hopeless: str = ""):
        super().__init__(why)
        self.hopeless = hopeless


class Died(Lost):
    """A worker that was killed, or that ended: another one may fare better."""


class Engine(Protocol):
    """Trains tasks and stores their records."""

    name: str
    slots: int  # how many tasks train at the same time
    timeout: float  # seconds that a run may take, where the engine can end one

    def train_tasks(
        self,
        tasks: Sequence[Task],
        done: Callable[[int], object] = lambda runs: None,
        until: float | None = None,
    ) -> None:
        """Train every run that the store lacks; call `done` with a task's number of runs.

        A task that fails does not stop the others; at the end the first failure is raised as a
        RuntimeError. None is begun that would end after `until` (as time.monotonic counts), were
        it as long as the longest so far.
        """
        ...

    def close(self) -> None:
        """Let go of what the engine holds."""
        ...


def make_engine(
    root: Path,
    device: str = CPU,
    name: str | None = None,
    address: str | None = None,
    timeout: float | None = None,
) -> Engine:
    """Make an engine by name: the one asked for, else LABKIT_ENGINE, else processes.

    `address` is a cluster's, for the engines that know one; else LABKIT_ENGINE_ADDRESS. `timeout`
    is how many seconds a run may take; else LABKIT_RUN_TIMEOUT, else an hour.
    """
    name = check_engine(name, address)
    address = address or os.environ.get("LABKIT_ENGINE_ADDRESS")
    module, _, kind = ENGINES[name].partition(":")
    engine = getattr(importlib.import_module(module), kind)(Path(root).absolute(), device, address)
    engine.timeout = run_timeout(timeout)
    return engine


def check_engine(name: str | None = None, address: str | None = None) -> str:
    """Return which engine is meant; ValueError where there is none, or none with an address."""
    name = name or os.environ.get("LABKIT_ENGINE") or "processes"
    if name not in ENGINES:
        raise ValueError(explain_unknown("engine", name, ENGINES))
    if address and name in LOCAL:
        raise ValueError(
            f"an address goes with an engine that knows one; {name!r} trains on this machine, "
            f"but the address {address!r} came: leave it out, or name another engine"
        )
    return name


def disk_full(error: BaseException) -> bool:
    """Return whether an error says that there is no space left to write to."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
