"""Tasks that workers run instead of training; workers find these functions by name."""

import contextlib
import os
import signal
import time
from pathlib import Path

from labkit import Record
from labkit.experiments.engines.limits import limit_run


def answer(task, *words):
    return [Record(losses=[1.0], steps=1) for _ in task], {}


def first(name: str) -> bool:
    """Return True to one worker only, at the first call with this name."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
        return True
    return False


def note(task, *words):
    """Wait for the other worker before the first task."""
    with open(f"{os.getpid()}.pid", "a") as file:
        file.write("+")
    while sum(name.endswith(".pid") for name in os.listdir()) < 2:
        time.sleep(0.01)
    return answer(task)


HELD = bytearray()


def hold_half_a_gigabyte(task, *words):
    """Allocate memory, once, for longer than the interval between two of loky's checks."""
    with open(f"{os.getpid()}.pid", "a") as file:
        file.write("+")
    Path("heard").write_text(os.environ["GLIBC_TUNABLES"])
    HELD.extend(b"x" * (2**29 - len(HELD)))
    time.sleep(1.1)
    return answer(task)


def die_once(task, *words):
    return os.kill(os.getpid(), signal.SIGKILL) if first("dead") else answer(task)


def stop_once(task, *words):
    return os.kill(os.getpid(), signal.SIGSTOP) if first("stopped") else answer(task)


def hang_or_leak(task, own, device, seconds, memory):
    held = []
    with limit_run(seconds, memory):
        while True:
            held += [b"x" * 2**26] if task[0].seed else []
            time.sleep(0.05)


def sleep_long(task, *words):
    return answer(task) if first("one") else (first("begun"), time.sleep(1e6))
