"""Find the recorded runs to replay: those whose code or record changed since the last replay.

data/records/replayed.json     the code and the records with which the whole book agreed
.labkit/replays-<size>.json    by the key of a run that was replayed here: {"of": a hash of what it
                               depended on, "why": how it differs, or nothing, "at": when (UTC)}

An idle build reads these two and needs no torch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path

from labkit.probes import PROBES, name_module
from labkit.system.files import hold_lock, write_whole
from press.book import asked
from press.book.chapters import Chapter, find_chapters
from press.book.closure import hash_closure, hash_text
from press.book.files import Red, read_json
from press.book.keys import hash_records, list_own_keys

Notes = dict[str, dict[str, str]]
KNOWN = Path("data") / "records" / "replayed.json"
TRAINS = "labkit.experiments.replay"  # what it imports decides what a run computes


def check_replays(
    root: Path, size: str, chosen: Sequence[Chapter], *, every: bool = False
) -> Notes:
    """Replay the changed runs that these chapters request; return those that differ.

    With `every` all count as changed.
    """
    today = hash_runs(root, size, chosen)
    changed = drop_outdated(root, size, today, every)
    if changed:
        from press.book.replaying import replay_runs  # needs torch, which an idle build does not

        whys = replay_runs(root, size, chosen, changed)
        keep_notes(root, size, {key: (today[key], why) for key, why in whys.items()})
    stale = {key: note for key, note in read_stale(root, size).items() if key in today}
    if today and not changed:
        print("replays: neither code nor records changed since the last one", flush=True)
        for why in dict.fromkeys(note["why"] for note in stale.values()):
            print(f"    {why}")
    whole_book = size == "book" and list(chosen) == find_chapters(root)
    unrecorded = today.keys() & list_own_keys(root)
    if stale:
        print(describe_stale(root, size, chosen, stale))
    elif today and whole_book and not unrecorded:
        keep_known(root)
    return stale


def hash_runs(root: Path, size: str, chosen: Sequence[Chapter]) -> dict[str, str]:
    """Hash, by key, what the recorded runs of these chapters depend on: record, code and torch."""
    records = hash_records(root)
    return {
        row["key"]: hash_text(f"{records[row['key']]} {hash_code(tuple(row['run']['probes']))}")
        for chapter in chosen
        for row in asked.read_rows(root, size, chapter.name)
        if row["key"] in records
    }


@cache
def hash_code(probes: tuple[str, ...] = tuple(PROBES)) -> str:
    """Hash the training code, torch's version, and these probes, which are imported by name."""
    modules = [TRAINS, *sorted({name_module(name) for name in probes})]
    torch = version("torch").partition("+")[0]  # built for CUDA or not
    return hash_text(json.dumps([torch, *map(hash_closure, modules)]))


def drop_outdated(root: Path, size: str, today: Mapping[str, str], every: bool) -> list[str]:
    """Drop the outdated notes; list today's runs about which nothing is known."""
    known = not every and is_known(root)
    own = list_own_keys(root)
    with hold_lock(root / ".labkit" / "replays.lock"):
        notes = {
            key: note
            for key, note in _read_notes(root, size).items()
            if today.get(key, note["of"]) == note["of"] and not (every and key in today)
        }
        _write_notes(root, size, notes)
    return [key for key in today if key not in notes and (key in own or not known)]


def keep_notes(root: Path, size: str, found: Mapping[str, tuple[str, str]]) -> None:
    """Record for replayed runs what they depended on, and how they differ."""
    at = datetime.now(UTC).isoformat(timespec="seconds")
    new = {key: {"of": of, "why": why, "at": at} for key, (of, why) in found.items()}
    with hold_lock(root / ".labkit" / "replays.lock"):
        _write_notes(root, size, _read_notes(root, size) | new)


def read_stale(root: Path, size: str) -> Notes:
    """Read which runs their last replay refuted, why, and when (UTC)."""
    return {key: note for key, note in _read_notes(root, size).items() if note["why"]}


def is_known(root: Path) -> bool:
    """Return whether the whole book agreed with today's code, as `keep_known` recorded."""
    path = root / KNOWN
    if not path.is_file():
        return False
    try:
        return read_json(path, "") == _describe_records(root)
    except Red:
        return False


def keep_known(root: Path) -> None:
    """Record next to the records that all of them agree with today's code."""
    write_whole(root / KNOWN, json.dumps(_describe_records(root), indent=1) + "\n")


def describe_stale(root: Path, size: str, chosen: Sequence[Chapter], stale: Notes) -> str:
    """Count the stale runs that each chapter requests, and state the remedy."""
    keys = {c.number: set(asked.read_run_keys(root, size, c.name)) for c in chosen}
    where = ", ".join(
        f"{number} ({len(own & stale.keys())})"
        for number, own in keys.items()
        if own & stale.keys()
    )
    return (
        f"replays: RED: {len(stale)} recorded runs are stale, this code computes something else: "
        f"{where}\n    if that is meant, train them again: make runs"
    )


def _describe_records(root: Path) -> dict[str, str]:
    whole = hashlib.sha256()
    for path in sorted((root / "data" / "records").glob("*.jsonl")):
        whole.update(path.name.encode() + path.read_bytes())
    return {"code": hash_code(), "records": whole.hexdigest()[:16]}


def _path_of(root: Path, size: str) -> Path:
    return root / ".labkit" / f"replays-{size}.json"


def _read_notes(root: Path, size: str) -> Notes:
    try:
        notes = json.loads(_path_of(root, size).read_text(encoding="utf-8"))
        return {
            key: {name: note[name] for name in ("of", "why", "at")} for key, note in notes.items()
        }
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write_notes(root: Path, size: str, notes: Notes) -> None:
    write_whole(_path_of(root, size), json.dumps(notes, indent=1))
