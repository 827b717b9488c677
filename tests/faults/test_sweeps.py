"""A driver that is killed, two sweeps that share a store."""

import psutil
import pytest

from tests.faults.bench import PATIENCE, RUNS

pytestmark = pytest.mark.slow


def test_a_sweep_whose_driver_is_killed_goes_on_where_it_was(bench):
    bench.disturb(gate=2)
    with bench.driving() as driver:
        bench.come_to_the_gate(driver, 2)
        family = psutil.Process(driver.pid).children(recursive=True)
    assert psutil.wait_procs(family, timeout=PATIENCE)[1] == [], "a worker ends with its driver"
    before = bench.stored()
    assert set(before) == {0, 1}, "what was in hand is lost, and nothing else"
    bench.finish(before)


def test_two_sweeps_over_one_store_train_each_run_once(bench):
    bench.disturb(pace=0.1)
    with bench.driving() as one, bench.driving(RUNS[::-1]) as other:
        for driver in (one, other):
            said = driver.communicate(timeout=PATIENCE)[0]
            assert driver.returncode == 0, said
    assert sorted(bench.events("begins")) == [run.seed for run in RUNS]
    bench.account()
