"""Find the runs that the chapters request, by executing them in order without a kernel.

    .labkit/asked/<size>-<name>.jsonl      one run a line, or that it climbs the ladder
    .labkit/asked/<size>-<name>.used.json  the modules and files that a build's kernel used

Nothing is trained: a cell whose runs have no records yet is skipped, and with it what then lacks a
name (press.book.cells). So a grid that depends on the results of another (the best rate of a
first one, say) is found once those are there.
"""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from press.book.chapters import Chapter
from press.book.files import Red, read_json

if TYPE_CHECKING:
    from labkit.experiments import Run

LADDER = "ladder"  # the file of its records, and the word for it in ONLY
CLIMBS = "climbs"  # in a line that is no run: see Lab.ladder


def path_of(root: Path, size: str, name: str) -> Path:
    """Return the path of the list of a chapter's runs."""
    return root / ".labkit" / "asked" / f"{size}-{name}.jsonl"


def read_runs(root: Path, size: str, name: str) -> list["Run"]:
    """Read which runs a chapter requested when it was last executed."""
    from labkit.experiments import Run
    from labkit.experiments.own import register_sources

    rows = read_rows(root, size, name)
    for row in rows:
        # Norms that a chapter defines: its own code, executed just now.
        register_sources(row["own"])
    try:
        return [Run.from_dict(run) for run in {row["key"]: row["run"] for row in rows}.values()]
    except (KeyError, TypeError) as error:
        raise Red(
            f"{path_of(root, size, name)} must list runs in this version's form, but another "
            f"version of labkit wrote it ({error}); write it again with `labkit book runs --list`"
        ) from error


def read_run_keys(root: Path, size: str, name: str) -> list[str]:
    """Read the keys of those runs, without torch."""
    return sorted({row["key"] for row in read_rows(root, size, name)})


def is_climber(root: Path, size: str, name: str) -> bool:
    """Return whether a chapter read the ladder when it was last executed."""
    return any(CLIMBS in row for row in _read_lines(root, size, name))


def read_rows(root: Path, size: str, name: str) -> list[dict[str, Any]]:
    """Read those runs as the chapter wrote them, without torch: {"key", "run", "own"}."""
    return [row for row in _read_lines(root, size, name) if CLIMBS not in row]


def _read_lines(root: Path, size: str, name: str) -> list[dict[str, Any]]:
    path = path_of(root, size, name)
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in dict.fromkeys(lines)]


def path_of_use(root: Path, size: str, name: str) -> Path:
    """Return the path to which a kernel writes what its chapter used."""
    return path_of(root, size, name).with_suffix(".used.json")


def read_use(root: Path, size: str, name: str) -> dict[str, list[str]] | None:
    """Read what a chapter used: modules, modules whose source it shows, files; None if unknown.

    Files are named from `root` on, where they lie in it.
    """
    path = path_of_use(root, size, name)
    if not path.is_file():
        return None
    try:
        used = read_json(path, "")
        files = [Path(file) for file in used["files"]]
        inside = [f.relative_to(root) if f.is_relative_to(root) else f for f in files]
        return {
            "modules": used["modules"],
            "shown": used["shown"],
            "files": [file.as_posix() for file in inside],
        }
    except (Red, KeyError, TypeError):
        return None


def prepare_environment(root: Path, size: str, name: str) -> dict[str, str]:
    """Set the environment of a chapter that must train nothing and record its requests."""
    path = path_of(root, size, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.with_suffix(".whole").unlink(missing_ok=True)
    return {
        "LABKIT_DECLARED": str(path),
        "LABKIT_USED": str(path_of_use(root, size, name)),
        "LABKIT_TRAIN": "never",
        "LABKIT_ROOT": str(root),
    }


def mark_whole(root: Path, size: str, name: str) -> None:
    """Record that the current version of a chapter ran to its end, so its list is complete."""
    path = path_of(root, size, name).with_suffix(".whole")
    path.write_text(_hash_source(root, name), encoding="utf-8")


def is_whole(root: Path, size: str, name: str) -> bool:
    """Return whether a chapter's list was written by a run of all its current cells."""
    path = path_of(root, size, name).with_suffix(".whole")
    return path.is_file() and path.read_text(encoding="utf-8") == _hash_source(root, name)


def _hash_source(root: Path, name: str) -> str:
    source = (root / "chapters" / f"{name}.py").read_bytes()
    return hashlib.sha256(source).hexdigest()[:16]


def find_asked_runs(root: Path, chapter: Chapter, size: str) -> tuple[list["Run"], list[str]]:
    """Execute a chapter's cells; list the runs that they requested, and the cells that failed."""
    from press.book.cells import run_chapter

    around = prepare_environment(root, size, chapter.name)
    try:
        outcome = run_chapter(chapter, around, size=size)
    except RuntimeError as error:
        return [], [str(error).splitlines()[-1]]
    if not outcome.errors and not outcome.skipped:
        mark_whole(root, size, chapter.name)
    faults = [f"cell {i}: {said.splitlines()[0]}" for i, said in outcome.errors.items()]
    return read_runs(root, size, chapter.name), faults
