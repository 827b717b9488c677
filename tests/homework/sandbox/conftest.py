"""One zygote for all tests of a process; each test has separate workers."""

import psutil
import pytest

from press.homework.sandbox import Sandbox, needs, seccomp


def zygote_of(worker):
    """Find the process that forked a worker, which is not a child of the grader."""
    return psutil.Process(worker.process.pid).ppid()


@pytest.fixture(scope="session")
def sandbox():
    """A sandbox with the packages that most homeworks use."""
    with Sandbox(packages=("torch", "numpy")) as opened:
        yield opened


@pytest.fixture
def ask(sandbox):
    """Run one program in a fresh worker and call its `answer`."""

    def once(program, *arguments, **named):
        with sandbox.open_worker(program) as worker:
            return worker.call("answer", *arguments, **named)

    return once


@pytest.fixture
def looked_anew():
    """Clear the caches before and after."""
    caches = (seccomp.compile_filter, needs._check_filter, needs._check_walls)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()
