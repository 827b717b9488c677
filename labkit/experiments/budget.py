"""How long a sweep will take, said before it starts, and what fits into a budget.

    seconds = max(sum of the runs' times / slots, the longest run)

Runs that the store has take nothing. What a run takes is measured, never assumed: see timings.py.
Only a budget is worth a measurement of its own, in a worker process: see stopwatch.py.
"""

import contextlib
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.experiments.durations import format_duration, parse_duration
from labkit.experiments.kinds import Kind, kind_of
from labkit.experiments.queries.entries import scan
from labkit.experiments.run import Run
from labkit.experiments.stopwatch import stopwatch
from labkit.experiments.store import Store
from labkit.experiments.timings import Time, Timings

CALIBRATION = 4.0  # seconds after the first run was timed: then what is left is guessed
BASES = {
    "alike": "as alike runs took",
    "nearest": "scaled from the nearest",
    "timed": "timed for a few steps",
    "guessed": "guessed from unlike runs",
}


@dataclass(frozen=True)
class Estimate:
    """The expected time of a sweep."""

    seconds: float  # wall time on idle slots
    basis: str  # in words
    unknown: int = 0  # runs of which nothing is known; they are not in `seconds`
    low: float = 0.0  # nine of ten estimates like this lie between low and high
    high: float = 0.0
    missing: int = 0  # runs to train

    def __str__(self) -> str:
        if not self.missing:
            return "nothing to train: every run is stored"
        if self.unknown == self.missing:
            return f"{self.missing} runs, and nothing is known of how long such runs take"
        text = f"about {format_duration(self.seconds)}"
        if self.high > 1.25 * self.seconds or self.low < 0.8 * self.seconds:
            text += f" (between {format_duration(self.low)} and {format_duration(self.high)})"
        unknown = f"; of {self.unknown} nothing is known" if self.unknown else ""
        return f"{text} for {self.missing} runs, {self.basis}{unknown}"


def estimate(runs: Sequence[Run], store: Store, slots: int, *, measure: bool = False) -> Estimate:
    """Expect the time to train what the store lacks of these runs, on so many slots.

    With `measure` a few steps are trained of what nothing stored is like, in a worker process.
    """
    times, missing = _times(runs, store, measure)
    return _sum(times, missing, slots)


def refusal(expected: Estimate, allowed: float) -> str:
    """Say why a sweep is not begun for which so many seconds are allowed; "" where it fits."""
    if expected.unknown:
        return (
            f"{_beside(expected, allowed)}. Train one run of each unknown kind first, or give no "
            "budget"
        )
    if expected.seconds > allowed:
        return f"{_beside(expected, allowed)}. Raise it, shrink the grid, or allow fewer seeds"
    return ""


def within(
    runs: Sequence[Run], store: Store, slots: int, budget: str | float, shrink: bool = False
) -> list[Run]:
    """Give back the runs if they fit into the budget, else raise ValueError.

    With `shrink` whole seeds are left out, the highest first and the same for every arm, until
    the rest fits; every arm keeps one. What is left out is printed. Stored runs take nothing, so
    the same call goes on with what the last one left out.
    """
    allowed = parse_duration(budget)
    times, missing = _times(runs, store, measure=True)
    whole = _sum(times, missing, slots)
    refused = refusal(whole, allowed)
    if not refused:
        return list(runs)
    if whole.unknown or not shrink:
        raise ValueError(refused)
    kept, dropped = list(runs), []
    for seed in sorted({run.seed for run in runs}, reverse=True):
        fewer = [run for run in kept if run.seed != seed]
        if _arms(fewer) != _arms(runs):
            break
        kept, dropped = fewer, [*dropped, seed]
        lacking = {key: run for key, run in missing.items() if run.seed not in dropped}
        rest = _sum(times, lacking, slots)
        if rest.seconds <= allowed:
            print(
                f"budget {format_duration(allowed)}: {len(runs) - len(kept)} of {len(runs)} runs "
                f"left out, those of seed {', '.join(map(str, sorted(dropped)))} in every arm; "
                f"the rest takes {rest}"
            )
            return kept
    raise ValueError(
        f"{_beside(whole, allowed)}, and no more seeds can be left out of every arm. Raise it, or "
        "shrink the grid"
    )


def _times(
    runs: Sequence[Run], store: Store, measure: bool
) -> tuple[dict[str, Time], dict[str, Run]]:
    """Expect the time of each missing run, by key, and list those runs."""
    keyed = {run.key(store.device): run for run in runs}
    missing = {key: run for key, run in keyed.items() if store.get(run) is None}
    if not missing:
        return {}, {}
    timings = Timings(scan(store.folder).entries, store.device)
    kinds = {key: kind_of(run.to_dict()) for key, run in missing.items()}
    if measure:
        _measure(timings, {kind: missing[key] for key, kind in kinds.items()}, store.device)
    found = {key: timings.of(kind) for key, kind in kinds.items()}
    return {key: each for key, each in found.items() if each}, missing


def _measure(timings: Timings, kinds: dict[Kind, Run], device: str) -> None:
    """Time a run of each kind that nothing stored is near, the smallest first."""
    strange = [kind for kind in kinds if not timings.of(kind, guess=False)]
    until = math.inf  # the first has all its time: its worker must start
    with stopwatch(device) as timed:
        for kind in sorted(strange, key=lambda each: (each.scale, each.alike)):
            if time.monotonic() > until:
                break
            if timings.of(kind, guess=False):
                continue  # near one that was just timed
            # Not on this machine, or not at all: the sweep itself will say why.
            with contextlib.suppress(RuntimeError):
                timings.add(kind, timed(kinds[kind]))
            until = min(until, time.monotonic() + CALIBRATION)


def _sum(times: dict[str, Time], missing: dict[str, Run], slots: int) -> Estimate:
    chosen = [times[key] for key in missing if key in times]

    def wall(seconds: list[float]) -> float:
        return max(math.fsum(seconds) / max(1, slots), max(seconds, default=0.0))

    counts = Counter(each.basis for each in chosen)
    words = [f"{counts[basis]} {words}" for basis, words in BASES.items() if counts[basis]]
    return Estimate(
        wall([each.seconds for each in chosen]),
        f"on {slots} idle slot{'s' * (slots != 1)}: {', '.join(words) or 'nothing measured'}",
        len(missing) - len(chosen),
        wall([each.low for each in chosen]),
        wall([each.high for each in chosen]),
        len(missing),
    )


def _arms(runs: Sequence[Run]) -> set[Run]:
    return {replace(run, seed=0) for run in runs}


def _beside(expected: Estimate, allowed: float) -> str:
    return f"this sweep needs {expected}; the budget is {format_duration(allowed)}"
