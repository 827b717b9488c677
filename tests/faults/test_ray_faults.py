"""A Ray worker, a whole node, the head, the driver: killed in the middle of a sweep."""

import time
from pathlib import Path

import psutil
import pytest

from labkit.experiments.queries.garbage import remove_garbage
from tests.faults.bench import PATIENCE, RUNS

pytestmark = pytest.mark.slow
EVERY = {run.seed for run in RUNS}


@pytest.fixture
def bench(bench, monkeypatch):
    """Let drivers train on Ray, and notice within seconds that its head is gone."""
    monkeypatch.setenv("LABKIT_ENGINE", "ray")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    return bench


@pytest.fixture
def nodes(bench, two_nodes, monkeypatch):
    monkeypatch.setenv("LABKIT_ENGINE_ADDRESS", two_nodes.address)
    return two_nodes


@pytest.fixture(scope="module")
def agents():
    """Take Ray's agents of a dead node, and see their end behind the last test: it takes a minute.

    For so long each tries to tell the head, which is dead as well, that its node has died.
    """
    left = []
    yield left
    assert psutil.wait_procs(left, timeout=PATIENCE)[1] == []


def end_of(process) -> str:
    said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    return said


def kill(process, bench, gate: int) -> None:
    """Kill a driver, and wait until Ray has ended what it had in hand."""
    workers = bench.waiting(gate)
    process.kill()
    process.wait()
    bench.outside += 1
    bench.wait(lambda: not any(map(psutil.pid_exists, workers)))


def go_on(bench, before: dict[int, int]) -> None:
    """Train the rest with processes; what was there must not be touched."""
    bench.faults()
    bench.go()
    assert bench.train(RUNS) == ""
    assert before.items() <= bench.stored().items() and set(bench.stored()) == EVERY


def test_a_ray_of_one_s_own_ends_with_its_driver(bench, agents, record_property):
    bench.faults(gate=2)
    with bench.driving() as process:
        bench.at_the_gate(process, 2)
        ours = psutil.Process(process.pid).children(recursive=True)
        agents += [one for one in ours if "Agent" in "".join(one.cmdline())]
        kill(process, bench, 2)
    others = [one for one in ours if one not in agents]
    assert len(others) > 2 and psutil.wait_procs(others, timeout=PATIENCE)[1] == []
    assert set(bench.stored()) == {0, 1}
    go_on(bench, bench.stored())
    bench.account(record_property)


def test_what_nodes_that_see_no_store_have_finished_survives_them_and_the_driver(
    bench, nodes, record_property
):
    """A path that means another place in each process stands for files that are not shared."""
    alone = Path("/proc/self/cwd")
    bench.faults(gate=4, s1=("kill", 1))
    with bench.driving(root=alone) as process:
        bench.at_the_gate(process, 4)
        kill(process, bench, 4)
    before = bench.stored()
    assert set(before) == {0, 1, 2, 3}
    with bench.driving(root=alone) as process:
        bench.at_the_gate(process, 4, before=2)
        nodes.nodes[1].kill()
        bench.outside += 1
        bench.go()
        end_of(process)
    assert before.items() <= bench.stored().items() and set(bench.stored()) == EVERY
    assert not list(nodes.folder.rglob("*.json")), "a node kept what is the driver's"
    bench.account(record_property)


def test_workers_and_a_node_that_die_cost_their_runs_a_new_start(bench, nodes, record_property):
    bench.faults(gate=6, s1=("kill", 1), s3=("kill", 9))
    with bench.driving() as process:
        bench.wait(lambda: bench.waiting(6), process)
        nodes.nodes[1].kill()  # in the middle of whatever it trains
        bench.outside += 1
        bench.go()
        said = process.communicate(timeout=PATIENCE)[0]
    assert "1 of 8 tasks failed" in said and "3 times, the last time: its worker died" in said
    assert list(bench.events()).count(("fault", "3")) in (2, 3), "the node's end may be one, too"
    before = bench.stored()
    assert set(before) == EVERY - {3}, "a run that always kills its worker harms no other"
    go_on(bench, before)
    bench.account(record_property)


def test_what_a_killed_driver_and_a_killed_head_leave_is_gone_on_from(
    bench, nodes, record_property
):
    bench.faults(gate=2)
    with bench.driving() as process:
        bench.at_the_gate(process, 2)
        kill(process, bench, 2)
    before = bench.stored()
    assert set(before) == {0, 1}
    debris = remove_garbage(bench.store.folder, 0.0)
    assert [*debris] == ["locks"] and len(debris["locks"]) == 2, "of two runs in hand"

    with bench.driving() as process:
        bench.at_the_gate(process, 2, before=2)
        nodes.nodes[0].kill()
        bench.outside += 1
        began = time.monotonic()
        process.wait(PATIENCE)
        assert process.returncode != 0, "without its head no Ray goes on"
        assert time.monotonic() - began < 60
    assert bench.stored() == before
    nodes.nodes[1].kill()
    go_on(bench, before)
    bench.account(record_property)
