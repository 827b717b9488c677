"""What the last replay of the book's records said: kept, so that an idle build needs no torch."""

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from labkit.book import asked
from labkit.book.chapters import Chapter
from labkit.files import code_hash, write_whole
from labkit.processor import processor


def digest(root: Path, chosen: Sequence[Chapter], size: str, every: bool = False) -> str:
    """Hash everything that a replay depends on: code, records, what is asked for, the machine."""
    runs = sorted({key for c in chosen for key in asked.keys(root, size, c.name)})
    here = [
        code_hash(),
        processor(),
        version("torch"),
        platform.python_version(),
        size,
        every,
        runs,
    ]
    files = sorted((root / "data" / "records").glob("*.gz"))
    files += [path for key in runs if (path := root / ".labkit" / "runs" / f"{key}.json").is_file()]
    whole = hashlib.sha256(json.dumps(here).encode())
    for path in files:
        whole.update(path.read_bytes())
    return whole.hexdigest()


def known(
    root: Path, chosen: Sequence[Chapter], size: str, every: bool = False
) -> dict[str, Any] | None:
    """Read the verdict of the last replay, where nothing has changed since."""
    path = _path(root, size)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["digest"] == digest(root, chosen, size, every):
            return kept["verdict"]
    except (OSError, ValueError, KeyError):
        pass
    return None


def keep(root: Path, size: str, of: str, verdict: dict[str, Any]) -> None:
    """Keep the verdict of a replay under the digest of what it depended on."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    kept = {"digest": of, "at": now, "verdict": verdict}
    write_whole(_path(root, size), json.dumps(kept, indent=1))


def stale(root: Path, size: str) -> dict[str, str]:
    """Read which runs the last replay refuted, and why."""
    try:
        return json.loads(_path(root, size).read_text(encoding="utf-8"))["verdict"]["stale"]
    except (OSError, ValueError, KeyError):
        return {}


def when(root: Path, size: str) -> str:
    """Read when (UTC) the last replay ended; nothing where none did."""
    try:
        return json.loads(_path(root, size).read_text(encoding="utf-8"))["at"]
    except (OSError, ValueError, KeyError):
        return ""


def words(verdict: dict[str, Any], by_chapter: Iterable[tuple[str, int]]) -> str:
    """Say in one or two lines what the replays found."""
    text = (
        f"replays: {verdict['openings']} configurations begin as recorded, {verdict['wholes']} "
        f"runs trained in full agree; {verdict['seconds']:.0f} s"
    )
    stale = verdict["stale"]
    if not stale:
        return f"{text}; 0 stale"
    where = ", ".join(f"{name} ({count})" for name, count in by_chapter if count)
    first = next(iter(stale.values()))
    return (
        f"replays: RED: {len(stale)} recorded runs are stale, this code computes something else: "
        f"chapters {where}; the first: {first}\n    if that is meant, train them again: make runs "
        f"(about {verdict['cost']:.0f} s)"
    )


def _path(root: Path, size: str) -> Path:
    return root / ".labkit" / f"replays-{size}.json"
