"""How long a run will take, from what runs took before.

alike     equal but for seed, learning rates and the like: the median of what those took
nearest   same kind of network and optimizer; the nearest in size, scaled: see kinds.py
timed     no such run is stored: a few steps of it, or of one near it: see stopwatch.py
guessed   nor is there time for that: as nearest, from runs of far other sizes or probes

Runs of older code count too: an edit of one norm does not change what training costs. All are
seconds on one idle slot: processor time where that is less than wall time.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.experiments.kinds import Kind, kind_of
from labkit.experiments.queries.entries import Entry
from labkit.experiments.run import CPU

NEWEST = 15  # of alike runs: code, machine and load change
NEIGHBOURS = 5  # whose spread is the range of a guess
# The least range of an expectation, as its factor: few neighbours may agree by chance. Measured
# over the book's store by leaving out a run (alike) or the runs of a chapter (the others). Timing
# a few steps says too much rather than too little: caches are cold, and others work beside it.
LEAST = {"alike": (0.85, 1.15), "nearest": (0.7, 1.4), "timed": (0.4, 1.4), "guessed": (0.1, 10)}


@dataclass(frozen=True)
class Time:
    """What one run took, or is expected to."""

    seconds: float
    low: float  # nine of ten lie between low and high
    high: float
    basis: str  # alike, nearest, timed or guessed


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
