"""Drivers that are killed, sweeps that share a store, clocks that jump."""

from datetime import datetime

import psutil
import pytest

from labkit.experiments.queries.garbage import remove_garbage
from labkit.experiments.store import read_entry
from tests.faults.bench import PATIENCE, RUNS

pytestmark = pytest.mark.slow


def end_of(driver) -> str:
    said = driver.communicate(timeout=2 * PATIENCE)[0]
    assert driver.returncode == 0, said
    return said


@pytest.mark.parametrize("everything", [False, True], ids=["driver", "everything"])
def test_a_sweep_whose_driver_is_killed_goes_on_where_it_was(bench, record_property, everything):
    bench.faults(gate=2)
    driver = bench.driver()
    bench.at_the_gate(driver, 2)
    family = psutil.Process(driver.pid).children(recursive=True)
    assert len(bench.waiting(2)) == 2
    driver.kill()
    for worker in family if everything else []:
        worker.kill()
    bench.outside += 1 + everything * len(family)
    driver.communicate()
    assert not psutil.wait_procs(family, timeout=PATIENCE)[1], "a worker ends with its driver"
    before = bench.stored()
    assert set(before) == {0, 1}, "what was in hand is lost, and nothing else"
    bench.go()

    assert f"{len(RUNS) - len(before)} missing" in end_of(bench.driver())
    assert before.items() <= bench.stored().items() and len(bench.stored()) == len(RUNS)
    bench.account(record_property)


def test_two_sweeps_over_one_store_train_each_run_once(bench, record_property):
    bench.faults(pace=0.1)
    for driver in [bench.driver(), bench.driver(RUNS[::-1])]:
        end_of(driver)
    begun = sorted(seed for what, seed in bench.events() if what == "begins")
    assert begun == [str(run.seed) for run in RUNS]
    bench.outside += 1
    bench.account(record_property)


def test_a_clock_that_jumps_does_no_harm(bench, record_property, monkeypatch):
    monkeypatch.setenv("FAULT_CLOCK", "1")
    assert "4 missing" in end_of(bench.driver(RUNS[:4]))
    before = bench.stored()
    made = [read_entry(bench.store.build_path(run))["made"]["at"] for run in RUNS[:4]]
    born = [datetime.fromisoformat(at).timestamp() for at in made]
    assert max(born) - min(born) > 9e8, "it did jump, by decades, in what is stored too"
    assert remove_garbage(bench.store.folder, 0.0, damaged=True) == {}
    assert "0 missing" in end_of(bench.driver(RUNS[:4]))
    assert bench.stored() == before
    bench.outside += 2
    bench.account(record_property)
