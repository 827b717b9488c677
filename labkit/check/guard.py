"""Run somebody else's code so that it cannot hang the caller or change the caller's world.

The work runs in one daemon thread, which works in a notebook, under pytest and off the main
thread alike. When time is up an exception is raised inside that thread, which ends any Python
loop. Code that waits in C (a sleep, one huge tensor operation) or swallows every exception is
left behind: the caller goes on, the thread lives until the process ends.
"""

import ctypes
import random
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

T = TypeVar("T")


class TimeUp(BaseException):
    """Say that the time for this piece of work is over; `except Exception` lets it through."""


def run_all(jobs: Sequence[Callable[[], T]], each: float, total: float) -> list[T]:
    """Run the jobs in order and return their results; stop early when time runs out.

    A job may take `each` seconds, all of them together `total`. A result list shorter than
    `jobs` means that the job at its end did not finish.
    """
    first_gradient()
    done: list[T] = []
    started = [time.monotonic()]

    def work() -> None:
        try:
            for job in jobs:
                started[0] = time.monotonic()
                done.append(job())
        except TimeUp:
            pass

    thread = threading.Thread(target=work, name="labkit.check", daemon=True)
    end = time.monotonic() + total
    thread.start()
    try:
        while thread.is_alive():
            left = min(started[0] + each, end) - time.monotonic()
            if left <= 0:
                break
            thread.join(min(left, 0.5))
    finally:
        finished = list(done)
        _stop(thread)
    return finished


def first_gradient() -> None:
    """Take a gradient of nothing before any clock starts.

    The first one of a process makes torch import hundreds of files, sympy among them; on a busy
    machine that alone takes the seconds of a job, which would then be blamed for them.
    """
    with torch.inference_mode(False):  # whatever the caller is in: the jobs' thread is not
        x = torch.ones(1, requires_grad=True)
        torch.autograd.grad(x * 1, x, torch.ones(1))


def _stop(thread: threading.Thread) -> None:
    """Raise TimeUp inside the thread until it ends, for half a second at most."""
    for _ in range(10):
        if not thread.is_alive() or thread.ident is None:
            return
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(TimeUp)
        )
        thread.join(0.05)


@contextmanager
def untouched_world() -> Iterator[None]:
    """Restore the random states and the default dtype afterwards; silence warnings meanwhile."""
    python, array, dtype = random.getstate(), np.random.get_state(), torch.get_default_dtype()
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)
            torch.set_default_dtype(dtype)
