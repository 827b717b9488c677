"""Limits of a run, in seconds and bytes: from the environment, or from the machine.

LABKIT_RUN_TIMEOUT   time limit of a single run in seconds (default: an hour)
LABKIT_RUN_MEMORY    memory limit of its process, as in 4G (default: the machine's / slots)
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from labkit.system.units import in_words, parse_bytes

TIMEOUT = 3600.0
TICK = 0.25  # seconds between two looks at a run


def run_timeout() -> float:
    """Return the time limit of a run in seconds, from LABKIT_RUN_TIMEOUT."""
    text = os.environ.get("LABKIT_RUN_TIMEOUT") or TIMEOUT
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise ValueError(
        "LABKIT_RUN_TIMEOUT, the timeout of a run, must be a positive number of seconds; got "
        f"{text!r}"
    )


def run_memory() -> int | None:
    """Return the memory limit of a run in bytes; None if it is not set."""
    asked = os.environ.get("LABKIT_RUN_MEMORY")
    return parse_bytes(asked) if asked else None


def machine_memory() -> int:
    """Return the memory of this machine, or of this container, in bytes."""
    total = psutil.virtual_memory().total
    with contextlib.suppress(OSError, ValueError):  # no such file; "max"
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def count_resident_bytes() -> int:
    """Return this process's resident memory in bytes."""
    return psutil.Process().memory_info().rss


@contextlib.contextmanager
def limit_run(seconds: float, memory: int | None) -> Iterator[None]:
    """Interrupt a block at a limit of time or of this process's memory; only in the main thread.

    Raises:
        TimeoutError: the block took longer.
        MemoryError: the process held more memory.
    """
    end = time.monotonic() + seconds

    def check_limits(*_: object) -> None:
        if time.monotonic() > end:
            raise TimeoutError(
                f"a run may take at most {seconds:g} seconds, so this one was stopped; if it is "
                "slow but does not hang, raise the limit (LABKIT_RUN_TIMEOUT=7200, in seconds "
                "per run)"
            )
        if memory and (held := count_resident_bytes()) > memory:
            raise MemoryError(
                f"a run may use at most {in_words(memory)} of memory, so this one was stopped at "
                f"{in_words(held)}; make it smaller, or raise the limit (LABKIT_RUN_MEMORY=8G, "
                "with a smaller LABKIT_SLOTS if the machine has no more)"
            )

    signal.signal(signal.SIGALRM, check_limits)
    signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
