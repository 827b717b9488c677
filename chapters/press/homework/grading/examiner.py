"""Open what an examiner needs: the private tests and a sandbox."""

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from press.homework.private import load_private

# What a comparison may take: two long thin tensors of a student's broadcast to a machine's memory.
MOST_MEMORY = 6 << 30


@contextmanager
def open_examiner(
    settings: dict[str, Any],
) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """A function that grades a task {"student", "path", "before"}; Unavailable as the sandbox.

    `settings` are {"private": path, "code", "seconds"}. Imports wait until here: the pool
    needs this module's name and no torch.
    """
    import torch

    from press.homework.grading.digests import Grader
    from press.homework.grading.grade import grade_submission
    from press.homework.sandbox import Limits, Sandbox

    torch.set_num_threads(1)  # one examiner a core
    private = load_private(Path(settings["private"]))
    grader = Grader(private, settings["code"])
    limits = Limits(seconds=settings["seconds"])
    with Sandbox(limits, private.packages) as workers, limit_memory(MOST_MEMORY):
        yield lambda task: grade_submission(
            Path(task["path"]), task["student"], workers, grader, task["before"]
        )


@contextmanager
def limit_memory(more: int) -> Iterator[None]:
    """Limit this process's additional address space in bytes; torch then raises an error."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more
    limits = [each for each in (most, before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
