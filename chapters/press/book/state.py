"""Remember what the build finished: one small file next to each executed notebook."""

import json
from pathlib import Path
from typing import Any

from labkit.system.files import write_whole
from press.book import chapters
from press.book.files import Red, read_json
from press.book.keys import key_of, parts_of


def notebook_path(root: Path, size: str, name: str) -> Path:
    """Return the path of a chapter's executed notebook."""
    return root / "build" / "book" / size / f"{name}.ipynb"


def read_state(root: Path, size: str, name: str) -> dict[str, Any] | None:
    """Read the state of a chapter's last finished run; None if it must run again."""
    notebook = notebook_path(root, size, name)
    path = notebook.with_suffix(".json")
    if not (path.is_file() and notebook.is_file()):
        return None
    try:
        return read_json(path, "")
    except Red:
        return None


def write_state(root: Path, size: str, name: str, state: dict[str, Any]) -> None:
    """Record a finished run, once its notebook is written."""
    text = json.dumps(state, ensure_ascii=False, indent=1) + "\n"
    write_whole(notebook_path(root, size, name).with_suffix(".json"), text)


def forget_state(root: Path, size: str, name: str) -> None:
    """Delete the record before a chapter runs, so that a killed build cannot leave a wrong one."""
    notebook_path(root, size, name).with_suffix(".json").unlink(missing_ok=True)


def list_stale(root: Path, size: str) -> list[str]:
    """List the chapters whose results do not belong to today's source, code and data."""
    names = []
    for chapter in chapters.find_chapters(root):
        known = read_state(root, size, chapter.name)
        if known is None or known["key"] != key_of(parts_of(chapter, root, size)):
            names.append(chapter.name)
    return names
