"""Train the runs that the book lacks (`make runs`); nothing else trains them.

    labkit book runs --only 06 --for 2h         # any number of times; it goes on where it stopped
    labkit book runs --device cuda --for 9m     # on the GPU that torch sees, many runs as one model

Missing is a run that a chapter (or the shared ladder) asks for and nothing has a record of; stale
is one whose record the last replay refuted. A run that depends on the results of another is found
once those are there, so looking and training take turns. Everything happens at the lowest
priority: the machine stays free for other work.
"""

import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from itertools import chain, islice
from pathlib import Path
from statistics import median
from typing import Any

import torch

from labkit.experiments import Run, filling
from labkit.experiments.engines import make_engine
from labkit.experiments.lab import device_of
from labkit.experiments.ladder.plan import list_next_runs
from labkit.experiments.records import LADDER, RecordError
from labkit.experiments.run import CPU, get_gpu_name
from labkit.experiments.store import Store
from labkit.system.pool import count_cores
from press.book import asked, replays, state
from press.book.chapters import Chapter
from press.book.keys import key_of, parts_of

# Of the ladder: few, so that the first ones report long before the last are tuned; on a GPU, where
# an arm's runs train as one model, enough for all its processes.
ARMS_AT_ONCE, ARMS_ON_A_GPU = 2, 8
Wanted = dict[str, list[Run]]  # by chapter, or "ladder"


def train_missing(
    root: Path,
    chosen: Sequence[Chapter],
    size: str,
    *,
    climb: bool = False,
    seconds: float | None = None,
    only_list: bool = False,
    gpu: str | None = None,
) -> int:
    """Train missing or stale runs; return 0 if nothing failed, even if more runs are left.

    `climb`: what the plan of the shared ladder lacks, too (labkit.experiments.ladder.plan). `gpu`
    is "cuda", or a GPU's name: runs train there, and their records stand with the others of their
    size; ValueError where torch does not see it.
    """
    until = None if seconds is None else time.monotonic() + seconds
    store, faults, first = Store(root, device_of(size)), dict[str, str](), True
    device = store.device if gpu is None else find_gpu(gpu)
    lower_priority()
    mark_stale(root, size, store)
    engine = make_engine(root, device)
    engine.store = store
    try:
        while True:
            wanted = find_wanted(root, chosen, size, climb, store, faults, again=not first)
            missing = {
                n: [r for r in runs if store.read_fresh(r) is None] for n, runs in wanted.items()
            }
            todo = list({run.key(): run for runs in missing.values() for run in runs}.values())
            if first or not todo:
                print(describe_plan(wanted, missing, store, todo, device), flush=True)
            arms = ARMS_AT_ONCE if device == CPU else ARMS_ON_A_GPU
            todo = choose_next(missing, store, arms) or todo
            late = until is not None and time.monotonic() > until
            if only_list or late or not todo or "training" in faults:
                break
            first = False
            try:
                filling.train_missing(todo, engine, until=until, progress=sys.stderr.isatty())
            except RuntimeError as error:
                faults["training"] = str(error)
    finally:
        engine.close()
    for name, fault in faults.items():
        print(f"red     {name}: {fault}")
    if not todo:
        print("runs: nothing is missing; `make record` puts what is new into data/records")
    elif not only_list:
        print(f"runs: {len(todo)} are left; the same command goes on")
    return 1 if faults else 0


def find_gpu(asked: str) -> str:
    """Return the GPU that "cuda" or its name denotes; raise ValueError if torch does not see it."""
    seen = get_gpu_name()
    if seen != CPU and asked in ("cuda", seen):
        return seen
    raise ValueError(
        f"--device must be cuda or the name of the GPU that torch finds, got {asked!r}, but torch "
        f"{torch.__version__} finds {'no GPU' if seen == CPU else seen}; leave it out to train on "
        "this machine's cores"
    )


def choose_next(missing: Wanted, store: Store, arms: int) -> list[Run]:
    """Choose the next runs: chapters first, then the given number of arms of the ladder's plan."""
    own = [run for name, runs in missing.items() if name != LADDER for run in runs]
    if own or LADDER not in missing:
        return list({run.key(): run for run in own}.values())
    lacking = list_next_runs(cache(store.read_fresh))
    return list(chain(*islice(lacking, arms)))


def lower_priority() -> None:
    """Give this process and its workers a lower priority than all others on the machine.

    A run that gives way may take hours, so it has a day, unless somebody says otherwise.
    """
    os.environ["LABKIT_NICE"] = "19"
    os.environ.setdefault("LABKIT_RUN_TIMEOUT", str(24 * 3600))
    with suppress(OSError):
        os.nice(19)


def mark_stale(root: Path, size: str, store: Store) -> None:
    """Mark as stale the runs that failed their last replay and were not trained again since."""
    for key, refuted in replays.read_stale(root, size).items():
        row = store.find_row(key)
        if row is None or row["at"] <= refuted["at"]:
            store.mark_stale(key)


def find_wanted(
    root: Path,
    chosen: Sequence[Chapter],
    size: str,
    climb: bool,
    store: Store,
    faults: dict[str, str],
    again: bool,
) -> Wanted:
    """List the requested runs. A chapter that was built in its current state does not run again."""

    def find_runs(chapter: Chapter) -> list[Run]:
        known = state.read_state(root, size, chapter.name)
        if not again and known and known["key"] == key_of(parts_of(chapter, root, size)):
            return asked.read_runs(root, size, chapter.name)
        runs, failed = asked.find_asked_runs(root, chapter, size)
        faults.pop(chapter.name, None)
        if failed:
            faults[chapter.name] = "; ".join(failed)
        return runs

    with ThreadPoolExecutor(count_cores()) as pool:
        lists = list(pool.map(find_runs, chosen))
    wanted = {chapter.name: runs for chapter, runs in zip(chosen, lists, strict=True)}
    if climb:
        wanted[LADDER] = list(chain(*list_next_runs(cache(store.read_fresh))))
    return wanted


def describe_plan(
    wanted: Wanted, missing: Wanted, store: Store, todo: Sequence[Run], device: str
) -> str:
    """Return which runs exist, which are missing, and how long those take on this machine."""
    lines = []
    for name, runs in wanted.items():
        lacking = missing[name]
        text = f"  {name}: {_count_different(runs)} runs"
        lines.append(
            f"{text}, {_count_different(lacking)} to train" if lacking else f"{text}, all there"
        )
    if not todo:
        return "\n".join(lines)
    if device != CPU:
        return "\n".join([*lines, f"runs: {len(todo)} to train on {device}"])
    cost = build_estimate(store)
    known = [seconds for run in todo if (seconds := cost(run)) is not None]
    total = sum(known) * len(todo) / len(known) / count_cores() if known else None
    about = "nothing like them is known" if total is None else f"about {format_duration(total)}"
    return "\n".join([*lines, f"runs: {len(todo)} to train on {count_cores()} cores: {about}"])


def format_duration(seconds: float) -> str:
    """Format a duration to the minute: "3 min", "2 h 20 min"."""
    hours, minutes = divmod(math.ceil(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _count_different(runs: Sequence[Run]) -> int:
    return len({run.key() for run in runs})


def build_estimate(store: Store) -> Callable[[Run], float | None]:
    """Estimate the cost of a step from the book's records: the median of all runs of one size.

    A recipe that nobody has trained costs what others of its size do; a size that nobody has
    trained, what the whole book's median step does.
    """
    costs, every = defaultdict(list), list[float]()
    for name in store.records.list_names():
        with suppress(RecordError):  # whoever needs its runs says what is damaged
            for row in store.records.load_rows(name).values():
                if row["trained"]:
                    every.append(row["cpu_seconds"] / row["trained"])
                    costs[_describe_size(row["run"])].append(every[-1])

    def estimate_seconds(run: Run) -> float | None:
        alike = costs.get(_describe_size(run.to_dict()), every)
        return median(alike) * run.train.steps if alike else None

    return estimate_seconds


def _describe_size(run: Mapping[str, Any]) -> str:
    """Describe the kinds of model and data, and their integers: widths, depths, batches."""
    sizes = [
        {name: value for name, value in run[part].items() if name == "type" or type(value) is int}
        for part in ("model", "data")
    ]
    return json.dumps(sizes, sort_keys=True)
