"""Read JSON or say what is wrong with it; hash a file."""

import hashlib
import json
from pathlib import Path
from typing import Any


class Red(Exception):
    """Something that a person must look at; its text says the rule, what came, and the way out."""


def read_json(path: Path, way_out: str) -> Any:
    """Read a JSON file, or say which file is damaged and what helps."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise Red(f"{path} must be JSON, but it is damaged ({error}); {way_out}") from error


def sha256_of(path: Path) -> str | None:
    """Hash a file's bytes; None when there is no such file."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
