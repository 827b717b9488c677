"""Open what an examiner needs: the private tests, a sandbox in the mode asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.homework.private import load


@contextmanager
def opened(
    settings: dict[str, Any],
) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """A function that grades a task {"student", "path", "before"}; Unavailable as the sandbox.

    `settings` are {"private": path, "mode", "code", "seconds"}. Imports wait until here: the pool
    needs this module's name and no torch.
    """
    import torch

    from labkit.homework.grading.digests import Grader
    from labkit.homework.grading.grade import grade
    from labkit.homework.sandbox import Limits, Sandbox

    torch.set_num_threads(1)  # one examiner a core
    private = load(Path(settings["private"]))
    grader = Grader(private, settings["mode"], settings["code"])
    limits = Limits(seconds=settings["seconds"])
    with Sandbox(settings["mode"], limits, private.packages) as workers:
        yield lambda task: grade(
            Path(task["path"]), task["student"], private, workers, grader, task["before"]
        )
