"""Time engines beside each other, turn about: `labkit bench engines`.

ratio = serial seconds / the engine's seconds      (above 1: the engine is faster)

A sweep is timed as a whole, the start of the workers included, each time into an empty store.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from labkit.bench import compute_quartiles
from labkit.corpora import Markov
from labkit.experiments.engines.base import make_engine
from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.lab import project_root
from labkit.experiments.run import Run, execute_run
from labkit.experiments.store import Store
from labkit.model import ModelConfig
from labkit.pool import count_cores
from labkit.training import TrainConfig

BASE = Run(ModelConfig(dim=64, depth=4), Markov(batch=16, time=64), TrainConfig(steps=100))
TINY = replace(BASE, train=TrainConfig(steps=1), probes=())


def seconds_of(name: str, runs: Sequence[Run], place: Path) -> float:
    """Time one sweep on one engine, from its making to the last record."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        began = time.perf_counter()
        engine = make_engine(Path(folder), name=name)
        engine.train_tasks([(run,) for run in runs])
        took = time.perf_counter() - began
        engine.close()
    return took


def print_sweep_times(names: Sequence[str], runs: Sequence[Run], turns: int, place: Path) -> None:
    """Print seconds of a sweep by engine, and the ratio to serial, turn by turn."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        for name in names if turn % 2 else reversed(names):
            seconds[name].append(seconds_of(name, runs, place))
        summary = ", ".join(f"{name} {took[-1]:.1f} s" for name, took in seconds.items())
        print(f"turn {turn + 1}: {summary}", flush=True)
    print(f"sweep of {len(runs)} runs: seconds, median (quartiles) of {turns} turns")
    for name, took in seconds.items():
        low, middle, high = compute_quartiles(took)
        pairs = zip(seconds["serial"], took, strict=True)
        least, ratio, most = compute_quartiles([serial / each for serial, each in pairs])
        cell = f"{middle:.1f} ({low:.1f}–{high:.1f})"
        print(f"{name:<28} {cell:>24}   {ratio:5.2f} ({least:.2f}–{most:.2f})", flush=True)


def store_milliseconds(place: Path, count: int = 100) -> float:
    """Time what the store adds to a run: its lock, the look for it, the writing, the reading."""
    record = execute_run(replace(BASE, train=TrainConfig(steps=2)))
    record.losses *= 150
    took = []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        store = Store(Path(folder))
        for seed in range(count):
            run = replace(BASE, seed=seed)
            began = time.perf_counter()
            with lock_runs((run,), store):
                store.read_record(run)
                store.write_record(run, record)
            store.read_record(run)
            took.append(time.perf_counter() - began)
    return 1e3 * statistics.median(took)


def start_seconds(place: Path) -> tuple[float, float]:
    """Time the first run of a fresh worker, of one step, and the median of those that follow."""
    took = []
    with tempfile.TemporaryDirectory(dir=place) as folder:
        engine = make_engine(Path(folder), name="processes")
        for seed in range(10):
            began = time.perf_counter()
            engine.train_tasks([(replace(TINY, seed=seed),)])
            took.append(time.perf_counter() - began)
        engine.close()
    return took[0], statistics.median(took[1:])


def bench_engines(names: Sequence[str], runs: int = 16, steps: int = 100, turns: int = 3) -> None:
    """Print the tables; serial is always among the engines, since the ratios are to it."""
    torch.set_num_threads(1)
    place = project_root() / ".labkit"
    place.mkdir(exist_ok=True)
    print(f"engines: {count_cores()} slots; {_format_load()}")
    grid = [replace(BASE, train=TrainConfig(steps=steps), seed=seed) for seed in range(runs)]
    print_sweep_times(list(dict.fromkeys(["serial", *names])), grid, turns, place)
    print(f"store: {store_milliseconds(place):.2f} ms a run")
    first, later = start_seconds(place)
    print(f"start of a worker: {first:.2f} s with a first run of one step; {later:.3f} s the next")
    print(_format_load())


def _format_load() -> str:
    return "load {:.1f} {:.1f} {:.1f}".format(*os.getloadavg())
