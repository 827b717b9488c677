"""One worker process as its parent sees it: asked to train a task, watched while it does.

Nothing that a worker does blocks its parent: it may die, hang, leak, write garbage or read
nothing. Time is time.monotonic's, so that a clock that jumps does no harm.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from labkit.experiments.engines.base import Task
from labkit.experiments.engines.limits import in_words, resident
from labkit.experiments.own import sources_of

TICK = 0.1  # seconds between two looks at a worker's memory
START = 600.0  # seconds that a worker may take to import torch, on a starved machine
GOODBYE = 10.0  # seconds that an idle worker may take to end by itself
LONGEST = 2**20  # bytes of one line of a worker; an answer is shorter, so the rest is garbage


class Lost(Exception):
    """A worker that is no more; its text says why."""


class Died(Lost):
    """It was killed, or it ended: another one may fare better. `ready`: had it taken a task?"""

    def __init__(self, why: str, ready: bool):
        super().__init__(why)
        self.ready = ready


class LetGo(Exception):
    """The engine was closed meanwhile: the worker finishes what it has in hand, and ends."""


class WorkerProcess:
    """A child process that trains one task at a time."""

    def __init__(self, root: Path, device: str, environment: Mapping[str, str]):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "labkit.experiments.engines.worker", str(root), device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl-C reaches the parent alone
        )
        assert self._process.stdin and self._process.stdout
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._to.fileno(), False)
        os.set_blocking(self._from.fileno(), False)
        self._heard, self._ready, self._tasks = b"", False, 0
        self.peak = 0  # most bytes that it was seen to hold during its last task

    def train(
        self, task: Task, seconds: float, memory: int, let_go: threading.Event
    ) -> dict[str, Any]:
        """Have a task trained and return the answer; Lost when the worker is, or must be, ended.

        It may hold `memory` bytes, and say nothing for `seconds` (for START until it is ready).
        """
        self._tasks, self.peak = self._tasks + 1, 0
        order = {"task": self._tasks, "seconds": seconds, "runs": [r.to_dict() for r in task]}
        order["own"] = sources_of(task)
        unsent = json.dumps(order).encode() + b"\n"
        heard = looked = time.monotonic()
        with selectors.DefaultSelector() as events:
            events.register(self._from, selectors.EVENT_READ)
            events.register(self._to, selectors.EVENT_WRITE)
            while True:
                for key, _ in events.select(TICK):
                    if key.fileobj is self._from:
                        for answer in self._listen():
                            heard = time.monotonic()
                            if "waits" not in answer:
                                return answer
                    else:
                        unsent = self._send(unsent)
                        if not unsent:
                            events.unregister(self._to)
                now = time.monotonic()
                if let_go.is_set():
                    self.let_go()
                    # Somebody must wait for a process that ended.
                    threading.Thread(target=self._process.wait, daemon=True).start()
                    raise LetGo
                if now - heard > (seconds if self._ready else max(START, seconds)):
                    raise self._hung(now - heard)
                if now - looked > TICK:
                    looked = now
                    self._watch(memory)

    def _send(self, unsent: bytes) -> bytes:
        try:
            return unsent[os.write(self._to.fileno(), unsent) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            raise self._died() from None

    def _listen(self) -> list[dict[str, Any]]:
        """Read what has come, and keep of it what answers the task in hand."""
        try:
            read = os.read(self._from.fileno(), LONGEST)
        except BlockingIOError:
            return []
        if not read:
            raise self._died()
        *lines, rest = (self._heard + read).split(b"\n")
        self._heard = rest[-LONGEST:]
        answers = []
        for line in lines:
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(answer, dict) and answer.get("ready") is True and not self._ready:
                self._ready = True
                answers.append({"waits": True})
            elif isinstance(answer, dict) and answer.get("task") == self._tasks:
                answers.append(answer)
        return answers

    def _watch(self, memory: int) -> None:
        held = resident(self._process.pid) or 0
        self.peak = max(self.peak, held)
        if held > memory:
            self.kill()
            raise Lost(
                f"the worker held {in_words(self.peak)} and was killed: a run may hold "
                f"{in_words(memory)}; make the run smaller, or let it have more "
                "(LABKIT_RUN_MEMORY=8G, with a smaller LABKIT_SLOTS where the machine has no more)"
            )

    def _hung(self, silent: float) -> Lost:
        self.kill()
        return Lost(
            f"the worker hung: it said nothing for {silent:.0f} s and was killed; if the run only "
            "takes long, let it (LABKIT_RUN_TIMEOUT=7200, in seconds per run)"
        )

    def _died(self) -> Died:
        # Its end of a pipe is closed, so it ends; if it does not, it is of no use any more.
        try:
            code = self._process.wait(GOODBYE)
        except subprocess.TimeoutExpired:
            code = None
        self.kill()
        if code is None:
            said = "closed its pipes"
        elif code < 0:
            said = f"was killed by {signal.Signals(-code).name}"
        else:
            said = f"ended with code {code}"
        return Died(
            f"the worker {said}{'' if self._ready else ' before it was ready'}, when it held "
            f"{in_words(self.peak)}; if it was killed for memory, lower LABKIT_SLOTS",
            self._ready,
        )

    def kill(self) -> None:
        """End the process now, whatever it does."""
        self._process.kill()
        self.let_go()
        # Else it sits in the system's hands, and dies when those let it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GOODBYE)

    def close(self) -> None:
        """Let an idle worker end by itself; end it when it does not."""
        self.let_go()
        try:
            self._process.wait(GOODBYE)
        except subprocess.TimeoutExpired:
            self.kill()

    def let_go(self) -> None:
        """Tell it to end when it has finished what it has in hand."""
        self._to.close()
        self._from.close()
