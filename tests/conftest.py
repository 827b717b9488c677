"""Setup shared by all tests: one seed, one thread, and interpreted kernels if there is no GPU."""

import os
import signal
import sys
import threading

import pytest
import torch

if threading.current_thread() is threading.main_thread():
    # A shell's background job ignores SIGINT, and so would every server that a test ends by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if not torch.cuda.is_available():
    # Triton reads this when it is imported, by whichever test comes first.
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def seed():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_norm_of_a_reader():
    """Restore the table of norms after each test."""
    yield
    if own := sys.modules.get("labkit.experiments.own"):
        for name in own._SOURCES:
            own.NORMS.pop(name, None)
        own._SOURCES.clear()
