"""Bubblewrap, the walls of a process: a root that holds the paths named, and nothing else.

The grader's sandbox and the servers of a class both stand behind it. What a process sees is the
list of arguments, in order: what lies in a folder comes after the folder.
"""

import shutil
import subprocess
from collections.abc import Iterable

PROGRAM = "bwrap"


def find_problem(*arguments: str) -> str:
    """Return why no process can be started behind such walls here; empty where one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is missing: install it (Debian's package is called bubblewrap)"
    command = [PROGRAM, *arguments, "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if not tried.returncode:
        return ""
    lines = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    return f"bubblewrap is refused here ({lines[-1].removeprefix(f'{PROGRAM}: ')})"


def show(paths: Iterable[str], *, writable: bool = False) -> list[str]:
    """List the arguments that show paths of the machine at their own places, read-only."""
    flag = "--bind" if writable else "--ro-bind"
    return [word for path in paths for word in (flag, path, path)]
