"""Train a task and store its records: what every engine does in the end, wherever it does it."""

from labkit.experiments.engines.base import Task
from labkit.experiments.memory import watched
from labkit.experiments.run import execute
from labkit.experiments.store import Store
from labkit.training import Record


def perform(task: Task, device: str) -> list[Record]:
    """Train the runs of a task, together where they are several; one record a run, in order."""
    return [execute(run, device=device) for run in task]


def complete(task: Task, store: Store) -> int:
    """Train the runs of a task that the store lacks and store each; return how many trained."""
    missing = tuple(run for run in task if store.get(run) is None)
    with watched(store.device) as taken:
        records = perform(missing, store.device)
    for run, record in zip(missing, records, strict=True):
        store.put(run, record, **taken)
    return len(missing)
