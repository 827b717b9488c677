"""Train an experiment, or a list of runs, on any engine.

    results = sweep(Experiment(run, {"model.recipe": ["pre", "post"], "seed": [0, 1]}))
    records = sweep([run, other], engine="processes")

Equal runs train once; stored runs do not train again. The same runs have the same keys and the same
records on every engine.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict, Unpack, overload

from labkit.experiments.engines.base import make_engine
from labkit.experiments.experiment import Experiment, Results
from labkit.experiments.filling import read_believed, train_and_read
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.system.root import project_root
from labkit.training import Record


class Options(TypedDict, total=False):
    """Options of a sweep; `sweep` explains each of them."""

    root: Path | None
    device: str
    address: str | None
    progress: bool


@overload
def sweep(runs: Experiment, engine: str | None = None, **options: Unpack[Options]) -> Results: ...
@overload
def sweep(
    runs: Sequence[Run], engine: str | None = None, **options: Unpack[Options]
) -> list[Record]: ...
def sweep(
    runs: Experiment | Sequence[Run],
    engine: str | None = None,
    *,
    root: Path | None = None,
    device: str = CPU,
    address: str | None = None,
    progress: bool = True,
) -> list[Record] | Results:
    """Train the runs that the store lacks, and return the records of all, in the order of `runs`.

    runs     an Experiment gives Results, its records by label; a list of runs gives a list
    engine   "processes" (one per core), "serial" or "ray"; default: LABKIT_ENGINE, or processes
    root     the folder whose .labkit contains the store; default: the project's
    device   a class of devices: "cpu", or a GPU's name
    address  the cluster's address, for an engine that uses one

    A run that fails does not stop the others. At the end the first failure is raised as a
    RuntimeError; the same call then continues from the stored records.
    """
    if isinstance(runs, Experiment):
        labels, of_grid = zip(*runs.runs(), strict=True)
    else:
        labels, of_grid = None, list(runs)
        if wrong := [each for each in of_grid if not isinstance(each, Run)]:
            raise TypeError(
                f"sweep needs an Experiment or a list of Runs, got a {type(wrong[0]).__name__} in "
                "the list; pass the Experiment itself"
            )
    store = Store(project_root() if root is None else Path(root), device)
    trains = make_engine(store.root, device, engine, address)
    try:
        found, missing = read_believed(of_grid, store)
        if missing:
            if progress and found:
                print(f"{len(found)} runs are stored, {len(missing)} train", file=sys.stderr)
            found |= train_and_read(missing, trains, progress=progress)
    finally:
        trains.close()
    records = [found[run.key()] for run in of_grid]
    if labels is not None:
        return Results(tuple(zip(labels, records, strict=True)))
    return records
