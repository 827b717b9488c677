"""Train a task and store its records: what every engine does in the end, wherever it does it."""

from labkit.experiments.engines.base import Task
from labkit.experiments.replicates import execute_together
from labkit.experiments.run import execute
from labkit.experiments.store import Store
from labkit.training import Record


def perform(task: Task, device: str) -> list[Record]:
    """Train the runs of a task, together where they are several; one record a run, in order."""
    if len(task) > 1:
        return execute_together(task, device)
    return [execute(run, device=device) for run in task]


def complete(task: Task, store: Store) -> int:
    """Train the runs of a task that the store lacks and store each; return how many trained."""
    missing = tuple(run for run in task if store.get(run) is None)
    for run, record in zip(missing, perform(missing, store.device), strict=True):
        store.put(run, record)
    return len(missing)
