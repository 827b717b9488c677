"""Requirements of this machine for running submissions; without them nothing is graded."""

import sys
from functools import cache

from press import bubblewrap
from press.homework.sandbox import seccomp
from press.homework.sandbox.inside import system_calls


class Unavailable(ValueError):
    """Submissions cannot be confined here, so none are run."""


def require_walls() -> None:
    """Raise Unavailable, with a remedy, unless submissions can be confined here."""
    if lacking := find_problem():
        raise Unavailable(f"submissions run only in the sandbox, which cannot start: {lacking}")


def find_problem() -> str:
    """Return what this machine lacks for confining a submission, and the remedy; "" if nothing."""
    if sys.platform != "linux":
        return "they run on Linux only (on Windows, in WSL)"
    if why := _check_filter():
        return why
    if not system_calls.read_landlock_version():
        return "the kernel has no Landlock: boot Linux 5.13 or later, with Landlock enabled"
    return _check_walls()


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
