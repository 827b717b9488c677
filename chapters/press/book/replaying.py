"""Replay the book's records: are they what today's code computes?

Of every configuration that the chapters ask for, one seed's first steps are taken anew; which one,
today's commit draws. And a few cheap runs are trained in full: the cheapest with each probe, norm,
optimizer and schedule. Where neither code nor records changed since all of them agreed, the commit
draws the configurations, too, as many as a fixed budget allows. A record that differs is stale, and
with it every seed of its configuration. Where one begins as recorded and differs later, what it has
and no run that agrees has (a probe, a norm, a schedule) is blamed, and every record that has it is
stale.
"""

import hashlib
import math
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from labkit.experiments import Run
from labkit.experiments.lab import device_of
from labkit.experiments.own import register_sources, sources_of
from labkit.experiments.records import FIRST, LADDER, Row, from_row
from labkit.experiments.replay import TIMED, Replay, replay_run, retrain_run
from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.system.pool import count_cores, end_with
from labkit.system.provenance import collect_provenance
from labkit.system.threads import build_one_thread_environment
from press.book import asked, replays
from press.book.chapters import Chapter, find_chapters

WHOLE = 45.0  # CPU-seconds of runs that are trained in full, together
BUDGET = 24.0  # CPU-seconds of either kind, where all agreed before
BUILD = 0.1  # CPU-seconds to make a model and its data, about
# kind, run, the sources of readers' norms in it, record's row, device
Task = tuple[str, dict[str, Any], dict[str, str], dict[str, Any], str]


def replay_runs(
    root: Path,
    chosen: Sequence[Chapter],
    size: str,
    *,
    every: bool = False,
    commit: str = "",
) -> dict[str, Any]:
    """Replay what these chapters ask for, and the ladder, and keep the verdict.

    Configurations that differ only in the learning rate or in probes count as one: the same code
    computes their first steps. With `every` each is replayed, whatever agreed before.
    """
    store, began = Store(root, device_of(size)), time.monotonic()
    of = replays.compute_digest(root, chosen, size, every)
    runs, rows, on_ladder = _collect_rows(root, chosen, size, store)
    name = Run.hash_configuration if every else Run.hash_workload
    known = {} if every else replays.read_agreed(root, size)

    def agreed_before(kind: str, key: str) -> bool:
        before = known.get(f"{kind} {key}")
        return before is not None and before == replays.hash_replay(kind, rows[key])

    groups: dict[str, list[str]] = {}
    for key in sorted(rows):
        groups.setdefault(name(runs[key]), []).append(key)
    commit = commit or collect_provenance()["commit"]
    drawn = [
        min(keys, key=lambda key: (not agreed_before("opening", key), _hash_key(commit, key)))
        for keys in groups.values()
    ]
    some = not every and replays.is_known(root)
    if some:
        drawn = _keep_to_budget(sorted(drawn, key=lambda key: _hash_key(commit, key)), rows)
    tasks = [("opening", key) for key in drawn]
    # What trained together on a GPU shared its cost: alone, here, it may take hours.
    here = {k: row for k, row in rows.items() if made_on(row, store.device)}
    whole_book = list(chosen) == find_chapters(root)
    cleared = set() if every or whole_book else replays.read_cleared(root, size)
    budget = BUDGET if some else WHOLE
    tasks += [("whole", key) for key in _choose_cheapest(runs, here, budget, cleared)]
    found = [
        Replay(runs[key], kind, 0.0, 0.0, "") for kind, key in tasks if agreed_before(kind, key)
    ]
    found += _run_replays(
        [
            (kind, runs[key].to_dict(), sources_of([runs[key]]), rows[key], store.device)
            for kind, key in tasks
            if not agreed_before(kind, key)
        ]
    )
    stale = _find_stale(found, runs, rows, name)
    verdict = {
        "openings": len(drawn),
        "configurations": len(groups),
        "wholes": len(tasks) - len(drawn),
        "seconds": round(time.monotonic() - began, 1),
        "stale": stale,
        "ladder": sum(key in on_ladder for key in stale),
        "cost": round(sum(rows[key]["cpu_seconds"] for key in stale) / count_cores(), 1),
    }
    right = [one for one in found if one.agrees and one.run.key() not in stale]
    agreed = {
        f"{one.kind} {(key := one.run.key())}": replays.hash_replay(one.kind, rows[key])
        for one in right
    }
    clear = {trait for one in right if one.kind == "whole" for trait in _list_traits(one.run)}
    replays.keep_verdict(root, chosen, size, of, verdict, runs.keys(), agreed, clear)
    if not (stale or some) and size == "book" and whole_book:
        replays.keep_known(root)
    return verdict


def _collect_rows(
    root: Path, chosen: Sequence[Chapter], size: str, store: Store
) -> tuple[dict[str, Run], dict[str, Row], Collection[str]]:
    """Collect by key the runs that chapters ask for and the ladder has, their rows, the ladder's.

    A run that nothing has a record of is left out of the rows.
    """
    runs = {run.key(): run for c in chosen for run in asked.read_runs(root, size, c.name)}
    rows = {key: row for key in runs if (row := store.find_row(key)) is not None}
    on_ladder = store.records.load_rows(LADDER)
    for key, row in on_ladder.items():
        runs.setdefault(key, Run.from_dict(row["run"]))
        rows.setdefault(key, row)
    return runs, rows, on_ladder.keys()


def _find_stale(
    found: Sequence[Replay],
    runs: Mapping[str, Run],
    rows: Mapping[str, Row],
    name: Callable[[Run], str],
) -> dict[str, str]:
    """Find which records are stale, and why: their configuration's, or one with a blamed trait."""
    refuted = {name(one.run): str(one) for one in found if not one.agrees}
    begun = {name(one.run) for one in found if one.kind == "opening" and one.agrees}
    ended = [one for one in found if one.kind == "whole"]
    blamed = _blame_traits([one for one in ended if one.agrees or name(one.run) in begun])
    stale = {}
    for key in rows:
        whys = [refuted.get(name(runs[key])), *map(blamed.get, _list_traits(runs[key]))]
        if why := next(filter(None, whys), None):
            stale[key] = why
    return stale


def made_on(row: dict[str, Any], device: str) -> bool:
    """Return whether a record was made on this class of devices."""
    return row["provenance"].get("device", device) == device


def _keep_to_budget(keys: Sequence[str], rows: dict[str, Any]) -> list[str]:
    """Take the first of these keys whose first steps fit into the budget: one at least."""
    spent, kept = 0.0, []
    for key in keys:
        row = rows[key]
        spent += BUILD + row["cpu_seconds"] * min(1.0, FIRST / max(1, row["trained"]))
        if kept and spent > BUDGET:
            break
        kept.append(key)
    return kept


def _hash_key(commit: str, key: str) -> str:
    return hashlib.sha256(f"{commit} {key}".encode()).hexdigest()


def _blame_traits(ended: Sequence[Replay]) -> dict[str, str]:
    """Name the traits that only runs with a late difference have, and the difference.

    A run that agrees to its end clears all its traits. A difference in one probe blames this probe.
    """
    cleared = {trait for one in ended if one.agrees for trait in _list_traits(one.run)}
    return {
        trait: str(one)
        for one in ended
        if not one.agrees
        for trait in ([one.where] if one.where in one.run.probes else _list_traits(one.run))
        if trait not in cleared
    }


def _choose_cheapest(
    runs: dict[str, Run],
    rows: dict[str, Any],
    budget: float = WHOLE,
    cleared: Collection[str] = (),
) -> list[str]:
    """Choose the cheapest run of each trait not cleared, as long as together they take little.

    One that ends within its first steps, or diverges, shows little more than they do: it is
    chosen where no other has the trait.
    """
    cheapest: dict[str, str] = {}

    def rank_cost(key: str) -> tuple[bool, float, str]:
        row = rows[key]
        little = row["trained"] <= FIRST or row["diverged_at"] is not None
        return little, row["cpu_seconds"], key

    for key in sorted(rows, key=rank_cost):
        for trait in _list_traits(runs[key]):
            if trait not in cleared:
                cheapest.setdefault(trait, key)
    chosen, seconds = [], 0.0
    for key in dict.fromkeys(cheapest.values()):
        if seconds + rows[key]["cpu_seconds"] <= budget:
            seconds += rows[key]["cpu_seconds"]
            chosen.append(key)
    return chosen


def _list_traits(run: Run) -> list[str]:
    """List what the first steps may not see of a run: probes, a norm's evaluation, a schedule."""
    probes = sorted(set(run.probes) - set(TIMED))
    return [*probes, f"norm {run.model.norm}", run.train.optimizer, run.train.schedule]


def _run_replays(tasks: list[Task]) -> list[Replay]:
    """Carry out replays on every core, one thread each."""
    if not tasks:
        return []
    workers = 1 if tasks[0][4] != CPU else min(count_cores(), len(tasks))
    os.environ.update(build_one_thread_environment())  # of the processes below
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        return list(pool.map(_run_replay, tasks, chunksize=4))


def _run_replay(task: Task) -> Replay:
    kind, run, own, row, device = task
    register_sources(own)
    compare, asked_for = retrain_run if kind == "whole" else replay_run, Run.from_dict(run)
    try:
        return compare(asked_for, from_row(row), device)
    except Exception as error:
        if device != CPU:  # a GPU that is not there says nothing about the code
            raise
        return Replay(asked_for, kind, math.inf, 0.0, f"{type(error).__name__}: {error}")
