"""Control groups: the memory that all processes of one user may hold together.

Version 1 keeps the limit in `memory/…/memory.limit_in_bytes`, version 2 in `…/memory.max`. Over the
limit the kernel ends the largest process, which is the notebook's kernel and not its server.
"""

import os
from contextlib import suppress
from pathlib import Path

BASE = Path("/sys/fs/cgroup")


def find_problem(base: Path = BASE) -> str:
    """Return why memory cannot be limited here; empty where it can."""
    try:
        probe = make_group(f"probe-{os.getpid()}", "labkit-course-check", 2**30, base)
    except OSError as error:
        return f"no control group for memory can be made below {base}: {error}"
    for folder in (probe, probe.parent):
        with suppress(OSError):  # another check is at work in it
            folder.rmdir()
    return ""


def make_group(name: str, course: str, limit: int, base: Path = BASE) -> Path:
    """Make a user's group with its limit; return its folder. Raise OSError where none can be."""
    if (base / "memory" / "memory.limit_in_bytes").exists():
        return _version_1(base / "memory" / course / name, limit)
    return _version_2(base, course, name, limit)


def _version_1(group: Path, limit: int) -> Path:
    group.mkdir(parents=True, exist_ok=True)
    # What a crash left behind may carry a smaller limit on memory and swap, which goes first.
    with_swap = group / "memory.memsw.limit_in_bytes"
    if with_swap.exists():
        with_swap.write_text("-1")
    (group / "memory.limit_in_bytes").write_text(str(limit))
    if with_swap.exists():
        with_swap.write_text(str(limit))
    return group


def _version_2(base: Path, course: str, name: str, limit: int) -> Path:
    if "memory" not in (base / "cgroup.controllers").read_text().split():
        raise OSError(f"the memory controller is not in {base / 'cgroup.controllers'}")
    (base / "cgroup.subtree_control").write_text("+memory")
    folder = base / course
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.subtree_control").write_text("+memory")
    group = folder / name
    group.mkdir(exist_ok=True)
    (group / "memory.max").write_text(str(limit))
    swap = group / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")
    return group
