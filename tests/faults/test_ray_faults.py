"""Ray's workers, a whole node, the driver: killed in the middle of a sweep."""

import psutil
import pytest

from tests.faults.bench import PATIENCE, RUNS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def agents():
    """Take Ray's agents of a dead node, and see their end behind the last test: it takes a minute.

    For so long each tries to tell the head, which is dead as well, that its node has died.
    """
    left = []
    yield left
    assert psutil.wait_procs(left, timeout=PATIENCE)[1] == []


def test_a_ray_of_one_s_own_ends_with_its_driver(bench, agents, monkeypatch):
    monkeypatch.setenv("LABKIT_ENGINE", "ray")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")  # of a head that is gone
    bench.disturb(gate=2)
    with bench.driving() as driver:
        bench.come_to_the_gate(driver, 2)
        ours = psutil.Process(driver.pid).children(recursive=True)
        agents += [one for one in ours if "Agent" in "".join(one.cmdline())]
    others = [one for one in ours if one not in agents]
    assert len(others) > 2 and psutil.wait_procs(others, timeout=PATIENCE)[1] == []
    before = bench.stored()
    assert set(before) == {0, 1}
    bench.finish(before)


def test_workers_and_a_node_that_die_cost_their_runs_a_new_start(bench, no_ray, monkeypatch):
    from tests.ray_cluster import cluster  # needs Ray

    monkeypatch.setenv("LABKIT_ENGINE", "ray")
    bench.disturb(gate=6, kills={1: 1, 3: 9})
    with cluster(bench.root / "cluster") as nodes:
        monkeypatch.setenv("LABKIT_ENGINE_ADDRESS", nodes.address)
        with bench.driving() as driver:
            bench.wait(lambda: bench.list_waiting(6), driver)
            nodes.nodes[1].kill()  # in the middle of whatever it trains
            bench.go()
            said = driver.communicate(timeout=PATIENCE)[0]
    assert "1 of 8 tasks failed" in said and "3 times, the last time: its worker died" in said
    assert bench.events("killed").count(3) in (2, 3), "the node's end may be one, too"
    before = bench.stored()
    assert set(before) == {run.seed for run in RUNS} - {3}, "it harms no other"
    bench.finish(before)
