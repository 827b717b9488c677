"""A place to hurt sweeps: a store, a log of what trained, and an account of what that cost."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from labkit import ModelConfig, TrainConfig
from labkit.corpora import Markov
from labkit.experiments import Run, execute_run
from labkit.experiments.engines import make_engine
from labkit.experiments.store import Store
from tests.faults.hook.sitecustomize import disturb_store

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BASE = Run(
    ModelConfig(dim=8, depth=1, heads=1, context=8, vocab=16),
    Markov(batch=2, time=8),
    TrainConfig(steps=3),
    probes=(),
)
RUNS = [replace(BASE, seed=seed) for seed in range(8)]
PATIENCE = 300  # seconds, on a starved machine
DRIVER = """
import json, os, sys
from labkit.experiments import Run
from labkit.experiments.filling import read_records, train_and_read
from labkit.experiments.engines import make_engine, on_ray
from labkit.experiments.store import Store
on_ray.ALONE["PYTHONPATH"] = os.environ["PYTHONPATH"]  # so that nodes misbehave, too
runs = [Run.from_dict(run) for run in json.loads(sys.argv[2])]
store, engine = Store(sys.argv[1]), make_engine(sys.argv[1])
found, missing = read_records(runs, store)
train_and_read(missing, store, engine)
engine.close()
print(len(missing), "missing")
"""
# Beside the faults themselves, so that also a process misbehaves that inherits nothing from here.
HOOK = """
import os
os.environ.update({words!r})
with open({hook!r}) as file:
    exec(compile(file.read(), file.name, "exec"))
"""


class Bench:
    """One store with runs that train 3 steps each, told apart by their seed."""

    def __init__(self, root: Path, monkeypatch):
        self.root, self.store, self._env = root, Store(root), monkeypatch
        self.log, self.outside = root / "faults.log", 0
        self.log.touch()
        self._hook = root / "hook"
        self._hook.mkdir()
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(self._hook), str(REPOSITORY)]))
        monkeypatch.setenv("LABKIT_SLOTS", "2")
        monkeypatch.setenv("FAULT_LOG", str(self.log))
        disturb_store(monkeypatch.setattr)
        self.faults()

    def faults(self, pace: float = 0, gate: int = 1000, **faults: tuple[str, int]) -> None:
        """Say what happens to which run, as s3=("kill", 1); without words, nothing any more."""
        words = {
            "FAULT_LOG": str(self.log),
            "FAULTS": json.dumps({s[1:]: fault for s, fault in faults.items()}),
            "FAULT_PACE": str(pace),
            "FAULT_GATE": str(gate),
        }
        text = HOOK.format(words=words, hook=str(HERE / "hook" / "sitecustomize.py"))
        (self._hook / "sitecustomize.py").write_text(text)

    def go(self) -> None:
        """Let go on what waits at the gate."""
        Path(f"{self.log}.go").touch()

    def train(self, runs: list[Run], engine: str = "processes", timeout: float = PATIENCE) -> str:
        """Train what the store lacks; return what went wrong."""
        trains = make_engine(self.root, name=engine, timeout=timeout)
        try:
            trains.train_tasks([(run,) for run in runs])
        except RuntimeError as error:
            return str(error)
        finally:
            trains.close()
        return ""

    def driver(self, runs: list[Run] = RUNS, root: Path | None = None) -> "subprocess.Popen[str]":
        """Start a process that fills the store; another name for its root may be given."""
        words = json.dumps([run.to_dict() for run in runs])
        return subprocess.Popen(
            [sys.executable, "-c", DRIVER, root or self.root, words],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextlib.contextmanager
    def driving(self, **options) -> "Iterator[subprocess.Popen[str]]":
        """Have such a process for the length of a block, and end what is left of it."""
        with self.driver(**options) as process:
            try:
                yield process
            finally:
                process.kill()

    def at_the_gate(self, process: "subprocess.Popen[str]", gate: int, before: int = 0) -> None:
        """Wait until runs before the gate are stored, and two more have come to it."""
        first = {run.seed for run in RUNS if run.seed < gate}
        self.wait(lambda: set(self.stored()) >= first, process)
        self.wait(lambda: len(self.waiting(gate)) >= before + 2, process)

    def waiting(self, gate: int) -> list[int]:
        """List the processes that came to the gate."""
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [int(pid) for what, *_, seed, pid in lines if what == "begins" and int(seed) >= gate]

    def wait(self, what: Callable[[], object], process: "subprocess.Popen[str] | None" = None):
        """Wait until something is so, while a process lives."""
        end = time.monotonic() + PATIENCE
        while not what():
            assert process is None or process.poll() is None, process.communicate()[0]
            assert time.monotonic() < end, "it never came"
            time.sleep(0.05)

    def stored(self) -> dict[int, int]:
        """List the seeds of the finished runs, with the times of their files."""
        paths = {run.seed: self.store.build_path(run) for run in RUNS}
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
        records = {str(run.seed): self.store.read_record(run) for run in RUNS}
        lost = sum(records[seed] is None for seed in finished)
        wrong = sum(
            record is not None and record.losses != truth(int(seed))
            for seed, record in records.items()
        )
        record_property("faults", (injected, lost, repeated, wrong))
        assert injected > 0
        assert (lost, repeated, wrong) == (0, 0, 0)
        assert [path.name for path in self.store.folder.glob(".*.lock")] == []


_TRUTH: dict[int, list[float]] = {}


def truth(seed: int) -> list[float]:
    """Train a run here, undisturbed: one thread, so the same arithmetic."""
    if seed not in _TRUTH:
        _TRUTH[seed] = execute_run(RUNS[seed]).losses
    return _TRUTH[seed]
