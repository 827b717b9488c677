"""Time two calls alternately in one process, so that a busy machine slows both equally."""

from collections.abc import Callable
from functools import partial
from timeit import timeit


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], turns: int, inner: int = 1
) -> list[tuple[float, float]]:
    """Time two calls in turn, `inner` times each; return the seconds per call (ours, theirs).

    Their order alternates. The first turn is a warm-up and is left out.
    """
    timers = [partial(timeit, call, number=inner) for call in (ours, theirs)]
    took = []
    for turn in range(turns + 1):
        order = (1, 0) if turn % 2 else (0, 1)
        seconds = {side: timers[side]() / inner for side in order}
        took.append((seconds[0], seconds[1]))
    return took[1:]
