"""One thread a process: what a child process is told when as many as there are cores work at once.

Sums are split among threads, so one thread everywhere also means the same numbers everywhere; and
threads that wait must not spin, for another process may want their core.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Use one torch thread in this process during a block."""
    import torch  # what only tells child processes needs none

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def build_one_thread_environment() -> dict[str, str]:
    """Return the variables with which a process computes on one thread, by whichever library."""
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
