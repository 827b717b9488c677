"""Train a task in this process: the common part of all engines."""

from collections.abc import Mapping

import torch

from labkit.experiments.engines.limits import limit_run
from labkit.experiments.memory import measure_peak
from labkit.experiments.own import register_sources
from labkit.experiments.replicates import execute_together
from labkit.experiments.run import Task
from labkit.system.threads import use_one_thread
from labkit.training import Record

# The records of a task, and the most memory that it held: see labkit.experiments.memory.
Trained = tuple[list[Record], dict[str, int]]


def train_here(task: Task, device: str) -> Trained:
    """Train a task here, on one thread; release the GPU's memory afterwards in any case."""
    try:
        with use_one_thread(), measure_peak(device) as taken:
            records = execute_together(task, device)
    finally:
        torch.cuda.empty_cache()
    return records, taken


def train_in_worker(
    task: Task, own: Mapping[str, str], device: str, seconds: float, memory: int | None
) -> Trained:
    """Train a task in a process that does nothing else, within limits.

    `own` has the sources of readers' norms in the task.
    """
    register_sources(own)
    with limit_run(seconds, memory):
        return train_here(task, device)
