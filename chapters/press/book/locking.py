"""Write and list locks and forecasts, for `labkit claims lock` and `locks`."""

import csv
import io
import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from labkit.experiments.locks import (
    COMMITS,
    LOOKED,
    MARGIN,
    RATE,
    SEEN,
    WORDS,
    Lock,
    add_lock,
    find_lock,
    read_commits,
    read_locks,
)
from labkit.statistics.criteria import parse_criterion
from labkit.system.files import hold_lock, write_whole
from labkit.system.provenance import collect_provenance
from press.book.forecasts import (
    Forecast,
    add_forecast,
    list_forecasts,
    read_withdrawn,
    score_forecasts,
)
from press.book.ledger import load_recorded

Given = Mapping[str, Any]


def lock_claims(root: Path, asked: Sequence[tuple[str, float]], given: Given) -> list[str]:
    """Lock claims with the given probabilities; return one line per lock written.

    What the command does not say comes from the ledger, where the claim is recorded.
    """
    claims = load_recorded(root, "book")["claims"]
    locks = [_make_lock(root, name, p, given, claims) for name, p in asked]
    lines = []
    with hold_lock(root / ".labkit" / "locks.lock"):
        for lock in locks:
            again = find_lock(root, lock.id) is not None
            path = add_lock(root, lock)
            words = f"{lock.id}: locked, p = {lock.probability:g}, in {path.relative_to(root)}"
            lines.append(
                words + (", in addition to its earlier lock" if again else "") + _warn(root, lock)
            )
    return lines


def _make_lock(root: Path, name: str, p: float, given: Given, claims: Mapping[str, Any]) -> Lock:
    """Make a claim's lock from the given values, or else from the ledger."""
    known = claims.get(name, {})
    said, criterion = given.get("said") or known.get("said"), given.get("criterion")
    criterion = criterion or known.get("criterion")
    if not (said and criterion):
        raise ValueError(
            f"a new claim needs a sentence and a criterion, and no claim {name!r} is recorded; "
            f'give both: labkit claims lock {name}={p:g} --said "…" --criterion "> 0"'
        )
    arms, rungs = tuple(given.get("arms") or ()), tuple(given.get("rungs") or ())
    earlier = find_lock(root, name)
    if earlier is not None and earlier.arms and not arms:
        raise ValueError(
            f"a new lock of {name!r} must name arms and rungs, because the earlier one, which it "
            "replaces, is on the ladder, but got none; give --arm twice, --rungs and --n, or enter "
            "your own forecast with --mine"
        )
    if bool(arms) != bool(rungs):
        raise ValueError(
            f"a claim on the ladder must name both arms and rungs, but {name!r} has arms "
            f"{', '.join(arms) or 'none'} and rungs {', '.join(rungs) or 'none'}; give --arm "
            "twice and --rungs, or neither"
        )
    _check_ladder(arms, rungs)
    _check_margin(arms, str(criterion))
    return Lock(
        id=name,
        said=str(said),
        criterion=str(criterion),
        arms=arms,
        rungs=rungs,
        n=_read_counts(given.get("n")) or int(known.get("seeds") or 0),
        margin=given.get("margin"),
        rate=str(given.get("rate") or (RATE if arms else "as its chapter says")),
        sort=str(given.get("sort") or ("ranking" if arms else "law-like")),
        probability=p,
        paper=given.get("paper"),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=collect_provenance()["commit"],
        paired=bool(arms) if given.get("paired") is None else bool(given["paired"]),
    )


def _read_counts(words: str | None) -> int | tuple[int, ...]:
    """Read the number of evaluation seeds: one number, or one per rung."""
    if words is None:
        return 0
    try:
        counts = tuple(int(word) for word in words.split(","))
    except ValueError as error:
        raise ValueError(
            f"--n must be a number of seeds, or one number per rung, as in 20,10; got {words!r}"
        ) from error
    return counts[0] if len(counts) == 1 else counts


def _check_ladder(arms: Sequence[str], rungs: Sequence[str]) -> None:
    if not arms:
        return
    from labkit.experiments import ladder
    from labkit.system.unknown import explain_unknown

    for what, names, known in (("arm", arms, ladder.ARMS), ("rung", rungs, ladder.CLIMBED)):
        for name in names:
            if name not in known:
                raise ValueError(explain_unknown(what, name, known))
    if len(arms) != 2:
        raise ValueError(
            f"a comparison needs exactly two arms, got {len(arms)}: {', '.join(arms)}; give --arm "
            "twice"
        )


def _check_margin(arms: Sequence[str], criterion: str) -> None:
    """Refuse "the same" on the ladder at another margin than all others have."""
    rule = parse_criterion(criterion)
    if arms and rule.two_sided and (rule.low, rule.high) != (-MARGIN, MARGIN):
        raise ValueError(
            f"on the ladder, two methods are the same only within a margin of {MARGIN:g} nats, got "
            f'{criterion!r}; give --criterion "in [-{MARGIN:g}, {MARGIN:g}]"'
        )


def _warn(root: Path, lock: Lock) -> str:
    """List the runs that already exist, and the word that the card will show."""
    if not lock.arms:
        return ""
    from labkit.experiments import ladder
    from labkit.experiments.store import Store

    read = Store(root).read_record
    seen: dict[str, list[str]] = {}
    for rung, arm in product(lock.rungs, lock.arms):
        of = ladder.MethodRuns(rung, arm, read)
        for word, runs in ((SEEN, of.strict_finals), (LOOKED, of.every)):
            if any(read(run) is not None for run in runs):
                seen.setdefault(word, []).append(f"{arm} on {rung}")
                break
    for word, what in ((SEEN, "evaluation runs"), (LOOKED, "runs")):
        if word in seen:
            return f"; {WORDS[word]}: there already are {what} of {', '.join(seen[word])}"
    return ""


def forecast_claims(root: Path, asked: Sequence[tuple[str, float]]) -> list[str]:
    """Store a reader's own forecasts; return one line per forecast written."""
    known = {*load_recorded(root, "book")["claims"], *(lock.id for lock in read_locks(root))}
    for name, p in asked:
        if name not in known:
            raise ValueError(
                "a forecast must be about a recorded or locked claim, but there is no claim "
                f"{name!r}; the scoreboard lists all"
            )
        if not 0 < p < 1:
            raise ValueError(f"a probability must be above 0 and below 1, got {p:g}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    for name, p in asked:
        add_forecast(root, Forecast(name, p, "you", now))
    return [f"{name}: your forecast is {p:g}" for name, p in asked]


def describe_locks(root: Path) -> str:
    """Describe every lock with its outcome, and the scores."""
    forecasts = list_forecasts(root)
    if not forecasts:
        return "nothing is locked yet; lock a claim with: labkit claims lock ID=PROBABILITY"
    lines = [str(one) for one in forecasts]
    lines += [f"not the paper's  {name}: {why}" for name, why in read_withdrawn(root).items()]
    return "\n".join([*lines, *map(str, score_forecasts(forecasts))])


def write_commits(root: Path, *, check: bool) -> list[str]:
    """Add the times at which git got the rows that have none yet; a time never changes."""
    known = read_commits(root)
    rows = {lock.compute_sum() for lock in read_locks(root)}
    found = _read_commit_times(root) if rows - known.keys() else {}
    added = {name: found[name] for name in sorted(found) if name in rows and name not in known}
    if added and not check:
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerows([("sum", "committed"), *sorted({**known, **added}.items())])
        write_whole(root / "data" / "locks" / COMMITS, text.getvalue())
    return ["the commits' times of locks"] if added else []


def _read_commit_times(root: Path) -> dict[str, str]:
    """Read from git when each committed row of data/locks got there (UTC), by its checksum."""
    times: dict[str, str] = {}
    for path in sorted((root / "data" / "locks").glob("*.jsonl")):
        command = ["git", "blame", "--line-porcelain", path.name]
        try:
            told = subprocess.run(command, cwd=path.parent, capture_output=True, text=True)
        except FileNotFoundError:
            return {}
        commit, at = "", 0
        for line in told.stdout.splitlines():
            if line.startswith("\t"):
                if commit.strip("0"):  # git names what is not committed yet by zeros
                    when = datetime.fromtimestamp(at, UTC)
                    times[json.loads(line)["sum"]] = when.isoformat(timespec="seconds")
                commit = ""
            elif not commit:
                commit = line.split()[0]
            elif line.startswith("committer-time "):
                at = int(line.split()[1])
    return times


def parse_asked(words: Sequence[str]) -> list[tuple[str, float]]:
    """Parse ID=PROBABILITY, once or more."""
    asked = []
    for word in words:
        name, sign, p = word.partition("=")
        try:
            asked.append((name, float(p)))
        except ValueError as error:
            raise ValueError(
                f"a lock needs the probability that the claim will hold, as in {name}=0.7; got "
                f"{word!r}"
            ) from (error if sign else None)
    return asked
