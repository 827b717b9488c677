"""Which walls this machine has: the modes that work here, and what the others lack."""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

from press.homework.sandbox import calls
from press.homework.sandbox.inside import kernel

MODES = ("full", "restricted", "plain")

_SETGID, _SETUID, _ADMIN = 6, 7, 21  # capabilities
# Tried in a process of its own, because namespaces cannot be left again.
_TRY = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x6C020000):
    sys.exit("new namespaces are refused")
if libc.mount(b"none", b"/", None, ctypes.c_ulong(1 << 14 | 1 << 18), None):
    sys.exit("mounts cannot be made private")
if libc.mount(b"none", b"/tmp", b"tmpfs", ctypes.c_ulong(6), b"size=1m"):
    sys.exit("a tmpfs cannot be mounted")
"""


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
    if mode == "full":
        return lacking + _full()
    if not kernel.landlock_version():
        lacking.append("the kernel has no Landlock (Linux 5.13 or later, enabled at boot)")
    if mode == "restricted":
        lacking += _root() + _readable()
    return lacking


@cache
def _filter() -> str:
    try:
        calls.compiled()
    except ImportError:
        return "pyseccomp is missing: `pip install 'norm-lab-book[course]'`"
    except (RuntimeError, OSError) as error:
        return f"libseccomp cannot be used ({error}): install libseccomp2"
    return ""


def _full() -> list[str]:
    lacking = _root()
    if not lacking and not _capable(_ADMIN):
        lacking.append("CAP_SYS_ADMIN is missing, as in an ordinary container")
    if not kernel.can_pivot():
        lacking.append(f"{platform.machine()} is not x86_64 or aarch64")
    return lacking or [each for each in [_namespaces()] if each]


@cache
def _namespaces() -> str:
    tried = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _TRY], capture_output=True, text=True, timeout=120
    )
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else ""


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
