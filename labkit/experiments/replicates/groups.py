"""Put runs into tasks: groups that may train together, as large as memory allows."""

import os
from collections.abc import Hashable, Sequence
from itertools import pairwise
from math import ceil

from labkit.experiments.engines.base import Task
from labkit.experiments.replicates.alike import structure
from labkit.experiments.replicates.memory import fitting
from labkit.experiments.run import CPU, Run

ON_A_GPU = 64  # at most, unless more are asked for


def asked_for(device: str = CPU, replicates: int | None = None) -> int:
    """Say how many runs may train together: as asked, else LABKIT_REPLICATES, else by device.

    1 on a CPU, where it gains little; `ON_A_GPU` on a GPU, where small models wait for launches.
    """
    if replicates is None and (said := os.environ.get("LABKIT_REPLICATES", "auto")) != "auto":
        if not said.isdigit():
            raise ValueError(f"LABKIT_REPLICATES must be a number, 1 or more, or auto; got {said}")
        replicates = int(said)
    if replicates is None:
        return 1 if device == CPU else ON_A_GPU
    if replicates < 1:
        raise ValueError(f"replicates must be at least 1 (1: each run alone), got {replicates}")
    return replicates


def tasks(runs: Sequence[Run], device: str = CPU, replicates: int | None = None) -> list[Task]:
    """Put runs into tasks: those that may train together, at most so many as fit into memory.

    Tasks stand in the order of their first runs, and runs within a task in their own; a group
    that is too large is cut into tasks of nearly one size. A model that cannot be batched
    (`memory.fitting` says so) keeps its runs apart, so that they share out over workers.
    """
    most = asked_for(device, replicates)
    groups: dict[Hashable, list[Run]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(i if most == 1 else structure(run), []).append(run)
    found: list[Task] = []
    for group in groups.values():
        size = 1 if len(group) == 1 else min(most, fitting(group[0], device))
        parts = ceil(len(group) / size)
        ends = [len(group) * i // parts for i in range(parts + 1)]
        found += [tuple(group[a:b]) for a, b in pairwise(ends)]
    return found
