"""From runs to their records: what the store has is read, what it lacks is trained and read.

The one way there: of a chapter's Lab, of `sweep`, and of `make runs`.
"""

import os
from collections.abc import Iterable, Sequence

from tqdm.auto import tqdm

from labkit.experiments.engines.base import Engine
from labkit.experiments.replay import replay_run
from labkit.experiments.replicates import group_runs
from labkit.experiments.run import Run
from labkit.experiments.store import CODE, Store
from labkit.training import Record


class MissingRuns(RuntimeError):
    """Runs that would have to be trained where nothing may be (LABKIT_TRAIN=never)."""


def read_records(runs: Sequence[Run], store: Store) -> tuple[dict[str, Record], list[Run]]:
    """Read the records that are there, by key, and list the runs that lack one, each once."""
    distinct = {run.key(): run for run in runs}
    records = {key: store.read_record(run) for key, run in distinct.items()}
    found = {key: record for key, record in records.items() if record is not None}
    return found, [run for key, run in distinct.items() if key not in found]


def read_believed(runs: Sequence[Run], store: Store) -> tuple[dict[str, Record], list[Run]]:
    """Read as `read_records` does, but leave out what this code no longer computes.

    Of the runs that other code trained here, one of each configuration is replayed. (The book's
    own records are replayed by the build.)
    """
    found, missing = read_records(runs, store)
    distinct = {run.key(): run for run in runs}
    foreign: dict[str, list[str]] = {}
    for key in found:
        if (row := store.read_own_row(key)) and row["provenance"].get("code") != CODE:
            foreign.setdefault(distinct[key].hash_configuration(), []).append(key)
    for keys in foreign.values():
        if not replay_run(distinct[keys[0]], found[keys[0]], store.device).agrees:
            missing += [distinct[key] for key in keys]
            for key in keys:
                store.mark_stale(key)  # else whoever is to train it finds the record, and does not
                del found[key]
    return found, missing


def may_train() -> bool:
    """Return whether runs may be trained here: LABKIT_TRAIN=never says no."""
    return os.environ.get("LABKIT_TRAIN") != "never"


def train_missing(
    missing: Iterable[Run],
    engine: Engine,
    *,
    replicates: int | None = None,
    until: float | None = None,
    progress: bool = True,
) -> None:
    """Train distinct runs under one bar, which says how long is left; see Engine.train_tasks."""
    runs = list(missing)
    with tqdm(total=len(runs), desc="runs", unit="run", delay=3, disable=not progress) as bar:
        tasks = group_runs(runs, engine.device, replicates)
        engine.train_tasks(tasks, done=bar.update, until=until)


def train_and_read(
    missing: Sequence[Run],
    engine: Engine,
    *,
    replicates: int | None = None,
    progress: bool = True,
) -> dict[str, Record]:
    """Train distinct runs and read their records, by key."""
    train_missing(missing, engine, replicates=replicates, progress=progress)
    found, vanished = read_records(missing, engine.store)
    if vanished:
        raise RuntimeError(
            f"each run that was trained must have its record, but {len(vanished)} of "
            f"{len(missing)} have none: one was deleted meanwhile; call the same command again, "
            "or run the cell again, to continue"
        )
    return found
