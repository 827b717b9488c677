"""Stop what takes too long, by the system's timer; signals reach the main thread alone."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.5  # seconds until TooLong is raised once more


class TooLong(BaseException):
    """Not an Exception: what is interrupted must not swallow it by `except Exception`."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer; inside another limit, or off the main thread, change nothing.

    What is raised in a destructor, Python prints and forgets: so it is raised again and again.
    What fails in another way after that, as a parser does that was interrupted, fails by it.
    Work in C, such as one huge product, is interrupted when it is done.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return

    over = False

    def stop_block(*_: object) -> None:
        nonlocal over
        over = True
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop_block)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    except Exception as error:
        if over:
            raise TooLong from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
