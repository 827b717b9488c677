"""A place to hurt sweeps: a store, a log of what trained, and an account of what that cost."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from labkit import ModelConfig, TrainConfig
from labkit.corpora import Markov
from labkit.experiments import Run, execute
from labkit.experiments.engines import make_engine
from labkit.experiments.store import Store

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BASE = Run(
    ModelConfig(dim=8, depth=1, heads=1, context=8, vocab=16),
    Markov(batch=2, time=8),
    TrainConfig(steps=3),
    probes=(),
)
RUNS = [replace(BASE, seed=seed) for seed in range(8)]
PATIENCE = 120  # seconds, on a starved machine
DRIVER = """
import json, sys
from labkit.experiments import Run
from labkit.experiments.filling import fill, read
from labkit.experiments.engines import make_engine
from labkit.experiments.store import Store
runs = [Run.from_dict(run) for run in json.loads(sys.argv[2])]
store, engine = Store(sys.argv[1]), make_engine(sys.argv[1])
found, missing = read(runs, store)
fill(missing, store, engine)
engine.close()
print(len(missing), "missing")
"""


class Bench:
    """One store with runs that train 3 steps each, told apart by their seed."""

    def __init__(self, root: Path, monkeypatch):
        self.root, self.store, self._env = root, Store(root), monkeypatch
        self.log, self.outside = root / "faults.log", 0
        self.log.touch()
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE / "hook"), str(REPOSITORY)]))
        monkeypatch.setenv("FAULT_LOG", str(self.log))
        monkeypatch.setenv("LABKIT_SLOTS", "2")

    def faults(self, pace: float = 0, **faults: tuple[str, int]) -> None:
        """Say what happens to which run, as s3=("kill", 1); without words, nothing any more."""
        self._env.setenv("FAULTS", json.dumps({s[1:]: fault for s, fault in faults.items()}))
        self._env.setenv("FAULT_PACE", str(pace))

    def train(self, runs: list[Run], engine: str = "processes", timeout: float = PATIENCE) -> str:
        """Train what the store lacks; return what went wrong."""
        trains = make_engine(self.root, name=engine, timeout=timeout)
        try:
            trains.train([(run,) for run in runs])
        except RuntimeError as error:
            return str(error)
        finally:
            trains.close()
        return ""

    def driver(self, runs: list[Run] = RUNS) -> "subprocess.Popen[str]":
        """Start a process that fills the store."""
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, self.root, json.dumps([r.to_dict() for r in runs])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def stored(self) -> dict[int, int]:
        """List the seeds of the finished runs, with the times of their files."""
        paths = {run.seed: self.store.path(run) for run in RUNS}
        return {s: path.stat().st_mtime_ns for s, path in paths.items() if path.is_file()}

    def damaged(self, seed: int) -> None:
        """Note that a test itself took a finished run away."""
        self.outside += 1
        with self.log.open("a") as file:
            file.write(f"damaged {seed} -\n")

    def events(self) -> Iterator[tuple[str, str]]:
        """Read the log: what happened, to which seed."""
        for line in self.log.read_text().splitlines():
            what, *rest = line.split()
            yield what, rest[-2]

    def account(self, record_property) -> None:
        """Hold the store and the log against what every fault must leave alone."""
        finished, repeated, injected = set(), 0, self.outside
        for what, seed in self.events():
            injected += what == "fault"
            repeated += what == "begins" and seed in finished
            finished |= {seed} if what == "stored" else set()
            finished -= {seed} if what == "damaged" else set()
        records = {str(run.seed): self.store.get(run) for run in RUNS}
        lost = sum(records[seed] is None for seed in finished)
        wrong = sum(
            record is not None and record.losses != truth(int(seed))
            for seed, record in records.items()
        )
        record_property("faults", (injected, lost, repeated, wrong))
        assert injected > 0
        assert (lost, repeated, wrong) == (0, 0, 0)
        debris = [p.name for p in self.store.folder.iterdir() if not p.name.endswith(".json")]
        assert [n for n in debris if n.endswith(".lock")] == []

_TRUTH: dict[int, list[float]] = {}


def truth(seed: int) -> list[float]:
    """Train a run here, undisturbed: one thread, so the same arithmetic."""
    if seed not in _TRUTH:
        _TRUTH[seed] = execute(RUNS[seed]).losses
    return _TRUTH[seed]
