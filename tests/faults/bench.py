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
        self.root, self.store = root, Store(root)
        self.log = root / "faults.log"
        self.log.touch()
        self._hook = root / "hook"
        self._hook.mkdir()
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(self._hook), str(REPOSITORY)]))
        monkeypatch.setenv("LABKIT_SLOTS", "2")
        monkeypatch.setenv("FAULT_LOG", str(self.log))
        disturb_store(monkeypatch.setattr)
        self.disturb()

    def disturb(
        self, pace: float = 0, gate: int = 1000, kills: dict[int, int] | None = None
    ) -> None:
        """Say what happens to which run; without words, nothing any more."""
        words = {
            "FAULT_LOG": str(self.log),
            "FAULT_KILLS": json.dumps(kills or {}),
            "FAULT_PACE": str(pace),
            "FAULT_GATE": str(gate),
        }
        text = HOOK.format(words=words, hook=str(HERE / "hook" / "sitecustomize.py"))
        (self._hook / "sitecustomize.py").write_text(text)

    def go(self) -> None:
        """Let go on what waits at the gate."""
        Path(f"{self.log}.go").touch()

    def finish(self, before: dict[int, int]) -> None:
        """Train the rest with processes, undisturbed; what was there must not be touched."""
        self.disturb()
        self.go()
        engine = make_engine(self.root, name="processes")
        try:
            engine.train_tasks([(run,) for run in RUNS])
        finally:
            engine.close()
        assert before.items() <= self.stored().items() and len(self.stored()) == len(RUNS)
        self.account()

    @contextlib.contextmanager
    def driving(self, runs: list[Run] = RUNS) -> "Iterator[subprocess.Popen[str]]":
        """Have a process that fills the store for the length of a block; end what is left of it."""
        words = json.dumps([run.to_dict() for run in runs])
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, self.root, words],
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def come_to_the_gate(self, process: "subprocess.Popen[str]", gate: int) -> list[int]:
        """Wait until all before the gate are stored and two stand at it; list their processes."""
        first = {run.seed for run in RUNS if run.seed < gate}
        self.wait(lambda: set(self.stored()) >= first, process)
        self.wait(lambda: len(self.list_waiting(gate)) >= 2, process)
        return self.list_waiting(gate)

    def list_waiting(self, gate: int) -> list[int]:
        """List the processes that came to the gate."""
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [int(pid) for what, seed, pid in lines if what == "begins" and int(seed) >= gate]

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

    def events(self, what: str) -> list[int]:
        """List the runs to which something happened, by their seeds."""
        lines = (line.split() for line in self.log.read_text().splitlines())
        return [int(seed) for kind, seed, _ in lines if kind == what]

    def account(self) -> None:
        """Hold the store and the log against what every fault must leave alone."""
        finished: set[str] = set()
        for line in self.log.read_text().splitlines():
            what, seed, _ = line.split()
            assert what != "begins" or seed not in finished, "a finished run was trained again"
            finished |= {seed} if what == "stored" else set()
        records = {str(run.seed): (run, self.store.read_record(run)) for run in RUNS}
        for seed in finished:
            run, record = records[seed]
            assert record is not None and record.losses == execute_run(run).losses
        assert list(self.store.folder.glob(".*.lock")) == []
