"""How long a run will take, from what runs took before.

alike     equal but for seed, learning rates and the like: the median of what those took
nearest   same kind of network and optimizer; the nearest in size, each scaled by
              steps · depth · sqrt(width² · predictions a step)
          because a block of a small network costs its calls as much as its arithmetic
timed     no such run is stored: a few steps of it, or of one near it, here and now
guessed   nor is there time for that: as nearest, from runs of far other sizes or probes

Runs of older code count too: an edit of one norm does not change what training costs. All are
seconds on one idle slot: processor time where that is less than wall time.
"""

import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import torch

from labkit.experiments.queries.entries import Entry
from labkit.experiments.run import CONFIGS, CPU, Run, execute
from labkit.training import Record

NEWEST = 15  # of alike runs: code, machine and load change
NEIGHBOURS = 5  # whose spread is the range of a guess
# The least range of an expectation, as its factor: few neighbours may agree by chance. Measured
# over the book's store by leaving out a run (alike) or the runs of a chapter (the others). Timing
# a few steps says too much rather than too little: caches are cold, and others work beside it.
LEAST = {"alike": (0.85, 1.15), "nearest": (0.7, 1.4), "timed": (0.4, 1.4), "guessed": (0.1, 10)}
FAR = math.log(12)  # a neighbour whose sizes differ by more is no basis, only a guess
LONG = math.log(50)  # beside so many steps it hardly counts what else is measured
TRAIN = ("steps", "optimizer", "clip")  # what of TrainConfig costs time


@dataclass(frozen=True)
class Time:
    """What one run took, or is expected to."""

    seconds: float
    low: float  # nine of ten lie between low and high
    high: float
    basis: str  # alike, nearest, timed or guessed


@dataclass(frozen=True)
class Kind:
    """What decides the time of a run."""

    alike: str  # the same for runs that take the same
    family: tuple[str, str, str]  # model, data, optimizer: others are not compared
    probes: frozenset[str]
    sizes: tuple[float, ...]  # log of steps, depth, width, predictions a step
    traits: frozenset[tuple[str, str]]  # everything else that was chosen

    @property
    def scale(self) -> float:
        """Give the logarithm of the time, but for a factor of the machine."""
        steps, depth, width, predictions = self.sizes
        return steps + depth + width + predictions / 2

    def distance(self, other: "Kind") -> float:
        """Say how unlike two kinds are: sizes by their ratio, other fields by their number."""
        unlike = len(self.traits ^ other.traits) + len(self.probes ^ other.probes)
        return self.apart(other) + 0.2 * unlike

    def apart(self, other: "Kind") -> float:
        """Add up the logarithms of the sizes' ratios."""
        return sum(abs(a - b) for a, b in zip(self.sizes, other.sizes, strict=True))

    def near(self, other: "Kind") -> bool:
        """Say whether the other's time is a basis for this one's."""
        trained = min(self.sizes[0], other.sizes[0]) >= LONG
        return self.apart(other) <= FAR and (trained or self.probes == other.probes)


def kind_of(run: Mapping[str, Any]) -> Kind:
    """Read the kind off a run as it is stored; fields at their default do not count.

    So an entry of older code, which lacks a newer field, is still alike.
    """
    model, data, train = (_chosen(run[part]) for part in ("model", "data", "train"))
    whole = {part: _defaults(run[part]["type"]) | run[part] for part in ("model", "data", "train")}
    train = {name: value for name, value in train.items() if name in TRAIN}
    probes = run.get("probes") or []
    get = whole["model"].get
    sizes = (
        whole["train"].get("steps", 1),
        get("depth", 1),
        get("dim") or get("width") or 1,
        whole["data"].get("batch", 1) * whole["data"].get("time", 1),
    )
    sized = ("steps", "depth", "dim", "width", "batch", "time", "context")
    traits = {
        (name, json.dumps(value))
        for part in (model, data, train)
        for name, value in part.items()
        if name not in sized
    }
    return Kind(
        json.dumps([model, data, train, probes], sort_keys=True),
        (run["model"]["type"], run["data"]["type"], whole["train"].get("optimizer", "")),
        frozenset(probes),
        tuple(math.log(max(1, size)) for size in sizes),
        frozenset(traits),
    )


class Timings:
    """What stored runs took, by kind."""

    def __init__(self, entries: Iterable[Entry], device: str = CPU):
        """Take what was trained on this class of devices, newest first."""
        self._took: dict[Kind, list[float]] = defaultdict(list)
        for entry in entries:
            here = entry.made.get("device") or entry.record.get("provenance", {}).get("device")
            try:
                kind, seconds = kind_of(entry.run), taken(entry)
            except (KeyError, TypeError, ValueError, AttributeError):
                continue  # a run as only other code can read it
            if here == device and seconds is not None and len(self._took[kind]) < NEWEST:
                self._took[kind].append(seconds)
        self._fresh: set[str] = set()  # what was timed just now
        self._alike: dict[str, list[float]] = {}
        for kind, took in self._took.items():
            self._alike[kind.alike] = took

    def of(self, kind: Kind, guess: bool = True) -> Time | None:
        """Expect a time from alike runs, else from the nearest; None where there is no basis."""
        if took := self._alike.get(kind.alike):
            basis = "timed" if kind.alike in self._fresh else "alike"
            return _spread(statistics.median(took), took, basis)
        family = [other for other in self._took if other.family == kind.family]
        near = [other for other in family if kind.near(other)]
        if not near and not guess:
            return None
        ranked = sorted((kind.distance(each), each.alike, each) for each in near or family)
        if not ranked:
            return None
        guesses, weights = [], []
        for distance, _, other in ranked[:NEIGHBOURS]:
            took = statistics.median(self._took[other])
            guesses.append(took * math.exp(kind.scale - other.scale))
            weights.append(1 / (distance + 0.1))
        logs = sum(w * math.log(g) for w, g in zip(weights, guesses, strict=True))
        basis = "nearest" if near else "guessed"
        if near and ranked[0][1] in self._fresh:
            basis = "timed"
        return _spread(math.exp(logs / sum(weights)), guesses, basis)

    def add(self, kind: Kind, seconds: float) -> None:
        """Count what was timed just now."""
        self._took[kind] = self._alike[kind.alike] = [seconds]
        self._fresh.add(kind.alike)


def _spread(middle: float, seen: Sequence[float], basis: str) -> Time:
    less, more = LEAST[basis]
    return Time(middle, min(less * middle, *seen), max(more * middle, *seen), basis)


def taken(entry: Entry) -> float | None:
    """Say what a stored run took; None where it diverged and so stopped early."""
    record, made = entry.record, entry.made
    if record.get("diverged_at") is not None:
        return None
    together = made.get("together", 1)
    wall = made["seconds"] / together if "seconds" in made else None
    on_cpu = made.get("device", CPU) == CPU
    used = record.get("cpu_seconds") if on_cpu else wall or record.get("seconds")
    if not isinstance(used, int | float) or used <= 0:
        return None
    return min(used, wall) if wall else used


def timed(run: Run, device: str = CPU, limit: float = 1.0) -> float:
    """Train a few steps of a run, for about `limit` seconds, and say what all of them would take.

    The first step is not counted, unless it alone takes too long; what probes take is.
    """
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        try:
            torch.set_num_threads(1)  # as a worker does
            record, share = _few(run, 1, device)
            if record.seconds < limit / 4:
                steps = min(run.train.steps, 20, int(limit / 2 / max(record.seconds, 1e-3)))
                record, share = _few(run, max(2, steps), device)
        finally:
            torch.set_num_threads(threads)
    loop = record.seconds * share
    measuring = max(0.0, record.cpu_seconds - loop)
    return loop / max(1, len(record.losses)) * run.train.steps + measuring


def _few(run: Run, steps: int, device: str) -> tuple[Record, float]:
    """Train so many steps, and say which share of the time this process was at work."""
    wall, cpu = time.perf_counter(), time.process_time()
    record = execute(replace(run, train=replace(run.train, steps=steps)), device=device)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return record, min(1.0, cpu / wall) if device == CPU else 1.0


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """Give a config's defaults as JSON reads them."""
    if kind not in CONFIGS:
        return {}
    return json.loads(json.dumps({f.name: f.default for f in fields(CONFIGS[kind])}, default=str))


def _chosen(part: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the fields at their default; tuples become lists, as in a stored run."""
    default = _defaults(part["type"])
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in part.items()}
    return {k: v for k, v in plain.items() if k not in default or default[k] != v}
