"""Decide by content whether a chapter must run again: everything that its outputs depend on."""

import hashlib
import json
import platform
import re
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from labkit.files import code_hash
from press.book import asked
from press.book.chapters import Chapter
from press.book.files import sha256_of
from press.book.holm import find_survivors
from press.book.replays import LADDER


def parts_of(chapter: Chapter, root: Path, size: str, seed: int) -> dict[str, str]:
    """Hash, by kind, what a chapter's outputs depend on; the kinds say why it runs again."""
    text = chapter.source.read_text(encoding="utf-8")
    cells, prose = code_and_prose(text)
    parts = {
        "its code": _hash_text(cells),
        "its prose": _hash_text(prose),
        "labkit's code": code_hash(),
        "the code that builds": code_hash("press.book"),
        "data/papers": _hash_text(list_data_files(root)),
        "records": _hash_text(
            list_records(root, size, chapter.name, ladder="lab.ladder(" in cells)
        ),
        "installed versions": _hash_text(json.dumps(read_versions(root), sort_keys=True)),
        "size or seed": _hash_text(f"{size} {seed}"),
    }
    if "press.book.evidence" in cells:  # it shows what other chapters recorded
        parts["other chapters' verdicts"] = _hash_text(list_verdicts(root, but=chapter.name))
    return parts


def code_and_prose(text: str) -> tuple[str, str]:
    """Part a chapter's text into what a kernel runs and what only a reader reads."""
    cells = re.split(r"(?m)^(?=# %%)", text)
    prose = [cell for cell in cells if re.match(r"# %% \[(markdown|raw)\]", cell)]
    return "".join(cell for cell in cells if cell not in prose), "".join(prose)


def key_of(parts: dict[str, str]) -> str:
    """Join the parts into the one key under which a finished chapter is kept."""
    return _hash_text(json.dumps(parts, sort_keys=True))


def list_records(root: Path, size: str, name: str, ladder: bool) -> str:
    """List the book's records, and the runs that a chapter asked for and the store has itself.

    Chapters share runs, so each file counts for each; the ladder's for those that climb it.
    """
    files = sorted((root / "data" / "records").glob("*.jsonl.gz"))
    files = [path for path in files if ladder or not path.name.startswith(LADDER)]
    found = {path.name: sha256_of(path) for path in files}
    store = root / ".labkit" / "runs"
    own = [store / f"{key}.json" for key in asked.read_run_keys(root, size, name)]
    own = [path for path in own if path.is_file()]
    return json.dumps([found, [(path.name, path.stat().st_mtime_ns) for path in own]])


def list_data_files(root: Path) -> str:
    """List the data files that any chapter may read, each with the hash of its bytes."""
    data = root / "data"
    files = sorted(path for path in (data / "papers").rglob("*") if path.is_file())
    # The kernels' record names their source, so it stands for their text as well.
    files += [path for path in (data / "kernels.json", *sorted((data / "bench").glob("*.json")))
              if path.is_file()]  # fmt: skip
    return json.dumps({path.relative_to(root).as_posix(): sha256_of(path) for path in files})


def list_verdicts(root: Path, but: str) -> str:
    """List the recorded verdicts of all chapters but one, their rungs, and which survive Holm."""
    path = root / "data" / "ledger" / "book.json"
    claims = json.loads(path.read_text(encoding="utf-8"))["claims"] if path.is_file() else {}
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
    """Read which Python, and which version of everything that the book pins, is installed."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get(
        "project", {}
    )
    pins = project.get("optional-dependencies", {}).get("book", [])
    found = {"python": platform.python_version()}
    for pin in pins:
        name = re.split(r"[^\w.-]", pin, maxsplit=1)[0]
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
