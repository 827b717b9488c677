"""Which walls this machine has: the modes that work here, and what the others lack."""

import os
import sys
from functools import cache
from pathlib import Path

from press import bubblewrap
from press.homework.sandbox import seccomp
from press.homework.sandbox.inside import kernel

MODES = ("full", "restricted", "plain")

_SETGID, _SETUID = 6, 7  # capabilities


class Unavailable(ValueError):
    """The mode asked for cannot be kept here; nothing weaker is taken in its place."""


def available() -> dict[str, str]:
    """Return for each mode "" where it works here, else what it lacks."""
    return {mode: "; ".join(_lacking(mode)) for mode in MODES}


def require(mode: str) -> None:
    """Raise Unavailable unless `mode` works here; the error names the modes that do."""
    if mode not in MODES:
        raise ValueError(f"unknown mode {mode!r}; choose one of {', '.join(MODES)}")
    if lacking := _lacking(mode):
        works = [other for other in MODES if other != mode and not _lacking(other)]
        instead = f"works here: {', '.join(works)}" if works else "no other mode works here"
        raise Unavailable(f"mode {mode} is not available: {'; '.join(lacking)}; {instead}")


def _lacking(mode: str) -> list[str]:
    if sys.platform != "linux":
        return ["submissions run on Linux only (on Windows, in WSL)"]
    lacking = [_filter()] if _filter() else []
    if not kernel.landlock_version():
        lacking.append("the kernel has no Landlock (Linux 5.13 or later, enabled at boot)")
    if mode == "full" and _walls():
        lacking.append(_walls())
    if mode == "restricted":
        lacking += _root() + _readable()
    return lacking


@cache
def _filter() -> str:
    try:
        seccomp.compiled()
    except ImportError:
        return "pyseccomp is missing: `pip install 'norm-lab-book[course]'`"
    except (RuntimeError, OSError) as error:
        return f"libseccomp cannot be used ({error}): install libseccomp2"
    return ""


@cache
def _walls() -> str:
    return bubblewrap.find_problem("--unshare-all")


def _root() -> list[str]:
    if os.geteuid():
        return ["it needs root, to give each worker a user of its own"]
    if not _capable(_SETUID) or not _capable(_SETGID):
        return ["CAP_SETUID or CAP_SETGID is missing"]
    return []


def _capable(number: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def _readable() -> list[str]:
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
