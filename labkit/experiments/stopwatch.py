"""Time a few steps of a run that nothing stored is like, in a worker process.

A worker is watched as every other is: a run that hangs, leaks or kills its process costs a moment,
and the caller goes on without its time. What it trained goes with its folder.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from labkit.experiments.engines import Engine, make_engine
from labkit.experiments.engines.limits import run_timeout
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store, read_entry
from labkit.training import Record

ENOUGH = 1.0  # seconds of training, about, that say what a run takes
PATIENCE = 60.0  # seconds, at most, that a few steps may take


@contextlib.contextmanager
def stopwatch(device: str = CPU) -> Iterator[Callable[[Run], float]]:
    """Have a function for the length of a block that says what all of a run would take.

    It raises a RuntimeError where a few steps of the run fail, or take too long or too much memory.
    """
    with tempfile.TemporaryDirectory(prefix="labkit-") as folder:
        engine = make_engine(
            Path(folder), device, "processes", timeout=min(run_timeout(), PATIENCE)
        )
        try:
            yield lambda run: _timed(run, engine, Store(Path(folder), device))
        finally:
            engine.close()


def _timed(run: Run, engine: Engine, store: Store) -> float:
    """Train a few steps, and scale them up; what probes take is counted once.

    The first step is not counted, unless it alone takes too long.
    """
    record, share = _few(run, 1, engine, store)
    if record.seconds < ENOUGH / 4:
        steps = min(run.train.steps, 20, int(ENOUGH / 2 / max(record.seconds, 1e-3)))
        record, share = _few(run, max(2, steps), engine, store)
    loop = record.seconds * share
    measuring = max(0.0, record.cpu_seconds - loop)
    return loop / max(1, len(record.losses)) * run.train.steps + measuring


def _few(run: Run, steps: int, engine: Engine, store: Store) -> tuple[Record, float]:
    """Train so many steps, and say which share of the time the worker was at work."""
    short = replace(run, train=replace(run.train, steps=steps))
    engine.train([(short,)])
    entry = read_entry(store.path(short))
    made = entry["made"]
    share = min(1.0, made["cpu_seconds"] / made["seconds"]) if store.device == CPU else 1.0
    return Record(**entry["record"]), share
