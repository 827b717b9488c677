"""Runs that train together as one batched model."""

from collections.abc import Sequence

from labkit.experiments.engines.base import Task
from labkit.experiments.run import CPU, Run


def tasks(runs: Sequence[Run], device: str = CPU, replicates: int | None = None) -> list[Task]:
    """Put runs into tasks: each alone."""
    return [(run,) for run in runs]
