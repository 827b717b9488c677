"""What the last replays of the book's records said: kept, so that an idle build needs no torch.

Where all records were replayed with this very code, data/records/replayed.json says so, and a build
replays some of them, as the commit draws.

verdicts    by the chapters that were replayed together: {"digest": …, "verdict": {…}}
stale       by the key of a run that its last replay refuted: {"why": …, "at": …}
"""

import hashlib
import json
import platform
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labkit.files import code_hash, hold_lock, write_whole
from labkit.processor import name_processor
from press.book import asked
from press.book.chapters import Chapter
from press.book.files import Red, read_json

LADDER = "ladder"
KNOWN = Path("data") / "records" / "replayed.json"


def compute_digest(root: Path, chosen: Sequence[Chapter], size: str, every: bool) -> str:
    """Hash everything that a replay depends on: code, records, what is asked for, the machine."""
    runs = sorted({key for c in chosen for key in asked.read_run_keys(root, size, c.name)})
    machine = [name_processor(), version("torch"), platform.python_version()]
    here = [code_hash(), *machine, size, every, runs]
    files = sorted((root / "data" / "records").glob("*.gz"))
    files += [path for key in runs if (path := root / ".labkit" / "runs" / f"{key}.json").is_file()]
    whole = hashlib.sha256(json.dumps(here).encode())
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


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
    files = sorted((root / "data" / "records").glob("*.gz"))
    whole = hashlib.sha256()
    for path in files:
        whole.update(path.name.encode() + path.read_bytes())
    return {"labkit": code_hash(), "records": whole.hexdigest()[:16]}


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
) -> None:
    """Keep the verdict of a replay under the digest of what it depended on.

    What is known of runs that were not replayed stays as it is.
    """
    with hold_lock(root / ".labkit" / "replays.lock"):
        kept, at = _read_verdicts(root, size), datetime.now(UTC).isoformat(timespec="seconds")
        kept["verdicts"][_join_names(chosen)] = {"digest": of, "verdict": verdict}
        others = {key: one for key, one in kept["stale"].items() if key not in replayed}
        new = {key: {"why": why, "at": at} for key, why in verdict["stale"].items()}
        kept["stale"] = others | new
        write_whole(_path_of(root, size), json.dumps(kept, indent=1))


def read_stale(root: Path, size: str) -> dict[str, dict[str, str]]:
    """Read which runs their last replay refuted, why, and when (UTC) that was."""
    return _read_verdicts(root, size)["stale"]


def count_stale(
    root: Path, chosen: Sequence[Chapter], size: str, verdict: dict[str, Any]
) -> list[tuple[str, int]]:
    """Count the stale runs that each chapter asks for."""
    stale = verdict["stale"]
    return [
        (c.name[:2], sum(key in stale for key in asked.read_run_keys(root, size, c.name)))
        for c in chosen
    ]


def describe_verdict(verdict: dict[str, Any], by_chapter: Iterable[tuple[str, int]]) -> str:
    """Describe in one or two lines what the replays found."""
    text = (
        f"replays: {verdict['openings']} of {verdict['configurations']} configurations begin as "
        f"recorded, {verdict['wholes']} runs trained in full agree; {verdict['seconds']:.0f} s"
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
        return {"verdicts": kept["verdicts"], "stale": kept["stale"]}
    except (OSError, ValueError, KeyError):
        return {"verdicts": {}, "stale": {}}
