"""Setup shared by all tests: one seed, one thread, and interpreted kernels if there is no GPU."""

import collections
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
        own.unregister_norms()


@pytest.fixture(scope="session")
def ray_cluster(tmp_path_factory):
    """Start two Ray nodes on this machine, once for all tests that need them."""
    from tests.ray_cluster import cluster  # needs Ray

    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def no_ray():
    """Disconnect from Ray, whatever the last test did."""
    import ray

    ray.shutdown()


@pytest.fixture
def two_nodes(ray_cluster, no_ray):
    """Provide a cluster of two nodes, without a connection to it."""
    return ray_cluster


def pytest_terminal_summary(terminalreporter):
    """Report the tests' measurements, and how many wrong variants labkit.check rejected."""
    tried = collections.defaultdict(list)
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        for key, value in getattr(report, "user_properties", ()):
            if key == "figure" and report.when == "call":
                terminalreporter.write_line(value)
            if key == "mutation gate" and report.when == "call":
                norm, survived = value
                tried[norm].append(not survived)
    for norm, killed in tried.items():
        terminalreporter.write_line(f"mutation gate, {norm}: {sum(killed)} / {len(killed)} killed")
    if tried:
        killed = [one for some in tried.values() for one in some]
        share = f"{sum(killed) / len(killed):.0%}"
        terminalreporter.write_line(f"mutation gate: {sum(killed)} / {len(killed)}, {share}")
