"""Which walls this machine has: the modes that work here, and what the others lack."""

import os
import sys
from functools import cache
from pathlib import Path

from press import bubblewrap
from press.homework.sandbox import seccomp
from press.homework.sandbox.inside import system_calls

MODES = ("full", "restricted", "plain")

_SETGID, _SETUID = 6, 7  # capabilities


class Unavailable(ValueError):
    """The mode asked for cannot be kept here; nothing weaker is taken in its place."""


def list_modes() -> dict[str, str]:
    """Return for each mode "" where it works here, else what it lacks."""
    return {mode: "; ".join(_list_lacking(mode)) for mode in MODES}


def require_mode(mode: str) -> None:
    """Raise Unavailable unless `mode` works here; the error names the modes that do."""
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; choose one of {', '.join(MODES)}")
    if lacking := _list_lacking(mode):
        works = [other for other in MODES if other != mode and not _list_lacking(other)]
        instead = f"works here: {', '.join(works)}" if works else "no other mode works here"
        raise Unavailable(f"mode {mode} is not available: {'; '.join(lacking)}; {instead}")


def _list_lacking(mode: str) -> list[str]:
    if sys.platform != "linux":
        return ["submissions run on Linux only (on Windows, in WSL)"]
    lacking = [_check_filter()] if _check_filter() else []
    if not system_calls.read_landlock_version():
        lacking.append("the kernel has no Landlock (Linux 5.13 or later, enabled at boot)")
    if mode == "full" and _check_walls():
        lacking.append(_check_walls())
    if mode == "restricted":
        lacking += _check_root() + _check_readable()
    return lacking


@cache
def _check_filter() -> str:
    try:
        seccomp.compile_filter()
    except ImportError:
        return "pyseccomp is missing: `pip install 'norm-lab-book[course]'`"
    except (RuntimeError, OSError) as error:
        return f"libseccomp cannot be used ({error}): install libseccomp2"
    return ""


@cache
def _check_walls() -> str:
    return bubblewrap.find_problem("--unshare-all")


def _check_root() -> list[str]:
    if os.geteuid():
        return ["it needs root, to give each worker a user of its own"]
    if not _has_capability(_SETUID) or not _has_capability(_SETGID):
        return ["CAP_SETUID or CAP_SETGID is missing"]
    return []


def _has_capability(number: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def _check_readable() -> list[str]:
    """Another user must be able to reach Python: each folder on the way is open to all."""
    import torch  # its folder is that of the packages

    for place in (os.path.realpath(os.__file__), os.path.realpath(torch.__file__ or "")):
        for folder in Path(place).parents:
            if not folder.stat().st_mode & 0o001:
                return [
                    f"a worker's own user cannot read Python or its packages: {folder} is closed "
                    "to others (`chmod o+x` it, or install Python elsewhere)"
                ]
    return []
