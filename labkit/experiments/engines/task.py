"""Train a task and store its records: what every engine does in the end, wherever it does it."""

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from labkit.experiments.engines.limits import limit_run
from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.memory import measure_usage
from labkit.experiments.own import register_sources
from labkit.experiments.replicates import execute_together
from labkit.experiments.run import Task, execute_run
from labkit.experiments.store import Store
from labkit.share import release_cache
from labkit.training import Record

# The records of a task, and what it took: see labkit.experiments.memory.
Trained = tuple[list[Record], dict[str, Any]]


def train_runs(task: Task, device: str) -> list[Record]:
    """Train the runs of a task, together where they are several; one record a run, in order."""
    if len(task) > 1:
        return execute_together(task, device)
    return [execute_run(run, device=device) for run in task]


def train_here(task: Task, device: str) -> Trained:
    """Train a task in this process. A GPU's memory is given back, however it ends."""
    try:
        with measure_usage(device) as taken:
            records = train_runs(task, device)
    finally:
        release_cache()
    return records, taken


def train_in_worker(
    task: Task, own: Mapping[str, str], device: str, seconds: float, memory: int | None
) -> Trained:
    """Train a task in a process that does nothing else, on one thread and within limits.

    `own` are the sources of the readers' norms in it.
    """
    torch.set_num_threads(1)
    register_sources(own)
    with limit_run(seconds, memory):
        return train_here(task, device)


def complete_task(
    task: Task,
    store: Store,
    slot: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    train: Callable[[Task, str], Trained] = train_here,
    give_up: Callable[[], bool] = lambda: False,
    **made: Any,
) -> int:
    """Train the runs of a task that the store lacks and store each; return how many trained.

    Waits, until `give_up` says not to, for whoever trains one of them already, and trains within
    `slot()`. `made` is kept with the records: it says how they came about.
    """
    with lock_runs(task, store, give_up):
        missing = tuple(run for run in task if store.read_fresh(run) is None)
        if not missing:
            return 0
        with slot():
            records, taken = train(missing, store.device)
        for run, record in zip(missing, records, strict=True):
            store.write_record(run, record, together=len(missing), **taken, **made)
    return len(missing)
