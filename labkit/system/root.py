"""Find the project's folder."""

import os
from pathlib import Path


def project_root() -> Path:
    """Find the folder whose .labkit holds the store: LABKIT_ROOT, or the nearest with chapters/."""
    if named := os.environ.get("LABKIT_ROOT"):
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "chapters").is_dir() and (folder / "pyproject.toml").is_file():
            return folder
    return here
