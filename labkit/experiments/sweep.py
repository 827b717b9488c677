"""sweep: train a list of runs on any engine and get their records.

    records = sweep(runs, engine="processes", budget="10m")

Runs that are equal train once, those in the store not at all. The same runs have the same keys
and the same records on every engine.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from labkit.experiments.budget import estimate, within
from labkit.experiments.durations import format_duration, parse_duration
from labkit.experiments.engines.base import make_engine
from labkit.experiments.filling import fill, read
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
    budget: float | str | None = None,
    shrink: bool = False,
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
    budget      seconds, or "10m": with an estimate above it a ValueError says what is needed. With
                `shrink` the sweep says what it leaves out instead, and the rest is trained; then
                the result's `runs` says which records came
    timeout     seconds a run may take; without one LABKIT_RUN_TIMEOUT, else an hour

    A run that fails does not stop the others; at the end the first failure is raised as a
    RuntimeError, and the same call goes on from what is stored.
    """
    runs = list(runs)
    store = Store(project_root() if root is None else Path(root), device)
    trains = make_engine(store.folder.parents[1], device, engine, address, timeout)
    try:
        found, missing = read(runs, store)
        if missing and budget is not None:
            runs = within(runs, store, trains.slots, budget, shrink)  # stored ones too: whole seeds
            wanted = {run.key(device) for run in runs}
            missing = [run for run in missing if run.key(device) in wanted]
        if missing:
            if progress:
                # With a budget they were counted before, and what was measured for it is gone.
                expected = (
                    estimate(missing, store, trains.slots)
                    if budget is None
                    else f"within {format_duration(parse_duration(budget))}"
                )
                print(f"{len(found)} runs are stored; the others: {expected}", file=sys.stderr)
            found |= fill(missing, store, trains, replicates=replicates, progress=progress)
    finally:
        trains.close()
    kept = [run for run in runs if run.key(device) in found]
    return Records(kept, [found[run.key(device)] for run in kept])
