"""From runs to their records: what the store has is read, what it lacks is trained and read.

The one way there: of a chapter's Lab, of `sweep`, and of `labkit book runs`.
"""

from collections.abc import Sequence

from tqdm.auto import tqdm

from labkit.experiments.engines.base import Engine
from labkit.experiments.replicates import tasks
from labkit.experiments.run import Run
from labkit.experiments.store import Store
from labkit.training import Record


def read(runs: Sequence[Run], store: Store) -> tuple[dict[str, Record], list[Run]]:
    """Read the records that are there, by key, and list the runs that lack one, each once."""
    distinct = {run.key(store.device): run for run in runs}
    records = {key: store.get(run) for key, run in distinct.items()}
    found = {key: record for key, record in records.items() if record is not None}
    return found, [run for key, run in distinct.items() if key not in found]


def train(
    missing: Sequence[Run],
    store: Store,
    engine: Engine,
    *,
    replicates: int | None = None,
    until: float | None = None,
    progress: bool = True,
) -> None:
    """Train distinct runs under one bar, which says how long is left; see Engine.train."""
    with tqdm(total=len(missing), desc="runs", unit="run", delay=3, disable=not progress) as bar:
        engine.train(tasks(missing, store.device, replicates), done=bar.update, until=until)


def fill(
    missing: Sequence[Run],
    store: Store,
    engine: Engine,
    *,
    replicates: int | None = None,
    progress: bool = True,
) -> dict[str, Record]:
    """Train distinct runs and read their records, by key."""
    train(missing, store, engine, replicates=replicates, progress=progress)
    found, vanished = read(missing, store)
    if vanished:
        raise RuntimeError(
            f"each run that was trained must have its record, but {len(vanished)} of "
            f"{len(missing)} have none: one vanished, or labkit was edited meanwhile; "
            "the same command, or the cell run again, goes on"
        )
    return found
