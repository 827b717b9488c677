"""Run somebody else's code so that it cannot hang the caller or change the caller's world.

A loop in Python and a wait are interrupted; one huge tensor operation is waited for. In a thread
other than the main one, or inside a limit that somebody else has set, no time is kept.
"""

import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

from labkit.time_limit import TooLong, at_most

T = TypeVar("T")


def run_all(jobs: Sequence[Callable[[], T]], each: float, total: float) -> list[T]:
    """Run the jobs in order and return their results; stop early when time runs out.

    A job may take `each` seconds, all of them together `total`. A result list shorter than
    `jobs` means that the job at its end did not finish.
    """
    done: list[T] = []
    with torch.inference_mode(False), torch.enable_grad():  # whatever mode the caller is in
        # The first gradient of a process imports for seconds: no job is blamed for that.
        torch.ones(1, requires_grad=True).backward(torch.ones(1))
        end = time.monotonic() + total
        for job in jobs:
            left = min(each, end - time.monotonic())
            if left <= 0:
                break
            try:
                with at_most(left):
                    done.append(job())
            except TooLong:
                break
    return done


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
