"""One worker as seen by the grader: call it, wait for a limited time, trust nothing."""

import contextlib
import os
import re
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.system.units import in_words
from press.control_groups import Group
from press.homework.sandbox import folder
from press.homework.sandbox.answer import FAILURES, Answer, clean_text
from press.homework.sandbox.channel import Closed, Slow, exchange_messages, make_channel
from press.homework.sandbox.inside import wire
from press.homework.sandbox.limits import Limits

if TYPE_CHECKING:
    from press.homework.sandbox.sandbox import Sandbox

READY_SECONDS = 60.0  # confining a worker on a loaded machine
REQUEST = 256 << 20  # bytes of tensors that one call may send

_LEAVE_SECONDS = 20.0  # for a killed process to be gone


class Process:
    """What the grader must end and remove: a process, its group, its folder."""

    def __init__(self, sandbox: "Sandbox", home: str, group: Group | None):
        self.sandbox, self.home, self.group = sandbox, home, group
        self.pid, self.pidfd = 0, -1
        self._number = 0  # the zygote's for the process

    def take(self, number: int, pidfd: int) -> None:
        """Take over the process that the zygote forked, and put it under its group's limit."""
        self._number, self.pidfd = number, pidfd
        # Behind the walls processes have numbers of their own.
        known = re.search(r"^Pid:\s*(\d+)$", Path(f"/proc/self/fdinfo/{pidfd}").read_text(), re.M)
        self.pid = int(known[1]) if known else 0
        if self.group:
            self.group.add(self.pid)

    def end(self) -> tuple[int | None, bool]:
        """Kill the worker and its children; return its exit status, and whether memory ran out."""
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
        """Remove everything that the worker leaves."""
        self.end()
        if self.group:
            self.group.remove()
        folder.remove_folder(self.home)


class TooMuchWritten(Exception):
    """The worker's folder exceeded its limit."""


class Worker:
    """One fresh process for one set of definitions; every call returns an Answer.

    Once the process is gone, or its time is up, each further call answers at once with the same
    failure.
    """

    def __init__(self, sandbox: "Sandbox", program: str, probes: str, limits: Limits):
        self.sandbox, self.program, self.probes = sandbox, program, probes
        self.limits = limits
        self._gone: Answer | None = None
        self._spent = 0.0  # seconds of all calls
        self._number = 0

    def __enter__(self) -> "Worker":
        self._channel, theirs = make_channel()
        try:
            with theirs:  # closed here once the worker has it: only it holds that end now
                self.process = self.sandbox.fork(theirs.fileno(), self.limits)
        except BaseException:
            self._channel.close()
            raise
        try:
            self._load()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.remove()
        self._channel.close()

    def call(self, name: str, *arguments: Any, **named: Any) -> Answer:
        """Call a definition of the submission with plain values."""
        return self._ask({"do": "call", "name": name}, (arguments, named))

    def probe(self, name: str, *arguments: Any, **named: Any) -> Answer:
        """Call one of the homework's probes, which gets the submission's definitions first."""
        return self._ask({"do": "probe", "name": name}, (arguments, named))

    def _load(self) -> None:
        why: Any = "it ended before it was ready"
        try:
            deadline = time.monotonic() + READY_SECONDS
            head, _ = exchange_messages(self._channel, b"", deadline, 0, lambda: None)
            why = head.get("unconfined")
        except (Slow, Closed, wire.Refused):
            head = {}
        if not head.get("ready"):
            why = clean_text(str(why), 2000)
            raise RuntimeError(
                f"a worker must be confined before it runs anything, but could not be: {why}"
            )
        self._ask({"do": "load", "program": self.program, "probes": self.probes}, None)
        self._spent = 0.0

    def _ask(self, order: dict[str, Any], value: Any) -> Answer:
        if self._gone:
            return self._gone
        self._number += 1
        # The values are the grader's own: what cannot cross is a test's mistake, and raises here.
        message = wire.write_frame({**order, "id": self._number}, value, REQUEST)
        start = time.monotonic()
        value, failure, detail = self._exchange(message, start + self.limits.seconds)
        # What differs from one worker to the next is left out.
        shown = clean_text(detail.replace(self.process.home, "~"))
        answer = Answer(value, failure, shown, time.monotonic() - start)
        self._spent += answer.seconds
        if self.process.pidfd < 0:
            self._gone = answer
        elif self._spent > self.limits.together:
            detail = f"the calls of this question took over {self.limits.together:g} s together"
            self._gone = Answer(failure="slow", detail=detail)
        return answer

    def _exchange(self, message: bytes, deadline: float) -> tuple[Any, str, str]:
        """Send one request: (value, failure, detail); end the process after it fails."""
        limits = self.limits
        try:
            head, value = exchange_messages(
                self._channel, message, deadline, limits.reply, self._look
            )
            failure, detail = head.get("failure"), head.get("detail", "")
            if head.get("id") != self._number or type(detail) is not str:
                raise wire.Refused("the worker must reply with a valid message, but did not")
            if failure and (type(failure) is not str or failure not in FAILURES):
                raise wire.Refused("the worker must reply with a valid message, but did not")
        except Slow:
            return self._end("slow", f"no answer within {limits.seconds:g} s")
        except TooMuchWritten:
            return self._end("ended", f"it wrote more than {in_words(limits.file)} into its folder")
        except wire.Refused as error:
            return self._end("refused", str(error))
        except Closed:
            return self._end("ended", "")
        return (None, failure, detail) if failure else (value, "", "")

    def _look(self) -> None:
        if folder.is_too_large(self.process.home, self.limits.file):
            raise TooMuchWritten

    def _end(self, failure: str, detail: str) -> tuple[None, str, str]:
        status, memory = self.process.end()
        if memory:
            return None, "memory", f"it used more than {in_words(self.limits.memory)} of memory"
        return None, failure, detail or _describe_ending(status)


def _describe_ending(status: int | None) -> str:
    if status is None:
        return "the process ended"
    if os.WIFSIGNALED(status):
        return f"the process was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return f"the process ended by itself, with exit status {os.WEXITSTATUS(status)}"
