"""How long a sweep will take, said before it starts, and what fits into a budget.

    seconds = max(sum of the runs' times / slots, the longest run)

Runs that the store has take nothing. What a run takes is measured, never assumed: see timings.py.
"""

import math
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from labkit.experiments.queries.entries import scan
from labkit.experiments.run import Run
from labkit.experiments.store import Store
from labkit.experiments.timings import Kind, Time, Timings, kind_of, timed

UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([dhms])\s*")
CALIBRATION = 4.0  # seconds, at most about so many, to time what nothing stored is like
BASES = {
    "alike": "as alike runs took",
    "nearest": "scaled from the nearest",
    "timed": "timed for a few steps",
    "guessed": "guessed from unlike runs",
}


def parse_duration(text: str | float) -> float:
    """Read a duration as seconds: "90", "10m", "1h30m", "2 d"; a number is seconds."""
    if isinstance(text, str):
        plain = text.strip().lower()
        parts = _PART.findall(plain)
        if parts and not _PART.sub("", plain) and len({unit for _, unit in parts}) == len(parts):
            return sum(float(number) * UNITS[unit] for number, unit in parts)
        try:
            seconds = float(plain)
        except ValueError:
            seconds = math.nan
    else:
        seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(
            "a duration is a number of seconds, or of d, h, m and s, such as 10m or 1h30m; "
            f"got {text!r}"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Write a duration for a reader, in its two largest units: "3 min 20 s"."""
    if seconds < 10:
        return f"{seconds:.2g} s"
    names = {"d": "d", "h": "h", "m": "min", "s": "s"}
    left, words = round(seconds), []
    for unit, size in UNITS.items():
        count, left = divmod(left, int(size))
        if count or words:
            words.append((count, names[unit]))
    return " ".join(f"{count} {name}" for count, name in words[:2] if count)


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
        text = f"about {format_duration(self.seconds)}"
        if self.high > 1.25 * self.seconds or self.low < 0.8 * self.seconds:
            text += f" (between {format_duration(self.low)} and {format_duration(self.high)})"
        unknown = f"; of {self.unknown} nothing is known" if self.unknown else ""
        return f"{text} for {self.missing} runs, {self.basis}{unknown}"


def estimate(runs: Sequence[Run], store: Store, slots: int) -> Estimate:
    """Expect the time to train what the store lacks of these runs, on so many slots."""
    times, missing = _times(runs, store)
    return _sum(times, missing, slots)


def within(
    runs: Sequence[Run], store: Store, slots: int, budget: str | float, shrink: bool = False
) -> list[Run]:
    """Give back the runs if they fit into the budget, else raise ValueError.

    With `shrink` whole seeds are left out, the highest first and the same for every arm, until
    the rest fits; every arm keeps one. What is left out is printed.
    """
    allowed = parse_duration(budget)
    times, missing = _times(runs, store)
    whole = _sum(times, missing, slots)
    if whole.seconds <= allowed and not whole.unknown:
        return list(runs)
    needs = f"needs {whole}; the budget is {format_duration(allowed)}"
    if whole.unknown:
        raise ValueError(
            f"this sweep {needs}. Train one run of each unknown kind first, or give no budget"
        )
    if not shrink:
        raise ValueError(f"this sweep {needs}. Raise it, shrink the grid, or allow fewer seeds")
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
        f"this sweep {needs}, and no more seeds can be left out of every arm. Raise it, or shrink "
        "the grid"
    )


def _times(runs: Sequence[Run], store: Store) -> tuple[dict[str, Time], dict[str, Run]]:
    """Expect the time of each missing run, by key, and list those runs."""
    keyed = {run.key(store.device): run for run in runs}
    missing = {key: run for key, run in keyed.items() if not store.path(run).is_file()}
    if not missing:
        return {}, {}
    timings = Timings(scan(store.folder).entries, store.device)
    kinds = {key: kind_of(run.to_dict()) for key, run in missing.items()}
    _calibrate(timings, kinds, missing, store.device)
    found = {key: timings.of(kind) for key, kind in kinds.items()}
    return {key: each for key, each in found.items() if each}, missing


def _calibrate(
    timings: Timings, kinds: dict[str, Kind], missing: dict[str, Run], device: str
) -> None:
    """Time a run of each kind that nothing stored is near, the smallest first."""
    strange = {kind: key for key, kind in kinds.items() if not timings.of(kind, guess=False)}
    until = time.monotonic() + CALIBRATION
    for kind in sorted(strange, key=lambda each: (each.scale, each.alike)):
        if time.monotonic() > until:
            break  # the rest is guessed
        if timings.of(kind, guess=False):
            continue  # near one that was just timed
        try:
            timings.add(kind, timed(missing[strange[kind]], device))
        except Exception:
            continue  # not on this machine, or not at all: the sweep will say why


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
