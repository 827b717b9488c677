"""What the last replays of the book's records said: kept, so that an idle build needs no torch.

Where all records were replayed with this very code, data/records/replayed.json says so, and a build
replays some of them, as the commit draws.

verdicts    by the chapters that were replayed together: {"digest": …, "verdict": {…}}
stale       by the key of a run that its last replay refuted: {"why": …, "at": …}
agreed      by kind and key: of a replay that agreed, the hash of all that it depended on
cleared     by trait: the code and machine with which a run that has it agreed to its end
"""

import hashlib
import json
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labkit.probes import PROBES, name_module
from labkit.system.files import hold_lock, write_whole
from labkit.system.processor import name_processor
from press.book import asked
from press.book.chapters import Chapter
from press.book.closure import hash_closure, hash_text
from press.book.files import Red, read_json

LADDER = "ladder"
KNOWN = Path("data") / "records" / "replayed.json"
TRAINS = "labkit.experiments.replay"  # what it imports decides what a run computes


def compute_digest(root: Path, chosen: Sequence[Chapter], size: str, every: bool) -> str:
    """Hash everything that a replay depends on: code, records, what is asked for, the machine."""
    runs = sorted({key for c in chosen for key in asked.read_run_keys(root, size, c.name)})
    here = [*_describe_here(), size, every, runs]
    files = sorted((root / "data" / "records").glob("*.jsonl"))
    files += [path for key in runs if (path := root / ".labkit" / "runs" / f"{key}.json").is_file()]
    whole = hashlib.sha256(json.dumps(here).encode())
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def hash_replay(kind: str, row: dict[str, Any]) -> str:
    """Hash all that a replay depends on: the record, the code, the machine.

    The first steps measure nothing; a run that is trained in full meets its own probes.
    """
    probes = row["run"]["probes"] if kind == "whole" else ()
    return hash_text(json.dumps([row, *_describe_here(probes)], sort_keys=True))


def hash_here() -> str:
    """Hash the code that trains, and the machine."""
    return hash_text(json.dumps(_describe_here()))


def _describe_here(probes: Iterable[str] = PROBES) -> list[str]:
    return [_hash_code(probes), name_processor(), version("torch"), platform.python_version()]


def _hash_code(probes: Iterable[str] = PROBES) -> str:
    """Hash the code that trains, and that of these probes, which is imported by name only."""
    modules = [TRAINS, *sorted({name_module(name) for name in probes})]
    return hash_text(json.dumps([hash_closure(module) for module in modules]))


def is_known(root: Path) -> bool:
    """Return whether all records were replayed with today's code: `keep_known` wrote so."""
    path = root / KNOWN
    if not path.is_file():
        return False
    try:
        return read_json(path, "") == _describe_records(root)
    except Red:
        return False


def keep_known(root: Path) -> None:
    """Write beside the records that all of them agree with today's code."""
    write_whole(root / KNOWN, json.dumps(_describe_records(root), indent=1) + "\n")


def _describe_records(root: Path) -> dict[str, str]:
    files = sorted((root / "data" / "records").glob("*.jsonl"))
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.name.encode() + path.read_bytes())
    return {"code": _hash_code(), "records": whole.hexdigest()[:16]}


def read_verdict(root: Path, chosen: Sequence[Chapter], size: str) -> dict[str, Any] | None:
    """Read the verdict of the last replay of these chapters, where nothing has changed since."""
    kept = _read_verdicts(root, size)["verdicts"].get(_join_names(chosen))
    if kept is not None and kept["digest"] == compute_digest(root, chosen, size, False):
        return kept["verdict"]
    return None


def keep_verdict(
    root: Path,
    chosen: Sequence[Chapter],
    size: str,
    of: str,
    verdict: dict[str, Any],
    replayed: Collection[str],
    agreed: Mapping[str, str],
    cleared: Iterable[str],
) -> None:
    """Keep the verdict of a replay under the digest of what it depended on, and what agreed.

    What is known of runs that were not replayed stays as it is.
    """
    with hold_lock(root / ".labkit" / "replays.lock"):
        kept, at = _read_verdicts(root, size), datetime.now(UTC).isoformat(timespec="seconds")
        kept["verdicts"][_join_names(chosen)] = {"digest": of, "verdict": verdict}
        others = {key: one for key, one in kept["stale"].items() if key not in replayed}
        new = {key: {"why": why, "at": at} for key, why in verdict["stale"].items()}
        kept["stale"] = others | new
        kept["agreed"] |= agreed
        kept["cleared"] |= dict.fromkeys(cleared, hash_here())
        write_whole(_path_of(root, size), json.dumps(kept, indent=1))


def read_stale(root: Path, size: str) -> dict[str, dict[str, str]]:
    """Read which runs their last replay refuted, why, and when (UTC) that was."""
    return _read_verdicts(root, size)["stale"]


def read_agreed(root: Path, size: str) -> dict[str, str]:
    """Read which replays agreed, by kind and key, and with what."""
    return _read_verdicts(root, size)["agreed"]


def read_cleared(root: Path, size: str) -> set[str]:
    """Read which traits runs had that agreed to their end with this code."""
    here = hash_here()
    return {trait for trait, of in _read_verdicts(root, size)["cleared"].items() if of == here}


def count_stale(
    root: Path, chosen: Sequence[Chapter], size: str, verdict: dict[str, Any]
) -> list[tuple[str, int]]:
    """Count the stale runs that each chapter asks for."""
    stale = verdict["stale"]
    return [
        (c.number, sum(key in stale for key in asked.read_run_keys(root, size, c.name)))
        for c in chosen
    ]


def describe_verdict(
    verdict: dict[str, Any], by_chapter: Iterable[tuple[str, int]], *, kept: bool = False
) -> str:
    """Describe in one or two lines what the replays found; `kept`: an earlier build did."""
    text = (
        f"replays: {verdict['openings']} of {verdict['configurations']} configurations begin as "
        f"recorded, {verdict['wholes']} runs trained in full agree; "
        + ("nothing has changed since" if kept else f"{verdict['seconds']:.0f} s")
    )
    stale = verdict["stale"]
    if not stale:
        return f"{text}; 0 stale"
    counts = [*by_chapter, (LADDER, verdict["ladder"])]
    where = ", ".join(f"{name} ({count})" for name, count in counts if count)
    first = next(iter(stale.values()))
    return (
        f"replays: RED: {len(stale)} recorded runs are stale, this code computes something else: "
        f"{where}; the first: {first}\n    if that is meant, train them again: make runs "
        f"(about {verdict['cost']:.0f} s)"
    )


def _path_of(root: Path, size: str) -> Path:
    return root / ".labkit" / f"replays-{size}.json"


def _join_names(chosen: Sequence[Chapter]) -> str:
    return " ".join(chapter.name for chapter in chosen)


def _read_verdicts(root: Path, size: str) -> dict[str, Any]:
    try:
        kept = json.loads(_path_of(root, size).read_text(encoding="utf-8"))
        return {name: kept[name] for name in ("verdicts", "stale", "agreed", "cleared")}
    except (OSError, ValueError, KeyError):
        return {"verdicts": {}, "stale": {}, "agreed": {}, "cleared": {}}
