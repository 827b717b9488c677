"""What an engine is, and which there are."""

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from labkit.experiments.run import CPU, Run

# Runs that train together, as one batched model where they are more than one.
Task = tuple[Run, ...]

# name -> module: class. A module is imported when its engine is asked for.
ENGINES = {
    "processes": "labkit.experiments.engines.processes:Processes",
    "serial": "labkit.experiments.engines.serial:Serial",
}


class Engine(Protocol):
    """Trains tasks and stores their records."""

    name: str

    def train(
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
        """Let go of what the engine holds; the task in hand is finished first."""
        ...


def make_engine(
    root: Path, device: str = CPU, name: str | None = None, address: str | None = None
) -> Engine:
    """Make an engine by name: the one asked for, else LABKIT_ENGINE, else processes.

    `address` is a cluster's, for the engines that know one; else LABKIT_ENGINE_ADDRESS.
    """
    name = name or os.environ.get("LABKIT_ENGINE") or "processes"
    address = address or os.environ.get("LABKIT_ENGINE_ADDRESS")
    if name not in ENGINES:
        raise ValueError(f"unknown engine {name!r}; choose one of {', '.join(ENGINES)}")
    module, _, kind = ENGINES[name].partition(":")
    return getattr(importlib.import_module(module), kind)(Path(root), device, address)
