"""Decide by content whether a chapter must run again: everything that its outputs depend on.

What a chapter used it wrote down as it ended (press.book.kernel): modules, data files. Its runs
stand in the list of what it asked for. Before its first run all of them count.
"""

import hashlib
import json
import platform
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from labkit.statistics.recorded import find_survivors, read_claims
from press.book import asked
from press.book.chapters import Chapter
from press.book.closure import PACKAGES, hash_closure, hash_modules, hash_text, hash_texts
from press.book.files import sha256_of

LEDGER, RECORDS = "data/ledger/book.json", "data/records/"
BUILDER = "press.book.job"  # what it imports decides how a chapter is executed


def parts_of(chapter: Chapter, root: Path, size: str) -> dict[str, str]:
    """Hash, by kind, what a chapter's outputs depend on; the kinds say why it runs again."""
    text = chapter.source.read_text(encoding="utf-8")
    cells, prose = code_and_prose(text)
    used = asked.read_use(root, size, chapter.name)
    parts = {
        "its code": hash_text(cells),
        "its prose": hash_text(prose),
        **hash_code(used),
        "the code that builds": hash_closure(BUILDER),
        "data": hash_text(list_data_files(root, used)),
        "records": hash_text(list_records(root, size, chapter.name)),
        "installed versions": hash_text(json.dumps(read_versions(root), sort_keys=True)),
        "size": hash_text(size),
    }
    if used is not None and LEDGER in used["files"]:  # what other chapters recorded
        parts["other chapters' verdicts"] = hash_text(list_verdicts(root, but=chapter.name))
    return parts


def hash_code(used: Mapping[str, list[str]] | None) -> dict[str, str]:
    """Hash each module that a chapter loaded, and the text of each whose source it shows."""
    known = {name: of for package in PACKAGES for name, of in hash_modules(package).items()}
    if used is None:
        return {"labkit's code": hash_text(json.dumps(known))}
    texts = {name: of for package in PACKAGES for name, of in hash_texts(package).items()}
    return {name: known.get(name, "absent") for name in used["modules"]} | {
        f"the text of {name}": texts.get(name, "absent") for name in used["shown"]
    }


def code_and_prose(text: str) -> tuple[str, str]:
    """Split a chapter's source into the code that a kernel runs and the prose that readers see."""
    cells = re.split(r"(?m)^(?=# %%)", text)
    prose = [cell for cell in cells if re.match(r"# %% \[(markdown|raw)\]", cell)]
    return "".join(cell for cell in cells if cell not in prose), "".join(prose)


def key_of(parts: dict[str, str]) -> str:
    """Combine the parts into the key under which a finished chapter is stored."""
    return hash_text(json.dumps(parts, sort_keys=True))


def list_records(root: Path, size: str, name: str) -> str:
    """List the records of the runs that a chapter requested: the book's and those in the store.

    Whoever climbs the ladder asks for what its records say next, so for him all of it counts.
    """
    keys = set(asked.read_run_keys(root, size, name))
    climbs = asked.is_climber(root, size, name)
    found: dict[str, str | None] = {}
    for path in sorted((root / "data" / "records").glob("*.jsonl")):
        on_ladder = path.name.startswith(asked.LADDER)
        if on_ladder and climbs:
            found[path.name] = sha256_of(path)
        else:
            rows = _hash_rows(path, path.stat().st_mtime_ns)
            found |= {key: rows[key] for key in sorted(keys & rows.keys())}
    store = root / ".labkit" / "runs"
    own = [path for key in sorted(keys) if (path := store / f"{key}.json").is_file()]
    return json.dumps([found, [(path.name, path.stat().st_mtime_ns) for path in own]])


def list_run_keys(root: Path) -> list[str]:
    """List the keys of all runs, trained here or recorded, without torch."""
    recorded = [
        key
        for path in (root / "data" / "records").glob("*.jsonl")
        if path.name.count(".") == 1  # those of a GPU have its name, too
        for key in _hash_rows(path, path.stat().st_mtime_ns)
    ]
    return sorted({*recorded, *list_own_keys(root)})


def list_own_keys(root: Path) -> set[str]:
    """List the keys of the runs that were trained here."""
    return {path.stem for path in (root / ".labkit" / "runs").glob("[0-9a-f]*.json")}


def hash_records(root: Path) -> dict[str, str]:
    """Hash the data of each run, recorded or trained here, by the run's key."""
    found = {}
    for path in sorted((root / "data" / "records").glob("*.jsonl")):
        for key, of in _hash_rows(path, path.stat().st_mtime_ns).items():
            found[key] = found.get(key, "") + of
    for key in list_own_keys(root):
        of = sha256_of(root / ".labkit" / "runs" / f"{key}.json")
        found[key] = f"{found.get(key, '')}{of}"
    return found


@cache
def _hash_rows(path: Path, made: int) -> dict[str, str]:
    """Hash each row of a file of records, by the key of its run."""
    hashes = {}
    for line in path.read_bytes().splitlines():
        with suppress(ValueError, KeyError, TypeError):  # whoever reads it says what is wrong
            hashes[json.loads(line)["key"]] = hashlib.sha256(line).hexdigest()[:16]
    return hashes


def list_data_files(root: Path, used: Mapping[str, list[str]] | None) -> str:
    """List the data files that a chapter opened, each with the hash of its bytes.

    Records count by row and the ledger by verdict. Names of others tell of a file that is new.
    """
    data = root / "data"
    there = [
        path
        for of in ("papers", "bench", "locks")
        for path in sorted((data / of).rglob("*"))
        if path.is_file()
    ]
    there += [path for of in ("kernels.json", "decisions.csv") if (path := data / of).is_file()]
    names = {path.relative_to(root).as_posix(): path for path in there}
    files = (
        names
        if used is None
        else {
            name: root / name
            for name in used["files"]
            if name != LEDGER and not name.startswith(RECORDS)
        }
    )
    hashes = {name: sha256_of(path) if path.is_file() else "absent" for name, path in files.items()}
    return json.dumps([hashes, sorted(names)])


def list_verdicts(root: Path, but: str) -> str:
    """List the recorded verdicts of the other chapters, their rungs, and which survive Holm."""
    claims = read_claims(root)
    left = find_survivors(claims)
    found = {
        name: [
            *(claim[part] for part in ("verdict", "said", "chapter")),
            name in left,
            list(claim.get("rungs") or ()),
        ]
        for name, claim in claims.items()
        if claim["chapter"] != but
    }
    return json.dumps(found, sort_keys=True)


def read_versions(root: Path) -> dict[str, str]:
    """Read the installed versions of Python and of every package that the book pins."""
    return _read_versions((root / "pyproject.toml").read_text(encoding="utf-8"))


@cache  # a build asks once for each chapter
def _read_versions(pyproject: str) -> dict[str, str]:
    project = tomllib.loads(pyproject).get("project", {})
    pins = project.get("optional-dependencies", {}).get("book", [])
    found = {"python": platform.python_version()}
    for pin in pins:
        name = re.split(r"[^\w.-]", pin, maxsplit=1)[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
