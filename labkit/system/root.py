"""Find the project's folder."""

import os
from pathlib import Path


def project_root() -> Path:
    """Return the folder whose .labkit has the store: LABKIT_ROOT, or the nearest with chapters/."""
    if named := os.environ.get("LABKIT_ROOT"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "chapters").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    return here


def explain_no_records(root: Path) -> str:
    """Return a hint on how to get the book's records, or "" if the folder has them."""
    if (root / "data" / "records").is_dir():
        return ""
    return (
        f"no records of the book are in {root}: they come with its repository, not with the "
        "installed package; change into a clone of it, or set LABKIT_ROOT to the clone's path"
    )
