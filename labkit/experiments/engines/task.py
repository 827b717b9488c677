"""Train a task and store its records: what every engine does in the end, wherever it does it."""

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from labkit.experiments.engines.base import Task
from labkit.experiments.engines.locks import alone
from labkit.experiments.memory import watched
from labkit.experiments.replicates import execute_together
from labkit.experiments.run import execute
from labkit.experiments.store import Store
from labkit.share import release
from labkit.training import Record


def perform(task: Task, device: str) -> list[Record]:
    """Train the runs of a task, together where they are several; one record a run, in order."""
    if len(task) > 1:
        return execute_together(task, device)
    return [execute(run, device=device) for run in task]


def complete(
    task: Task,
    store: Store,
    slot: Callable[[], AbstractContextManager[Any]] = contextlib.nullcontext,
    **made: Any,
) -> int:
    """Train the runs of a task that the store lacks and store each; return how many trained.

    Waits for whoever trains one of them already, and trains within `slot()`. `made` is kept with
    the records: it says how they came about. A GPU's memory is given back, however it ends.
    """
    with alone(task, store):
        missing = tuple(run for run in task if store.fresh(run) is None)
        if not missing:
            return 0
        try:
            with slot(), watched(store.device) as taken:
                records = perform(missing, store.device)
        finally:
            release()
        for run, record in zip(missing, records, strict=True):
            store.put(run, record, together=len(missing), **taken, **made)
    return len(missing)
