"""sweep: train a list of runs on any engine and get their records.

    records = sweep(runs, engine="processes")

Runs that are equal train once, those in the store not at all. The same runs have the same keys
and the same records on every engine.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from labkit.experiments.engines.base import make_engine
from labkit.experiments.filling import fill, read_believed
from labkit.experiments.lab import project_root
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.training import Record


class Records(list[Record]):
    """Records in the order of their `runs`."""

    def __init__(self, runs: Sequence[Run], records: Sequence[Record]):
        super().__init__(records)
        self.runs = list(runs)


def sweep(
    runs: Sequence[Run],
    engine: str | None = None,
    *,
    root: Path | None = None,
    device: str = CPU,
    address: str | None = None,
    replicates: int | None = None,
    timeout: float | None = None,
    progress: bool = True,
) -> Records:
    """Train the runs that the store lacks, and return the records of all, in the order of `runs`.

    engine      "processes" (one a core), "serial" or "ray"; without one LABKIT_ENGINE's, or
                processes
    root        the folder whose .labkit holds the store; without one the project's
    device      a class of devices: "cpu", or a GPU's name
    address     the cluster's, for an engine that knows one
    replicates  how many runs train together at most, where they can; 1: each alone; without one
                LABKIT_REPLICATES, else many on a GPU and one on a CPU
    timeout     seconds a run may take; without one LABKIT_RUN_TIMEOUT, else an hour

    A run that fails does not stop the others; at the end the first failure is raised as a
    RuntimeError, and the same call goes on from what is stored.
    """
    runs = list(runs)
    store = Store(project_root() if root is None else Path(root), device)
    trains = make_engine(store.root, device, engine, address, timeout)
    try:
        found, missing = read_believed(runs, store)
        if missing:
            if progress and found:
                print(f"{len(found)} runs are stored, {len(missing)} train", file=sys.stderr)
            found |= fill(missing, store, trains, replicates=replicates, progress=progress)
    finally:
        trains.close()
    return Records(runs, [found[run.key()] for run in runs])
