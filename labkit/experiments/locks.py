"""Locks: a claim's sentence and criterion, preregistered before the runs that decide it.

    data/locks/05.jsonl     one row per lock, for the claims whose names begin with 05-

    id, said, criterion     the claim, its sentence, and what the whole interval must meet
    arms, rungs             the two methods that are compared on the shared ladder, and the rungs;
                            empty elsewhere
    n, margin               number of evaluation seeds (of each rung, if they differ), and the
                            smallest difference that so many can detect
    rate                    how the learning rate of each method is chosen
    paired                  whether runs with the same seed are compared in pairs; absent: no. New
                            locks of the ladder are paired unless they say otherwise
    sort                    "ranking" (which of two is better) or "law-like" (is there an effect)
    probability             that the verdict will be *holds*, by the authors
    paper                   the probability that the authors enter for the source, if the source
                            makes the claim: mostly 0.9, less where it hedges; or null
    at, commit              when it was locked (UTC), on top of which commit
    sum                     a checksum of all of the above

A row never changes. A second lock of a claim is a new row; the last one counts, and a page shows
all. data/locks/committed.csv has the time of the commit that brought each row, by its checksum
(`labkit book tables` reads it off git): a lock is as old as the later of its two times.

data/locks/wordings.csv has clearer sentences that mean the same, by the checksum of the lock. Cards
show them first, and the lock's own when opened. A chapter still states the lock's own sentence.

A claim has one of three words (WORDS has how a card writes them), by which of the runs that it
compares, on the rungs that are judged, are older than its lock:

    locked, then run        none of them, the learning-rate searches included
    looked, then locked     runs of a learning-rate search or of a preliminary evaluation, but none
                            of the runs that are judged
    seen first              a run that is judged; or nothing was locked

A run that is repeated in order to measure something else counts as new, unless the original run
had already recorded the quantity that is judged. Until all locked seeds have been evaluated, a card
says so in place of the word, and shows the preliminary evaluation.
"""

import csv
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from labkit.statistics.criteria import Estimate, parse_criterion
from labkit.statistics.pooled import Difference
from labkit.system.files import write_whole

LOCKED, LOOKED, SEEN = "locked, then run", "looked, then locked", "seen first"
WORDS = {  # as a card shows them
    LOCKED: "preregistered",
    LOOKED: "preregistered after exploratory runs",
    SEEN: "not preregistered",
}
SORTS = ("ranking", "law-like")
COMMITS, WORDINGS = "committed.csv", "wordings.csv"
MARGIN = 0.01  # nats of test loss: on the ladder two methods within it are "the same"
RATE = "three tuning seeds; the vertex of a parabola in log rate"


class LockError(ValueError):
    """An edited or invalid lock, or a claim that differs from its lock."""


@dataclass(frozen=True)
class Lock:
    """One row of data/locks; see the top of the file."""

    id: str
    said: str
    criterion: str
    arms: tuple[str, ...]
    rungs: tuple[str, ...]
    n: int | tuple[int, ...]
    margin: float | None
    rate: str
    sort: str
    probability: float
    paper: float | None
    at: str
    commit: str
    paired: bool = False

    def __post_init__(self) -> None:
        parse_criterion(self.criterion)
        for what, p in (("probability", self.probability), ("paper's probability", self.paper)):
            if p is not None and not 0 < p < 1:
                raise ValueError(f"a {what} must be above 0 and below 1, got {p:g}")
        if self.sort not in SORTS:
            raise ValueError(f"the kind of a lock must be {' or '.join(SORTS)}, got {self.sort!r}")
        if self.paired and not self.arms:
            raise ValueError(
                "only two arms of the ladder can be compared in pairs, but this lock has no "
                "arms; name two arms, or leave paired out"
            )
        counts = self.n if isinstance(self.n, tuple) else (self.n,)
        if min(counts) < 2:
            raise ValueError(f"a lock needs at least two seeds, got n = {_show(self.n)}")
        if isinstance(self.n, tuple) and len(self.n) != len(self.rungs):
            raise ValueError(
                "a lock must have one n, or one for each of its rungs, got n = "
                f"{_show(self.n)} for {_show(self.rungs) or 'no rung'}"
            )

    def count_seeds(self, rung: str) -> int:
        """Return the number of evaluation seeds on a rung."""
        return self.n[self.rungs.index(rung)] if isinstance(self.n, tuple) else self.n

    def compute_sum(self) -> str:
        """Hash the content."""
        text = json.dumps(self._list_fields(), sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_row(self) -> dict[str, Any]:
        """Write the lock with its checksum."""
        return {**self._list_fields(), "sum": self.compute_sum()}

    def _list_fields(self) -> dict[str, Any]:
        """List the stored fields: `paired` only if it is true, which keeps old checksums valid."""
        return {name: of for name, of in asdict(self).items() if name != "paired" or of}


def build_lock_path(root: Path, id: str) -> Path:
    """Return the file with the locks of a claim."""
    return Path(root) / "data" / "locks" / f"{id.partition('-')[0]}.jsonl"


def read_locks(root: Path) -> list[Lock]:
    """Read all locks, in the order in which they were written.

    Raises:
        LockError: a row was edited, or is not a lock.
    """
    paths = sorted((Path(root) / "data" / "locks").glob("*.jsonl"))
    found = [lock for path in paths for lock in _read_file(path, path.stat().st_mtime_ns)]
    return sorted(found, key=lambda lock: lock.at)


def find_lock(root: Path, id: str) -> Lock | None:
    """Return the last lock of a claim; None if it has none."""
    path = build_lock_path(root, id)
    rows = _read_file(path, path.stat().st_mtime_ns) if path.is_file() else ()
    return next((lock for lock in reversed(rows) if lock.id == id), None)


@lru_cache(maxsize=64)
def _read_file(path: Path, changed: int) -> tuple[Lock, ...]:
    names, found = {field.name for field in fields(Lock)}, []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"row {number} of data/locks/{path.name}"
        fix = "a lock never changes: restore it (git checkout), and lock the claim again"
        try:
            row = json.loads(line)
            given = {name: row[name] for name in names if name in row or name != "paired"}
            lists = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
            lock = Lock(**{**given, **lists})
        except (ValueError, TypeError, KeyError) as error:
            raise LockError(f"{where} must be a valid lock, but is not ({error}); {fix}") from error
        if row != json.loads(json.dumps(lock.to_row())):
            raise LockError(
                f"a lock must not change after it was written, but {where} was edited: its "
                f"checksum differs from its content; {fix}"
            )
        found.append(lock)
    return tuple(found)


def add_lock(root: Path, lock: Lock) -> Path:
    """Append a lock to its file, atomically."""
    path = build_lock_path(root, lock.id)
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    write_whole(path, f"{before}{json.dumps(lock.to_row(), ensure_ascii=False)}\n")
    return path


def refuse_difference(lock: Lock, asked: Mapping[str, Any]) -> None:
    """Refuse a claim that differs from its lock.

    `asked` has the claim's sentence (said), its criterion and, if there are any, its arms.

    Raises:
        LockError: one of them differs.
    """
    for name, value in asked.items():
        locked = getattr(lock, name)
        if value != locked:
            raise LockError(
                f"a claim must match its lock, but {lock.id!r} was locked on {lock.at[:10]} with "
                f"{name} {_show(locked)}, and the chapter has {_show(value)}; restore it, or lock "
                f"the claim again: labkit claims lock {lock.id}=PROBABILITY"
            )


def refuse_seed_count(lock: Lock, n: int) -> None:
    """Refuse a claim outside the ladder that reads more or fewer seeds than its lock has.

    Raises:
        LockError: `n` differs from the lock's number.
    """
    if n != lock.n:
        raise LockError(
            f"claim {lock.id!r} was locked with n = {_show(lock.n)}, but the chapter uses {n} "
            "seeds; use as many as the lock says, or lock the claim again"
        )


def _show(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)


def read_commits(root: Path) -> dict[str, str]:
    """Read when each row was committed (UTC), by its checksum."""
    return read_column(root, COMMITS, "sum", "committed")


def read_wordings(root: Path) -> dict[str, str]:
    """Read the clearer sentences, which mean the same as their locks', by checksum."""
    return read_column(root, WORDINGS, "sum", "sentence")


def read_column(root: Path, name: str, key: str, column: str) -> dict[str, str]:
    """Map one column of a table in data/locks to another; empty if there is no such table."""
    path = Path(root) / "data" / "locks" / name
    return _parse_column(path, path.stat().st_mtime_ns, key, column) if path.is_file() else {}


@lru_cache(maxsize=4)
def _parse_column(path: Path, changed: int, key: str, column: str) -> dict[str, str]:
    with path.open(encoding="utf-8", newline="") as lines:
        return {row[key]: row[column] for row in csv.DictReader(lines)}


def find_time(root: Path, lock: Lock) -> str:
    """Return the later of the times at which a lock was written and committed."""
    committed = read_commits(root).get(lock.compute_sum(), lock.at)
    return max(lock.at, committed, key=datetime.fromisoformat)


def choose_word(locked: str, since: str, looked: str | None = None) -> str:
    """Return the word for a claim's runs that are older than its lock; see the top of the file.

    `locked` is the time of the lock (`find_time`), empty if there is none. `since` is when the
    first run that is judged began (UTC), and `looked` when the first of all runs began, including
    searches and preliminary evaluations (None: there are no others). A run without a time counts as
    older.
    """
    if not locked or not since or _is_older(since, locked):
        return SEEN
    return LOCKED if looked is None or (looked and not _is_older(looked, locked)) else LOOKED


def _is_older(start: str, locked: str) -> bool:
    return datetime.fromisoformat(start) < datetime.fromisoformat(locked)


def describe_waiting(lock: Lock, rungs: Mapping[str, Estimate]) -> list[str]:
    """List the rungs of a locked claim on which evaluation seeds are still missing.

    Preliminary evaluations do not replace them.

    Raises:
        LockError: a rung has more seeds than its lock.
    """
    left = []
    for rung in lock.rungs:
        one, asked = rungs.get(rung), lock.count_seeds(rung)
        n = one.count_seeds(lock.paired) if isinstance(one, Difference) else 0
        if n > asked:
            raise LockError(
                f"claim {lock.id!r} was locked with n = {asked}, but the chapter uses {n} seeds "
                f"at size {rung}; use as many as the lock says, or lock the claim again"
            )
        if n < asked:
            left.append(f"{n} of {asked} seeds evaluated on {rung}")
    return left
