"""Forecasts of verdicts, and their scores: how good is a probability that a claim will hold?

    Brier = mean (p − o)²       o = 1 where the verdict is *holds*, else 0; 0.25 is a coin's
    calibration: of the forecasts between 0.6 and 0.8, which share held?

The authors' stand in the locks, and beside them what the authors enter for a paper that says the
sentence; a reader's own in .labkit/forecasts.jsonl, on his machine alone. A forecast counts once
its claim was judged by that lock.

A lock never changes. Where one ascribes to a paper what the paper does not say, the paper's half
is withdrawn in data/locks/withdrawn.csv, with the reason, and not scored; the authors' stays.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from labkit.experiments.locks import LOCKED, LOOKED, WORDS, Lock, read_column, read_locks
from labkit.system.files import write_whole
from press.book.ledger import load_recorded

HELD = ("holds", "holds-on-one")
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class Forecast:
    """A forecast: who assigned a claim which probability, when, and the outcome."""

    id: str
    probability: float
    by: str  # authors, paper, or you
    at: str
    sort: str = ""
    outcome: bool | None = None  # None: not judged yet
    verdict: str = ""
    word: str = ""  # of the card: which runs are older than its lock (labkit.experiments.locks)
    sum: str = ""  # the lock's checksum

    @property
    def error(self) -> float:
        """Return the squared error; NaN without an outcome."""
        return math.nan if self.outcome is None else (self.probability - self.outcome) ** 2

    def __str__(self) -> str:
        word = WORDS.get(self.word, self.word)
        came = f"{self.verdict} ({word}), error {self.error:.2f}" if self.verdict else "not judged"
        return f"{self.at[:16]}  {self.by:<8} {self.probability:4.2f}  {self.id}: {came}"


@dataclass(frozen=True)
class Score:
    """The score of one forecaster on one kind of claim, and what had been seen before."""

    by: str
    sort: str
    word: str
    count: int
    brier: float
    bins: tuple[tuple[float, float, int, int], ...]  # from, to, forecasts, held

    def __str__(self) -> str:
        kept = ", ".join(f"{low:g} to {high:g}: {k} of {n} held" for low, high, n, k in self.bins)
        about = ", ".join(filter(None, (self.by, self.sort, WORDS.get(self.word, self.word))))
        return f"{about}: Brier {self.brier:.3f} of {self.count} ({kept})"


def list_forecasts(root: Path) -> list[Forecast]:
    """List the forecasts of the authors, the papers and the reader, with their outcomes."""
    claims, withdrawn = load_recorded(root, "book")["claims"], read_withdrawn(root)
    last = {lock.id: lock for lock in read_locks(root)}  # with which a card is compared
    found = [
        one
        for lock in last.values()
        for one in _split_lock(lock)
        if one.by != "paper" or one.id not in withdrawn
    ]
    return [_judge(one, claims.get(one.id)) for one in (*found, *_read_own(root))]


def read_withdrawn(root: Path) -> dict[str, str]:
    """Read which papers' forecasts were locked by mistake, and why each is withdrawn."""
    return read_column(root, "withdrawn.csv", "id", "why")


def _split_lock(lock: Lock) -> list[Forecast]:
    given = {"authors": lock.probability, "paper": lock.paper}
    return [
        Forecast(lock.id, p, by, lock.at, lock.sort, sum=lock.compute_sum())
        for by, p in given.items()
        if p is not None
    ]


def _judge(one: Forecast, claim: dict[str, Any] | None) -> Forecast:
    """Add the verdict; there is none while a claim lacks seeds, or a card after a new lock."""
    lock = (claim or {}).get("lock") or {}
    if claim is None or lock.get("waits") or (one.by != "you" and lock.get("sum") != one.sum):
        return one
    verdict = str(claim["verdict"])
    outcome = None if verdict == "out-of-range" else verdict in HELD
    return replace(one, verdict=verdict, word=claim.get("word") or "", outcome=outcome)


def _build_own_path(root: Path) -> Path:
    return root / ".labkit" / "forecasts.jsonl"


def _read_own(root: Path) -> list[Forecast]:
    path = _build_own_path(root)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    last = {row["id"]: Forecast(**row) for row in map(json.loads, lines)}
    return list(last.values())


def add_forecast(root: Path, one: Forecast) -> None:
    """Append a reader's own forecast."""
    path = _build_own_path(root)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    row = {"id": one.id, "probability": one.probability, "by": one.by, "at": one.at}
    write_whole(path, f"{before}{json.dumps(row)}\n")


def score_forecasts(forecasts: Sequence[Forecast]) -> list[Score]:
    """Score each forecaster, rankings and laws separately; only claims with a verdict count.

    The authors are scored on what was locked before it ran, and apart from that on what was locked
    after a look; a reader on all that he forecast.
    """
    groups: dict[tuple[str, str, str], list[Forecast]] = {}
    for one in forecasts:
        word = "" if one.by == "you" else one.word
        if one.outcome is not None and word in ("", LOCKED, LOOKED):
            groups.setdefault((one.by, one.sort or "all", word), []).append(one)
    return [_score(*of, groups[of]) for of in sorted(groups)]


def _score(by: str, sort: str, word: str, of: Sequence[Forecast]) -> Score:
    brier = math.fsum(one.error for one in of) / len(of)
    bins = []
    for low, high in pairwise(BINS):
        inside = [one for one in of if low <= one.probability < high]
        if inside:
            bins.append((low, high, len(inside), sum(bool(one.outcome) for one in inside)))
    return Score(by, sort, word, len(of), brier, tuple(bins))
