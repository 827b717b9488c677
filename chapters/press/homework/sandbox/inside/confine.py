"""The restrictions that a worker applies to itself before it reads anything.

`plan` is what the grader worked out before (press.homework.sandbox.mount_plan): the paths to read
and the compiled seccomp filter. All of this is behind bubblewrap's walls, which every worker of a
zygote shares; what stands here keeps one worker from the others. Capabilities and new privileges
are gone already: bubblewrap gives them to nobody inside.
"""

import contextlib
import os
import resource
import signal
from typing import Any

from . import system_calls

_DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def open_rules(plan: dict[str, Any]) -> list[tuple[int, int]]:
    """Open, once in the zygote, the paths that Landlock lets a worker read."""
    paths = [*plan["stdlib"], *plan["sites"], *plan["whole"], *plan["system"]]
    shown = [(path, system_calls.READ) for path in paths]
    shown += [(path, system_calls.READ_FILE | system_calls.WRITE_FILE) for path in _DEVICES]
    return [system_calls.open_rule(path, rights) for path, rights in shown if os.path.exists(path)]


def confine_worker(
    plan: dict[str, Any], order: dict[str, Any], rules: list, kept: dict[int, int], memory: int
) -> None:
    """Give up, in the worker, everything that a submission must not have.

    Of all open descriptors those in `kept` remain, {old: new}; `memory` is the address space that
    the worker starts with.
    """
    home, limits = order["tmp"], order["limits"]
    system_calls.die_with_parent(signal.SIGKILL)
    system_calls.hide_memory()
    os.chdir(home)
    os.umask(0o077)
    system_calls.restrict_files([*rules, system_calls.open_rule(home, system_calls.CHANGE)])
    _close_all_but(kept)
    _set_limits(limits, memory)
    os.environ.update(HOME=home, TMPDIR=home, TRITON_CACHE_DIR=f"{home}/triton")
    system_calls.install_filter(bytes.fromhex(plan["filter"]))


def _set_limits(most: dict[str, int], memory: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory + most["memory"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: most["file"],
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_NOFILE: 64,
        resource.RLIMIT_NPROC: most["processes"],
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _close_all_but(kept: dict[int, int]) -> None:
    """Renumber the descriptors {old: new}, with new below 10, and close the rest."""
    moved = {}
    for old in kept:
        moved[old] = old
        while moved[old] < 10:
            moved[old] = os.dup(moved[old])
    for old, new in kept.items():
        os.dup2(moved[old], new)
    os.closerange(max(kept.values()) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def measure_address_space(statm: int) -> int:
    """Return the address space of this process's parent in bytes, from its open statm."""
    with contextlib.suppress(OSError):
        return int(os.pread(statm, 100, 0).split()[0]) * _PAGE
    return 0
