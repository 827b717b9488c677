"""Control groups, version 1: a cap on a worker's memory and threads together, swap off.

A group lies below the grader's own, so that a limit around the grader also holds for workers.
"""

import contextlib
import itertools
import os
import time
from pathlib import Path

MOUNT = Path("/sys/fs/cgroup")
_number = itertools.count()


def parent(controller: str) -> Path | None:
    """Find the folder in which this process may make groups of one controller, if any."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            # In a container the path may be that of the host, and the mount already its end.
            for folder in (MOUNT / controller / path.lstrip("/"), MOUNT / controller):
                if folder.is_dir() and os.access(folder, os.W_OK):
                    return folder
    return None


def sweep() -> None:
    """Remove the empty groups of graders that were killed."""
    for above in filter(None, map(parent, ("memory", "pids"))):
        for folder in above.glob("labkit-*-*"):
            if not Path("/proc", folder.name.split("-")[1]).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


class Group:
    """The groups of one worker; where a controller is not writable, there is none of it."""

    def __init__(self, memory: int, processes: int):
        name = f"labkit-{os.getpid()}-{next(_number)}"
        self.memory = self._make("memory", name)
        self.pids = self._make("pids", name)
        if self.memory:
            (self.memory / "memory.limit_in_bytes").write_text(str(memory))
            with contextlib.suppress(OSError):  # kernels without a count of swap
                (self.memory / "memory.memsw.limit_in_bytes").write_text(str(memory))
            (self.memory / "memory.swappiness").write_text("0")
        if self.pids:
            (self.pids / "pids.max").write_text(str(processes))

    @staticmethod
    def _make(controller: str, name: str) -> Path | None:
        above = parent(controller)
        if above is None:
            return None
        folder = above / name
        try:
            folder.mkdir()
        except OSError:
            return None
        return folder

    def add(self, pid: int) -> None:
        """Put a process under the caps."""
        for folder in filter(None, (self.memory, self.pids)):
            (folder / "cgroup.procs").write_text(str(pid))

    def out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the group for its memory."""
        if not self.memory:
            return False
        text = (self.memory / "memory.oom_control").read_text()
        return any(
            line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.split("\n")
        )

    def peak(self) -> int:
        """The most memory that the group had at once, in bytes; 0 where nobody counts."""
        if not self.memory:
            return 0
        return int((self.memory / "memory.max_usage_in_bytes").read_text())

    def remove(self) -> None:
        """Remove the groups once their processes are gone."""
        for folder in filter(None, (self.memory, self.pids)):
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # the last process is still leaving
                    time.sleep(0.01)
