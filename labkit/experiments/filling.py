"""From runs to their records: read the store, train missing runs, and read those.

A chapter's Lab, `sweep` and `make runs` all use this code.
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
    """Runs have no records and must not be trained here (LABKIT_TRAIN=never)."""


def read_records(runs: Sequence[Run], store: Store) -> tuple[dict[str, Record], list[Run]]:
    """Read the existing records, by key, and list the runs without one, each once."""
    distinct = {run.key(): run for run in runs}
    records = {key: store.read_record(run) for key, run in distinct.items()}
    found = {key: record for key, record in records.items() if record is not None}
    return found, [run for key, run in distinct.items() if key not in found]


def read_believed(runs: Sequence[Run], store: Store) -> tuple[dict[str, Record], list[Run]]:
    """Read like `read_records`, but leave out records that the current code does not reproduce.

    Of the runs that different code trained here, one per configuration is replayed. (The build
    replays the book's own records.)
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
                store.mark_stale(key)  # else the trainer would find the record and skip the run
                del found[key]
    return found, missing


def may_train() -> bool:
    """Return whether runs may be trained here, that is, unless LABKIT_TRAIN=never."""
    return os.environ.get("LABKIT_TRAIN") != "never"


def train_missing(
    missing: Iterable[Run],
    engine: Engine,
    *,
    until: float | None = None,
    progress: bool = True,
) -> None:
    """Train distinct runs with one progress bar, which shows the time left; see train_tasks."""
    runs = list(missing)
    with tqdm(total=len(runs), desc="runs", unit="run", delay=3, disable=not progress) as bar:
        tasks = group_runs(runs, engine.device)
        engine.train_tasks(tasks, done=bar.update, until=until)


def train_and_read(
    missing: Sequence[Run], engine: Engine, *, progress: bool = True
) -> dict[str, Record]:
    """Train distinct runs and read their records, by key."""
    train_missing(missing, engine, progress=progress)
    found, vanished = read_records(missing, engine.store)
    if vanished:
        raise RuntimeError(
            f"each trained run must have its record, but {len(vanished)} of {len(missing)} have "
            "none, because a record was deleted meanwhile; run the same command or cell again to "
            "continue"
        )
    return found
