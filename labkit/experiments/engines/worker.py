"""A worker process: reads tasks as JSON lines, trains each in a slot of the pool, stores it.

    in:   {"task": 3, "seconds": 3600, "runs": [{…}, …], "own": {norm: source}}
    out:  {"ready": true}, then for each task {"task": 3, "waits": true}, as long as it waits for a
          slot or for another trainer of its runs, and {"task": 3, "ok": true}
          or {"task": 3, "error": traceback, "full": is the disk full?}

It ends when its input does, that is when the process that started it is gone; the task in hand is
finished and stored first, unless that takes longer than it may.
"""

import contextlib
import faulthandler
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from labkit.experiments.engines.base import disk_full
from labkit.experiments.engines.task import complete
from labkit.experiments.own import accept
from labkit.experiments.run import CPU, Run
from labkit.experiments.store import Store
from labkit.pool import Pool
from labkit.share import fraction, limit

HEARTBEAT = 1.0  # seconds between two words of a worker that waits
PATIENCE = 10.0  # seconds that a worker gives its parent to end it first


class Answers:
    """The way back to the parent: nobody else's words get onto it."""

    def __init__(self) -> None:
        # What training prints, in Python or in C, must not be taken for an answer.
        self._file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lock = threading.Lock()

    def say(self, **words: Any) -> None:
        """Write one line, on a line of its own whatever stands before it."""
        with self._lock:
            self._file.write(f"\n{json.dumps(words)}\n")
            self._file.flush()

    @contextlib.contextmanager
    def waiting(self, task: int) -> Iterator[threading.Event]:
        """Say now and then that a task waits, until the event is set."""
        begun = threading.Event()

        def talk() -> None:
            with contextlib.suppress(OSError):  # nobody listens any more
                while not begun.wait(HEARTBEAT):
                    self.say(task=task, waits=True)

        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        try:
            yield begun
        finally:
            begun.set()
            thread.join()


def perform(order: dict[str, Any], store: Store, pool: Pool, answers: Answers) -> None:
    """Carry out one order and answer it."""
    accept(order.get("own", {}))
    task = tuple(map(Run.from_dict, order["runs"]))

    @contextlib.contextmanager
    def slot() -> Iterator[None]:
        with pool.slot():
            begun.set()
            answers.say(task=order["task"], waits=True)  # the clock starts now
            # A worker whose parent is gone has nobody else to end it when it hangs.
            faulthandler.dump_traceback_later(order["seconds"] + PATIENCE, exit=True)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()

    try:
        with answers.waiting(order["task"]) as begun:
            complete(task, store, slot, engine="processes")
        answer = {"ok": True}
    except Exception as error:
        answer = {"error": traceback.format_exc(), "full": disk_full(error)}
    answers.say(task=order["task"], **answer)


def main(root: Path, device: str = CPU) -> None:
    """Answer each line of the input."""
    answers = Answers()
    torch.set_num_threads(1)
    if (nice := os.environ.get("LABKIT_NICE")) and os.getsid(0) == os.getpid():
        # Linux shares the cores out among sessions before it looks at nice values (sched(7)), and
        # a worker is a session of its own.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(nice)
    if device != CPU:
        limit(fraction())  # what its engine left to it of our part
    store, pool = Store(root, device), Pool(root)
    with contextlib.suppress(BrokenPipeError):  # the parent is gone; what was in hand is stored
        answers.say(ready=True)
        for line in sys.stdin:
            perform(json.loads(line), store, pool, answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
