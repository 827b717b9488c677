"""What the grader holds of a worker's process: how to end it, and what to remove then."""

import contextlib
import os
import select
import signal
from typing import TYPE_CHECKING

from press.homework.sandbox import folder
from press.homework.sandbox.groups import Group

if TYPE_CHECKING:
    from press.homework.sandbox.box import Sandbox

_LEAVE_SECONDS = 20.0  # for a killed process to be gone


class Body:
    """What the grader must end and remove: a process, its groups, its folder."""

    def __init__(self, sandbox: "Sandbox", home: str, group: Group | None):
        self.sandbox, self.home, self.group = sandbox, home, group
        self.pid, self.pidfd = 0, -1
        self.peak = 0

    def end(self) -> tuple[int | None, bool]:
        """Kill the worker and all that it started; give its exit status, and was it memory."""
        if self.pidfd < 0:
            return None, False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        gone = select.select([self.pidfd], [], [], _LEAVE_SECONDS)[0]
        status = self.sandbox.reap(self.pid) if gone else None
        os.close(self.pidfd)
        self.pidfd = -1
        memory = self.group.out_of_memory() if self.group else False
        self.peak = self.group.peak() if self.group else 0
        return status, memory

    def remove(self) -> None:
        """Leave nothing behind."""
        self.end()
        if self.group:
            self.group.remove()
        if self.home:
            folder.remove(self.home)

    def wrote_too_much(self, cap: int) -> bool:
        """Whether the worker's folder is over its cap, where no mount keeps it."""
        return bool(self.home) and folder.too_large(self.home, cap)
