"""Train what one arm of a rung lacks, as batched models that go on where they were stopped.

    python -m labkit.experiments.gpu_hour.training RUNG ARM UNTIL    (as time.monotonic counts)

The ladder names runs only once earlier ones are there: first three rates, then what their best one
asks for, then the report (labkit.experiments.ladder). So a batch is all that can be named now, and
while rates are searched for, two rates on either side: a step of 21 small models takes a GPU hardly
longer than one of nine. What the search does not ask for in the end, nobody reads.

A batch that is stopped keeps its weights and goes on with the next call; a kill costs what it did
since the last minute. Its last line says how much is left.
"""

import hashlib
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from labkit.experiments import ladder
from labkit.experiments.ladder import rates
from labkit.experiments.ladder.rates import HIGHEST, LOWEST, QUARTER, find_place, name_rate
from labkit.experiments.records import Records, Row, to_row
from labkit.experiments.replicates import estimate_need, execute_together, group_runs
from labkit.experiments.replicates.graphs import GraphStep
from labkit.experiments.replicates.step import Step
from labkit.experiments.run import CPU, Run, execute_run, get_gpu_name
from labkit.experiments.store import CODE, Store
from labkit.system.files import make_slug
from labkit.training import Observer, Record

EVERY = 60.0  # seconds after which a batch keeps its state
ALONE = 200.0  # seconds that a run which trains alone is thought to take, before one was seen
SMALL = {"dim": 8, "time": 8, "batch": 4, "held_out": 512, "seeds": 2}  # of a rehearsal


class OutOfTime(Exception):
    """The time is up; what was done is kept."""


class Kept(GraphStep):
    """A step of a stack that keeps its state in a file, and takes up what the file holds.

    `folder` is for one arm of one rung.
    """

    def __init__(self, folder: Path, until: float, observers: Sequence[Sequence[Observer]], *words):
        super().__init__(*words)
        # The runs by what they are made of: their numbers, and the first batch that a seed draws.
        of = repr(words[1]).encode() + self.targets.cpu().numpy().tobytes()
        self.path, self.until = folder / f"{hashlib.sha256(of).hexdigest()[:16]}.pt", until
        self.watching: list[Any] = [one for row in observers for one in row if hasattr(one, "seen")]
        self.since, self.spent, self.used = time.monotonic(), 0.0, 0.0
        self.began, self.began_cpu = time.monotonic(), time.process_time()
        if self.path.exists():
            self._take_up(torch.load(self.path, map_location=self.stack.weights.device))

    def _tensors(self) -> dict[str, torch.Tensor]:
        own = {"weights": self.stack.weights, "mean": self.optimizer.mean,
               "square": self.optimizer.square}  # fmt: skip
        return own | {f"buffer {name}": buffer for name, buffer in self.stack.buffers.items()}

    def _take_up(self, kept: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                tensor.copy_(kept["tensors"][name])
        self.begun, self.past, self.going = kept["begun"], kept["past"], kept["going"]
        self.mark_alive()
        self.spent, self.used = kept["spent"], kept["used"]
        for one, seen in zip(self.watching, kept["seen"], strict=True):
            one.seen = seen

    def keep(self) -> None:
        """Keep everything that the next step depends on."""
        state = {
            "tensors": self._tensors(), "begun": self.number + 1, "past": self.past,
            "going": self.going, "seen": [one.seen for one in self.watching],
            "spent": self.spent + time.monotonic() - self.began,
            "used": self.used + time.process_time() - self.began_cpu,
        }  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".part")
        torch.save(state, beside)
        beside.replace(self.path)
        self.since = time.monotonic()

    def update_models(self) -> None:
        """Update, and keep the state now and then, and at the end of the time."""
        super().update_models()
        now, done = time.monotonic(), self.number + 1
        if done < self.config.steps and now > min(self.until, self.since + EVERY):
            self.keep()
            print(f"step {done:,} of {self.config.steps:,}", flush=True)
            if now > self.until:
                raise OutOfTime


class Arm:
    """One arm of a rung: what is recorded of it, what it lacks, and its training."""

    def __init__(self, base: Path, rung: str, arm: str, device: str, commit: str, until: float):
        self.base, self.rung, self.arm, self.device = base, rung, arm, device
        self.commit, self.until = commit, until
        self.book = Store(base).read_record  # of the book, and of this hour
        # A file of its own for each arm, as they train side by side: hybrid and hybrid* slug alike.
        exact = hashlib.sha256(arm.encode()).hexdigest()[:6]
        self.records, self.name = Records(base), f"gpu-{rung}-{make_slug(arm)}-{exact}"
        taken = [row["seconds"] for row in self.records.load_rows(self.name).values()]
        self.longest = max(taken, default=0.0 if device == CPU else ALONE)

    def list_lacking(self) -> list[Run]:
        """List the runs of a strict report that can be named by now and have no record."""
        read = cache(self.book)
        first = ladder.list_first_runs(self.rung, self.arm, read) if self.rung == "S" else []
        runs = dict.fromkeys([*first, *ladder.list_strict_runs(self.rung, self.arm, read)])
        return [run for run in runs if read(run) is None]

    def train(self) -> int:
        """Train until nothing is lacking; OutOfTime where the time is up before."""
        while lacking := self.list_lacking():
            print(f"{self.rung} {self.arm}: {len(lacking)} lacking", flush=True)
            if reason := estimate_need(lacking[0]).reason:
                self.train_alone(lacking[0], reason)
                continue
            for task in group_runs(lacking + self._list_beside(lacking), self.device, 64):
                self.train_batch(task)
        return 0

    def _list_beside(self, lacking: Sequence[Run]) -> list[Run]:
        """List two rates on either side of those that a search tries; first, the whole grid."""
        searched = [run for run in lacking if run.seed in ladder.TUNING_SEEDS]
        places = [find_place(run.train.lr) for run in searched]
        if all(place % QUARTER for place in places):  # none, or half-way to one that does not learn
            return []
        beside = [min(places) - QUARTER * n for n in (1, 2)]
        beside += [max(places) + QUARTER * n for n in (1, 2)]
        beside = [place for place in beside if LOWEST <= place <= HIGHEST]
        base, tried = ladder.build_base_run(self.rung, self.arm), [*map(name_rate, beside)]
        first = ladder.list_first_runs("S", self.arm, self.book)
        if self.rung == "S" and rates.best_rate(first, self.book) is None:
            tried = [*rates.QUARTERS]
        runs = [ladder.configure_run(base, lr, s) for lr in tried for s in ladder.TUNING_SEEDS]
        runs = [run for run in runs if run not in lacking]
        return [run for run in runs if self.book(run) is None]

    def train_batch(self, task: Sequence[Run]) -> None:
        """Train runs as one batched model."""
        steps: list[Kept] = []  # more than one where memory ends: then halves train

        def make_step(observers: Sequence[Sequence[Observer]], *words: Any) -> Step:
            steps.append(Kept(self.base / "kept" / self.name, self.until, observers, *words))
            return steps[-1]

        records = execute_together(task, self.device, make_step)
        for record in records:
            earlier = steps[-1].spent / len(records) if steps else 0.0
            rate = record.predictions_per_second * record.seconds
            record.seconds += earlier
            record.cpu_seconds += steps[-1].used / len(records) if steps else 0.0
            record.predictions_per_second = rate / max(record.seconds, 1e-9)
        self.write(task, records)
        for step in steps:
            step.path.unlink(missing_ok=True)

    def train_alone(self, run: Run, reason: str) -> None:
        """Train one run whose model cannot be batched, if it is soon enough done."""
        began = time.monotonic()
        if began + self.longest > self.until:
            raise OutOfTime
        record = execute_run(run, device=self.device)
        record.provenance["alone"] = reason
        self.write([run], [record])
        self.longest = max(self.longest, time.monotonic() - began)

    def write(self, runs: Sequence[Run], records: Sequence[Record]) -> None:
        """Keep records as the book keeps them, with where they come from."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        rows: dict[str, Row] = dict(self.records.load_rows(self.name))
        for run, record in zip(runs, records, strict=True):
            rows[run.key()] = to_row(
                run, record, now, engine="gpu-hour", code=CODE, commit=self.commit
            )
        self.records.write_rows(self.name, rows.values())


def main() -> int:
    """Train one arm until a time of the system's clock: 0 it is whole, 2 there is more to do."""
    rung, arm, until = sys.argv[1:]
    base = Path(os.environ["GPU_HOUR_BASE"])
    device = get_gpu_name()
    if os.environ.get("GPU_HOUR_REHEARSAL"):
        size = ladder.RUNGS[rung]
        ladder.RUNGS[rung] = replace(size, **SMALL, steps=math.ceil(size.steps / 400))
        device = CPU
    torch.set_num_threads(1)
    one = Arm(base, rung, arm, device, os.environ.get("GPU_HOUR_COMMIT", ""), float(until))
    try:
        one.train()
    except OutOfTime:
        print(f"{rung} {arm}: {len(one.list_lacking())} left by now", flush=True)
        return 2
    print(f"{rung} {arm}: 0 left", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
