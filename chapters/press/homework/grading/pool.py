"""Examiners: our processes that grade one submission at a time and may be killed at any moment.

An examiner that hangs or dies takes its submission along and nothing else: the pool, which is
pebble's, starts another. What comes back is JSON.

Why not loky, which trains the book's runs? Its executor cannot end one job: a worker that dies
breaks the whole pool and every job that waits (TerminatedWorkerError names none), and a job that
hangs holds its worker until all of them are killed. Here either costs one submission, by name.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from pebble import ProcessExpired, ProcessPool

from press.homework.sandbox.answer import clean_text

Task = dict[str, Any]
Answered = dict[str, Any]
# A factory that runs in the examiner: it opens what is needed and gives what grades a task.
Opener = Callable[[dict[str, Any]], AbstractContextManager[Callable[[Task], Answered]]]

# In an examiner: what it opened, until the process ends, and what grades its tasks.
_open = ExitStack()
_graders: list[Callable[[Task], Answered]] = []


class Lost(Exception):
    """No examiner can start; the message says why."""


def run_examiners(
    tasks: list[Task], opener: Opener, settings: dict[str, Any], jobs: int, seconds: float
) -> Iterator[tuple[Task, Answered | None, str]]:
    """Yield each task with its answer as it arrives, or None and the reason.

    One task has `seconds`; an examiner that takes longer is killed. Lost when none can begin.
    """
    context = multiprocessing.get_context("spawn")  # a fork would copy this process's threads
    pool = ProcessPool(max(1, min(jobs, len(tasks))), context=context)
    try:
        given: dict[Future, Task] = {
            pool.schedule(_grade_task, (opener, settings, task), timeout=seconds): task
            for task in tasks
        }
        for future in as_completed(given):
            yield given[future], *_read_answer(future, seconds)
    finally:
        pool.stop()
        pool.join()


def _read_answer(future: Future, seconds: float) -> tuple[Answered | None, str]:
    try:
        answer = json.loads(future.result())
    except TimeoutError:
        return None, f"its examiner did not end within {seconds:g} s"
    except ProcessExpired:
        return None, "its examiner ended with an error or was killed"
    except BrokenProcessPool as error:
        raise Lost("examiner processes end before they can begin") from error
    if "lost" in answer:
        raise Lost(answer["lost"])
    return answer.get("answer"), answer.get("failed", "")


def _grade_task(opener: Opener, settings: dict[str, Any], task: Task) -> str:
    """Answer one task in an examiner, which opens what it needs at its first task."""
    if not _graders:
        try:
            _graders.append(_open.enter_context(opener(settings)))
        except ValueError as error:  # what is needed is not there: nobody else will find it either
            return json.dumps({"lost": str(error)})
    try:
        return json.dumps({"answer": _graders[0](task)})
    except Exception as error:  # whatever it is, the other submissions go on
        said = clean_text(f"{type(error).__name__}: {error}")
        return json.dumps({"failed": f"its examiner raised {said}"})
