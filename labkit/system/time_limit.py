"""Interrupt slow code with the system's timer; signals reach only the main thread."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.5  # seconds until TooLong is raised once more


class TooLong(BaseException):
    """Raised at the time limit; not an Exception, so that `except Exception` does not catch it."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt a block after `seconds`; do nothing in another limit or off the main thread.

    Python prints and drops an exception raised in a destructor, so TooLong is raised repeatedly.
    Any other exception after the first one, for example from an interrupted parser, becomes
    TooLong. Work in C, such as one huge product, is only interrupted when it is done.
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
