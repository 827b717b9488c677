"""Control groups: limit the memory that processes may use together, including swap.

Version 1 keeps the limit in `memory/…/memory.limit_in_bytes`, version 2 in `…/memory.max`. Over the
limit the kernel ends the largest process: a notebook's kernel and not its server, the worker that
runs a submission and not the grader.
"""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BASE = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Group:
    """A control group with its limit; the files in its folder report on its processes."""

    folder: Path

    def add(self, pid: int) -> None:
        """Put a process, and all processes that it starts, under the limit."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Return whether the kernel killed a process of the group because of its memory."""
        files = [self.folder / name for name in ("memory.events", "memory.oom_control")]
        lines = [line for file in files if file.exists() for line in file.read_text().splitlines()]
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in lines)

    def remove(self) -> None:
        """Remove the group; its last process may take a moment to leave it."""
        for _ in range(50):
            with suppress(OSError):
                self.folder.rmdir()
            if not self.folder.exists():
                return
            time.sleep(0.02)


def find_problem(base: Path = BASE) -> str:
    """Return why memory cannot be limited here; "" if it can."""
    try:
        probe = make_group(f"probe-{os.getpid()}", "labkit-check", 2**30, base)
    except OSError as error:
        return f"no control group for memory can be made below {base}: {error}"
    probe.remove()
    with suppress(OSError):  # another check is at work in it
        probe.folder.parent.rmdir()
    return ""


def make_group(name: str, owner: str, limit: int, base: Path = BASE) -> Group:
    """Make the group `owner/name` with a limit in bytes. Raise OSError if that is impossible."""
    if (base / "memory" / "memory.limit_in_bytes").exists():
        return _make_version_1(base / "memory" / owner / name, limit)
    return _make_version_2(base, owner, name, limit)


def list_groups(owner: str, base: Path = BASE) -> list[Group]:
    """List all groups of one owner, of either version."""
    folders = [*(base / "memory" / owner).glob("*/"), *(base / owner).glob("*/")]
    return [Group(folder) for folder in folders]


def _make_version_1(folder: Path, limit: int) -> Group:
    folder.mkdir(parents=True, exist_ok=True)
    # What a crash left behind may carry a smaller limit on memory and swap, which goes first.
    with_swap = folder / "memory.memsw.limit_in_bytes"
    if with_swap.exists():
        with_swap.write_text("-1")
    (folder / "memory.limit_in_bytes").write_text(str(limit))
    if with_swap.exists():
        with_swap.write_text(str(limit))
    elif (folder / "memory.swappiness").exists():
        (folder / "memory.swappiness").write_text("0")
    return Group(folder)


def _make_version_2(base: Path, owner: str, name: str, limit: int) -> Group:
    if "memory" not in (base / "cgroup.controllers").read_text().split():
        raise OSError(
            "a memory limit needs the memory controller, which is not in "
            f"{base / 'cgroup.controllers'}"
        )
    (base / "cgroup.subtree_control").write_text("+memory")
    (base / owner).mkdir(exist_ok=True)
    (base / owner / "cgroup.subtree_control").write_text("+memory")
    folder = base / owner / name
    folder.mkdir(exist_ok=True)
    (folder / "memory.max").write_text(str(limit))
    swap = folder / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")
    return Group(folder)
