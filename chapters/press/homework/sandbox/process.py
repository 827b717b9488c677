"""What the grader holds of a worker's process: how to end it, and what to remove then."""

import contextlib
import os
import re
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from press.control_groups import Group
from press.homework.sandbox import folder

if TYPE_CHECKING:
    from press.homework.sandbox.sandbox import Sandbox

_LEAVE_SECONDS = 20.0  # for a killed process to be gone


class Process:
    """What the grader must end and remove: a process, its group, its folder."""

    def __init__(self, sandbox: "Sandbox", home: str, group: Group | None):
        self.sandbox, self.home, self.group = sandbox, home, group
        self.pid, self.pidfd = 0, -1
        self._number = 0  # the zygote's for the process

    def take(self, number: int, pidfd: int) -> None:
        """Hold the process that the zygote forked, and put it under its group's limit."""
        self._number, self.pidfd = number, pidfd
        # Behind bubblewrap's walls processes have numbers of their own.
        known = re.search(r"^Pid:\s*(\d+)$", Path(f"/proc/self/fdinfo/{pidfd}").read_text(), re.M)
        self.pid = int(known[1]) if known else 0
        if self.group:
            self.group.add(self.pid)

    def end(self) -> tuple[int | None, bool]:
        """Kill the worker and all that it started; give its exit status, and was it memory."""
        if self.pidfd < 0:
            return None, False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        gone = select.select([self.pidfd], [], [], _LEAVE_SECONDS)[0]
        status = self.sandbox.reap(self._number) if gone else None
        os.close(self.pidfd)
        self.pidfd = -1
        memory = self.group.out_of_memory() if self.group else False
        return status, memory

    def remove(self) -> None:
        """Leave nothing behind."""
        self.end()
        if self.group:
            self.group.remove()
        folder.remove(self.home)
