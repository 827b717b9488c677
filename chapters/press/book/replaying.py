"""Replay the book's records to check that they are what today's code computes.

Of each configuration that changed, the cheapest run's first steps are taken anew. They see no
probe and no end of a schedule. So of each probe, and of each norm with its optimizer and schedule,
the cheapest run is trained to its end, where that is a matter of seconds. What differs is printed
when it is found. With the run that was replayed all others are stale that share what differs.
"""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from labkit.experiments import Run
from labkit.experiments.lab import device_of
from labkit.experiments.own import register_sources, sources_of
from labkit.experiments.records import FIRST, Row, from_row
from labkit.experiments.replay import TIMED, Replay, replay_run, retrain_run
from labkit.experiments.run import CPU
from labkit.experiments.store import Store
from labkit.system.pool import count_cores, end_with
from labkit.system.threads import build_one_thread_environment
from press.book import asked
from press.book.chapters import Chapter

WHOLE = 10.0  # CPU-seconds of a run that is trained to its end, at most
# run, the sources of readers' norms in it, its record, device; whether it is trained to its end
Task = tuple[dict[str, Any], dict[str, str], Row, str, bool]


def replay_runs(
    root: Path, size: str, chosen: Sequence[Chapter], changed: Collection[str]
) -> dict[str, str]:
    """Replay the changed runs, cheapest first; return how each differs, or nothing."""
    store, began = Store(root, device_of(size)), time.monotonic()
    runs = {run.key(): run for c in chosen for run in asked.read_runs(root, size, c.name)}
    rows = {key: row for key in changed if (row := store.find_row(key)) is not None}
    workloads = _group_keys(rows, lambda key: [runs[key].hash_workload()])
    ends = _group_keys(rows, lambda key: _list_ends(runs[key]))
    replays = choose_replays(workloads, ends, rows, store.device)
    print(f"replays: {len(replays)} runs of {len(workloads)} configurations", flush=True)
    whys = dict.fromkeys(rows, "")
    tasks = [
        (runs[key].to_dict(), sources_of([runs[key]]), rows[key], store.device, whole)
        for key, whole in replays
    ]
    for number, found in enumerate(_run_replays(tasks), start=1):
        if not found.agrees:
            why = f"{_name_design(found.run)}: {found}"
            print(f"    {number} of {len(tasks)}: {why}", flush=True)
            shares = workloads | ends
            for key in shares[_name_what_differs(found)]:
                whys[key] = max(whys[key], why)  # the same one, whichever replay ends first
    print(f"replays: done in {time.monotonic() - began:.0f} s", flush=True)
    return whys


def _group_keys(
    rows: Mapping[str, Row], list_names: Callable[[str], Iterable[str]]
) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for key in sorted(rows):
        for name in list_names(key):
            groups.setdefault(name, []).append(key)
    return groups


def _list_ends(run: Run) -> list[str]:
    """List what the first steps do not test of a run: its schedule and its measurements."""
    return [_name_course(run), *sorted(set(run.probes) - set(TIMED))]


def _name_course(run: Run) -> str:
    return f"{run.model.norm}, {run.train.optimizer}, {run.train.schedule}"


def _name_design(run: Run) -> str:
    names = ("recipe", "step", "norm", "activation", "dim", "depth", "init")
    return ", ".join(f"{n} {getattr(run.model, n)}" for n in names if hasattr(run.model, n))


def _name_what_differs(found: Replay) -> str:
    """Return the workload or the final result that a replay refutes."""
    if found.kind == "opening":
        return found.run.hash_workload()
    return found.where if found.where in found.run.probes else _name_course(found.run)


def choose_replays(
    workloads: Mapping[str, Sequence[str]],
    ends: Mapping[str, Sequence[str]],
    rows: Mapping[str, Row],
    device: str,
) -> list[tuple[str, bool]]:
    """Choose the replays, cheapest first: keys, and whether to replay to the end."""

    def is_short(key: str) -> bool:
        """Return whether a run ends within its first steps, or diverges: that proves little."""
        return rows[key]["trained"] <= FIRST or rows[key]["diverged_at"] is not None

    def cost_opening(key: str) -> float:
        return rows[key]["cpu_seconds"] * min(1.0, FIRST / max(1, rows[key]["trained"]))

    def cost_whole(key: str) -> float:
        # What trained together on a GPU shared its cost: alone, here, it may take hours.
        return rows[key]["cpu_seconds"] if made_on(rows[key], device) else math.inf

    costs = {}
    for keys in workloads.values():
        key = min(keys, key=lambda key: (is_short(key), cost_opening(key), key))
        costs[key, False] = cost_opening(key)
    for keys in ends.values():
        key = min(keys, key=lambda key: (is_short(key), cost_whole(key), key))
        if cost_whole(key) <= WHOLE:
            costs[key, True] = cost_whole(key)
    return sorted(costs, key=lambda one: (costs[one], one))


def made_on(row: Row, device: str) -> bool:
    """Return whether a record was made on this class of devices."""
    return row["provenance"].get("device", device) == device


def _run_replays(tasks: list[Task]) -> Iterator[Replay]:
    """Run replays, one thread each; a worker starts for seconds, so a few replays share it."""
    workers = 1 if tasks[0][3] != CPU else min(count_cores(), 1 + len(tasks) // 4)
    os.environ.update(build_one_thread_environment())  # of the processes below
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=end_with, initargs=(os.getpid(),)
    ) as pool:
        futures = [pool.submit(_run_replay, task) for task in tasks]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:  # after an error or Ctrl-C no other replay begins
            pool.shutdown(cancel_futures=True)


def _run_replay(task: Task) -> Replay:
    values, own, row, device, whole = task
    register_sources(own)
    run = Run.from_dict(values)
    try:
        found = replay_run(run, from_row(row), device)
        return retrain_run(run, from_row(row), device) if whole and found.agrees else found
    except Exception as error:
        if device != CPU:  # a GPU that is not there says nothing about the code
            raise
        return Replay(run, "opening", math.inf, 0.0, f"{type(error).__name__}: {error}")
