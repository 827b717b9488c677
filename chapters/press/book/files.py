"""Read JSON or a table, or report what is wrong with it; hash a file."""

import csv
import hashlib
import json
from pathlib import Path
from typing import Any

Row = dict[str, str]
# The columns of data/*.csv. What they hold is said where they become pages: site/wordlists.py,
# site/links.py, site/coverage.py.
TABLES = {
    "glossary.csv": ("term", "said", "where", "meaning"),
    "notation.csv": ("group", "symbol", "meaning", "shape", "code", "where"),
    "coverage.csv": ("row", "source", "what", "state", "claims", "note"),
    "errata.csv": ("source", "at", "says", "right", "where", "words"),
    "crossrefs.csv": ("at", "to", "thread"),
}


class Red(Exception):
    """An error that a person must fix; the message states the rule, the value and the remedy."""


def read_json(path: Path, way_out: str) -> Any:
    """Read a JSON file, or report which file is damaged and how to repair it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Red(f"{path} must be JSON, but it is damaged ({error}); {way_out}") from error


def read_rows(root: Path, name: str) -> list[Row]:
    """Read a table of data/; return an empty list if the book does not have it."""
    path, header = root / "data" / name, TABLES[name]
    if not path.is_file():
        return []
    lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    if not lines or tuple(lines[0]) != header:
        raise Red(f"data/{name} must begin with {','.join(header)}, got {lines[:1]}")
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header):
            raise Red(
                f"data/{name}:{number} must have {len(header)} cells (quote one with commas), "
                f"got {len(cells)}"
            )
    return [dict(zip(header, map(str.strip, cells), strict=True)) for cells in lines[1:]]


def sha256_of(path: Path) -> str | None:
    """Hash a file's bytes; None if there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
