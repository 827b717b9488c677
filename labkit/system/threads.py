"""One thread per process, for child processes that each have a core.

Threads change the order of sums, so one thread everywhere also means the same numbers everywhere.
Waiting threads must not spin, because another process may need their core.
"""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def use_one_thread() -> Iterator[None]:
    """Use one torch thread in this process during a block."""
    import torch  # not needed just to configure child processes

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def build_one_thread_environment() -> dict[str, str]:
    """Return environment variables that limit numerical libraries to one thread."""
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }
