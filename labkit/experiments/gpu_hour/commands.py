"""What each step of an hour on a GPU runs: programs that say how much is left, each with an end."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from labkit.experiments.gpu_hour.slices import Clock, Outcome, Step
from labkit.experiments.ladder.plan import CODED, DECAYED, DEEP, DEEPER, MIDDLE
from labkit.experiments.ladder.rungs import ARMS
from labkit.system.threads import build_one_thread_environment

HERE = "labkit.experiments.gpu_hour"
SET_UP = 8.0  # seconds in which a program imports torch
GRACE = 15.0  # seconds that a program has beyond its time before it is killed
POLL = 0.5
TRIES = 4  # of a program that ends without a word of what is left, in all slices together
KILLED = -signal.SIGKILL  # for its time: no try
AT_ONCE = 4  # arms that train on one device at the same time, as labkit's engine has it
START = 60.0  # seconds without which no arm is begun
# The arms that an hour trains on each rung, in the order of their worth: the largest rung and the
# deepest models first, which no CPU trains in a day. Models that vmap refuses train alone, on CPUs.
ALONE = ("no attention", "pre, experts", "hybrid, experts", "hybrid*, experts")
RUNG_ARMS: dict[str, tuple[str, ...]] = {
    "L": MIDDLE,
    "D24": DEEPER,
    "M": MIDDLE,
    "D": DEEP,
    "S": tuple(arm for arm in reversed(ARMS) if arm not in ALONE),  # the cabinet's first
    "C": CODED,
    "W": DECAYED,
}
Tick = Callable[[float], None]  # told, now and then, how many seconds a step has taken


@dataclass
class Program:
    """A running program; its lines are printed, kept and written to a log."""

    words: Sequence[str]
    env: dict[str, str]
    folder: Path
    log: Path
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-u", *self.words], cwd=self.folder, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent,
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said, self.log.open("a", encoding="utf-8") as log:
            for line in said:
                self.lines.append(line.rstrip())
                log.write(line)
                log.flush()
                print("   " + line.rstrip(), flush=True)

    def has_ended(self) -> bool:
        """Return whether it has ended, its last line read."""
        if self.process.poll() is None:
            return False
        self.reader.join(5)
        return True

    def kill(self) -> None:
        """End it now."""
        self.process.kill()
        self.process.wait()
        self.reader.join(5)

    def count_left(self) -> int | None:
        """Return how much it said is left; None where it said nothing."""
        told = [re.search(r"\b(\d+) left\b", line) for line in self.lines]
        numbers = [int(match[1]) for match in told if match]
        return numbers[-1] if numbers else None


def _die_with_parent() -> None:
    """Let a program end when the one over it is killed (Linux: prctl's PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@dataclass
class Hour:
    """Where an hour lives, and how its programs are started."""

    pack: Path  # the folder that was brought along
    base: Path  # what was done on this device
    clock: Clock
    rehearsal: bool = False
    at_once: int = AT_ONCE
    rungs: Sequence[str] = tuple(RUNG_ARMS)
    arms: Sequence[tuple[str, str]] | None = None  # each with its rung: these alone

    def environment(self, kernels: bool = False) -> dict[str, str]:
        """Return what a program finds: the pack's code, one thread, this hour's folder."""
        paths = [self.pack, self.pack / "kernels", self.pack / "site"]
        if kernels and self.rehearsal and (older := os.environ.get("GPU_HOUR_NUMPY")):
            paths.insert(0, Path(older))  # Triton 3.6's interpreter needs NumPy < 2.4
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "GPU_HOUR_BASE": str(self.base),
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONWARNINGS": "ignore",
        }
        if self.rehearsal:
            env |= build_one_thread_environment()
            env |= {"CUDA_VISIBLE_DEVICES": "", "GPU_HOUR_REHEARSAL": "1"}
        return env

    def start(self, *words: str, kernels: bool = False) -> Program:
        """Start one program of the pack."""
        self.base.mkdir(parents=True, exist_ok=True)
        log = self.base / "log.txt"
        return Program(words, self.environment(kernels), self.pack, log)

    def run(self, seconds: float, tick: Tick, *words: str, kernels: bool = False) -> Program:
        """Run one program to its end, or to that of its time."""
        program, began = self.start(*words, kernels=kernels), self.clock.now()
        while not program.has_ended():
            time.sleep(POLL)
            taken = self.clock.now() - began
            tick(taken)
            if taken > seconds + GRACE * self.clock.speed:
                program.kill()
        return program

    def read(self, name: str) -> Any:
        """Read what a program left behind; nothing where it did not."""
        path = self.base / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def judge(self, name: str, program: Program) -> Outcome:
        """Say how a program stands that can go on where it stopped."""
        left, code = program.count_left(), program.process.returncode
        last = program.lines[-1] if program.lines else ""
        if left == 0:
            return Outcome("failed" if code else "done", last)
        if left is None and code != KILLED:
            tries = self.read("tries.json")
            tries[name] = tries.get(name, 0) + 1
            (self.base / "tries.json").write_text(json.dumps(tries))
            if tries[name] >= TRIES:
                return Outcome("failed", f"ended {TRIES} times with {code}: {last}")
        return Outcome("begun", last)

    def minutes(self, seconds: float) -> str:
        """Write a time for a program that counts minutes on the wall once torch is imported."""
        return f"{max(1.0, self.clock.on_the_wall(seconds) - SET_UP) / 60:.4f}"

    # -- the steps --------------------------------------------------------------------------------
    def check(self, seconds: float, tick: Tick) -> Outcome:
        """Ask whether this device computes what is recorded, alone and together."""
        program = self.run(seconds, tick, "-m", f"{HERE}.measure", "check")
        found = self.read("check.json")
        if program.process.returncode or not found:
            return Outcome("failed", program.lines[-1] if program.lines else "it said nothing")
        return Outcome("done", found["said"])

    def test(self, seconds: float, tick: Tick, some: Sequence[str] = ()) -> Outcome:
        """Run the laws of the kernels natively: some of them, or all."""
        words = ["--minutes", self.minutes(seconds), "--state", str(self.base / "gpu-test.json")]
        cores = 1 if self.rehearsal else min(12, os.cpu_count() or 1)
        words += ["--workers", str(cores)]
        words += ["--only", "formula[rms_norm,", "bfloat16]"] if self.rehearsal else []
        program = self.run(seconds, tick, "-m", "tests.kernels", *words, *some, kernels=True)
        return self.judge("gpu-test", program)

    def bench(self, seconds: float, tick: Tick, phases: Sequence[str] = ()) -> Outcome:
        """Measure the kernels: some phases, or all."""
        words = ["--minutes", self.minutes(seconds), "--out", str(self.base / "bench.json")]
        words += ["--commit", self.read_pack()["commit"]]
        words += ["--phases", *phases] if phases else []
        words += ["--dry-run", "--kernels", "rms_norm"] if self.rehearsal else []
        program = self.run(seconds, tick, "-m", "normkernels.bench", *words, kernels=True)
        return self.judge("bench", program)

    def compare(self, seconds: float, tick: Tick) -> Outcome:
        """Time 64 replicates together and one after another."""
        program = self.run(seconds, tick, "-m", f"{HERE}.measure", "replicates")
        found = self.read("replicates.json")
        if found and not program.process.returncode:
            return Outcome("done", found["said"])
        return self.judge("replicates", program)

    def control(self, seconds: float, tick: Tick) -> Outcome:
        """Train recorded arms anew here: do they end where they ended on a CPU?"""
        program = self.run(seconds, tick, "-m", f"{HERE}.measure", "control")
        found = self.read("control.json")  # of the arms that were done, where it was cut off
        if found and not program.process.returncode:
            return Outcome("done", found["said"])
        return self.judge("control", program)

    def list_jobs(self) -> Sequence[tuple[str, str]]:
        """List the arms that were asked for, each with its rung."""
        return self.arms or [(rung, arm) for rung in self.rungs for arm in RUNG_ARMS[rung]]

    def list_waiting(self) -> list[tuple[str, str]]:
        """List those that have not ended, whole or for good."""
        ended = self.read("ladder.json")
        return [job for job in self.list_jobs() if " ".join(job) not in ended]

    def climb(self, seconds: float, tick: Tick) -> Outcome:
        """Train arms of the ladder, several at once, in the order of their worth."""
        began, running = self.clock.now(), dict[str, Program]()
        ended: dict[str, str] = self.read("ladder.json")  # how, by rung and arm
        jobs, waiting = self.list_jobs(), self.list_waiting()
        while waiting or running:
            left = seconds - (self.clock.now() - began)
            while waiting and len(running) < self.at_once and left > START:
                job = waiting.pop(0)
                until = str(time.monotonic() + self.clock.on_the_wall(left))
                running[" ".join(job)] = self.start("-m", f"{HERE}.training", *job, until)
            if not running:
                break
            time.sleep(POLL)
            tick(seconds - left)
            for name, program in list(running.items()):
                if left < -GRACE * self.clock.speed:
                    program.kill()
                if program.has_ended():
                    del running[name]
                    outcome = self.judge(name, program)
                    if outcome.state != "begun":
                        ended[name] = outcome.said if outcome.state == "failed" else "whole"
                        (self.base / "ladder.json").write_text(json.dumps(ended, indent=1))
        ended = {name: ended[name] for name in map(" ".join, jobs) if name in ended}
        failed = {name: why for name, why in ended.items() if why != "whole"}
        said = f"{len(ended) - len(failed)} of {len(jobs)} arms are whole" + "".join(
            f"; {name} failed: {why}" for name, why in failed.items()
        )
        state = "failed" if failed else "done"
        return Outcome("begun" if len(ended) < len(jobs) else state, said)

    def list_steps(self) -> list[Step]:
        """List the steps in the order of their worth."""
        return [
            Step("check", self.check),
            Step("gpu-test", partial(self.test, some=("--quick",)), most=6 * 60),
            Step("bench", partial(self.bench, phases=("targets",)), most=6 * 60),
            Step("replicates", self.compare),
            Step("control", self.control, trusting=True),
            Step("ladder", self.climb, trusting=True),
            Step("rest of gpu-test", self.test),
            Step("rest of bench", self.bench),
        ]

    def read_pack(self) -> dict[str, Any]:
        """Read what was packed, and from which commit."""
        return json.loads((self.pack / "pack.json").read_text(encoding="utf-8"))

    def archive(self, path: Path) -> None:
        """Write what came out so far into one file, whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".part")
        with tarfile.open(beside, "w:gz") as archive:
            for one in (*sorted(self.base.glob("*.json")), self.base / "log.txt",
                        *sorted((self.base / "data" / "records").glob("gpu-*.jsonl"))):  # fmt: skip
                if one.is_file():
                    archive.add(one, one.relative_to(self.base))
        beside.replace(path)

    def restore(self, path: Path) -> None:
        """Take up what an archive of this device holds."""
        with tarfile.open(path) as archive:
            archive.extractall(self.base, filter="data")
