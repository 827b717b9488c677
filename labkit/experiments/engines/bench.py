"""Time engines beside each other, turn about: `labkit bench engines`.

ratio = serial seconds / the engine's seconds      (above 1: the engine is faster)

A sweep is timed as a whole, the start of the workers included, each time into an empty store.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from labkit.corpora import Markov
from labkit.costs.bench import compute_quartiles
from labkit.experiments.engines.base import make_engine
from labkit.experiments.run import Run
from labkit.model import ModelConfig
from labkit.system.pool import count_cores
from labkit.system.root import project_root
from labkit.training import TrainConfig

BASE = Run(ModelConfig(dim=64, depth=4), Markov(batch=16, time=64), TrainConfig(steps=100))


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


def bench_engines(names: Sequence[str], runs: int = 16, steps: int = 100, turns: int = 3) -> None:
    """Print the table; serial is always among the engines, since the ratios are to it."""
    torch.set_num_threads(1)
    place = project_root() / ".labkit"
    place.mkdir(exist_ok=True)
    print(f"engines: {count_cores()} slots; {_format_load()}")
    grid = [replace(BASE, train=TrainConfig(steps=steps), seed=seed) for seed in range(runs)]
    print_sweep_times(list(dict.fromkeys(["serial", *names])), grid, turns, place)
    print(_format_load())


def _format_load() -> str:
    return "load {:.1f} {:.1f} {:.1f}".format(*os.getloadavg())
