"""Examiners: processes of ours that grade one submission at a time, and may be ended at any moment.

An examiner that hangs or dies takes its submission along and nothing else: the pool starts another.
What travels between the processes is JSON.

Why not loky, which trains the book's runs? Its executor cannot end one job: a worker that dies
breaks the whole pool and every job that waits (TerminatedWorkerError names none), and a job that
hangs holds its worker until all of them are killed. Here either costs one submission, by name.
"""

import contextlib
import json
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

from press.homework.sandbox.answer import clean_text

Task = dict[str, Any]
Answered = dict[str, Any]
# A factory that runs in the examiner: it opens what is needed and gives what grades a task.
Opener = Callable[[dict[str, Any]], contextlib.AbstractContextManager[Callable[[Task], Answered]]]
START_SECONDS = 300.0
TIDY_SECONDS = 20.0
MOST_STARTS = 3


class Lost(Exception):
    """No examiner could begin; the text is what the last one said."""


def run_examiners(
    tasks: list[Task], opener: Opener, settings: dict[str, Any], jobs: int, seconds: float
) -> Iterator[tuple[Task, Answered | None, str]]:
    """Yield each task with its answer as it comes, or None and why there is none.

    One task has `seconds`; an examiner that takes longer is killed. Lost when none can begin.
    """
    waiting = deque(tasks)
    slots: list[_Examiner] = []
    try:
        slots += [_Examiner(opener, settings) for _ in range(max(1, min(jobs, len(tasks))))]
        while waiting or any(slot.task for slot in slots):
            for slot in slots:
                if slot.ready and slot.task is None and waiting:
                    slot.give(waiting.popleft(), seconds)
            due = min(slot.due for slot in slots) - time.monotonic()
            heard = wait([slot.pipe for slot in slots], timeout=max(0.0, min(due, 60.0)))
            for number, slot in enumerate(slots):
                late = time.monotonic() > slot.due
                if slot.pipe not in heard and not late:
                    continue
                task = slot.task
                actual = slot.hear() if slot.pipe in heard else None
                if actual is not None and task is not None:
                    failed = actual.get("failed", "")
                    yield task, None if failed else actual, failed
                elif actual is None:
                    slot.end()
                    if task is not None:
                        slow = f"its examiner did not end in {seconds:g} s"
                        dead = "its examiner ended with an error or was killed"
                        yield task, None, slow if late else dead
                    slots[number] = _Examiner(opener, settings, slot.count_starts())
    finally:
        for slot in slots:
            slot.end()


class _Examiner:
    """One process, the pipe to it, the task it works on, and until when."""

    def __init__(self, opener: Opener, settings: dict[str, Any], starts: int = 1):
        context = multiprocessing.get_context("spawn")  # a fork would copy this process's threads
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve_tasks, args=(theirs, opener, settings))
        self.process.start()
        theirs.close()
        self.task: Task | None = None
        self.ready, self.starts = False, starts
        self.due = time.monotonic() + START_SECONDS

    def give(self, task: Task, seconds: float) -> None:
        """Send a task; an examiner that died meanwhile is noticed when it is heard."""
        self.task, self.due = task, time.monotonic() + seconds
        with contextlib.suppress(OSError):
            self.pipe.send_bytes(json.dumps(task).encode())

    def hear(self) -> Answered | None:
        """What it said: that it is ready, an answer, or nothing any more."""
        try:
            actual = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        if "lost" in actual:
            raise Lost(actual["lost"])
        self.ready, self.task, self.due = True, None, float("inf")
        return actual

    def count_starts(self) -> int:
        """How many examiners began in this place, the next one included, since one was ready."""
        if self.ready:
            return 1
        if self.starts >= MOST_STARTS:
            raise Lost(f"{MOST_STARTS} examiners in a row ended before they could begin")
        return self.starts + 1

    def end(self) -> None:
        """End it: an idle one by itself, as its pipe ends, so that it tidies up; others at once."""
        self.pipe.close()
        if self.ready and self.task is None:
            self.process.join(TIDY_SECONDS)
        self.process.kill()
        self.process.join()


def _serve_tasks(pipe: Connection, opener: Opener, settings: dict[str, Any]) -> None:
    """Be an examiner until the pipe ends."""
    try:
        with opener(settings) as grade:
            pipe.send_bytes(b"{}")
            with contextlib.suppress(EOFError, OSError):
                while True:
                    task = json.loads(pipe.recv_bytes())
                    pipe.send_bytes(json.dumps(_grade_task(grade, task)).encode())
    except ValueError as error:  # what is needed is not there: nobody else will find it either
        with contextlib.suppress(OSError):
            pipe.send_bytes(json.dumps({"lost": str(error)}).encode())


def _grade_task(grade: Callable[[Task], Answered], task: Task) -> Answered:
    try:
        return grade(task)
    except Exception as error:  # whatever it is, the other submissions go on
        return {"failed": f"its examiner raised {clean_text(f'{type(error).__name__}: {error}')}"}
