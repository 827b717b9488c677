"""Workers that are killed, end, hang, stop, leak or talk nonsense in the middle of a run."""

import pytest

from tests.faults.bench import RUNS

pytestmark = pytest.mark.slow


def test_a_worker_that_dies_is_replaced_and_one_that_always_dies_is_reported(
    bench, record_property, caplog
):
    bench.faults(s0=("noise", 1), s1=("kill", 1), s2=("exit", 1), s3=("kill", 9))
    said = bench.train(RUNS[:6])
    assert said.startswith("1 of 6 tasks failed")
    assert "seed=3" in said and "2 times" in said and "SIGKILL" in said
    assert "the same command goes on" in said
    assert "EXIT(3)" in caplog.text and "is trained once more" in caplog.text
    before = bench.stored()
    assert set(before) == {0, 1, 2, 4, 5}
    assert [e for e in bench.events() if e[0] == "fault"].count(("fault", "3")) == 2

    bench.faults()
    assert bench.train(RUNS[:6]) == ""
    assert before.items() <= bench.stored().items(), "what was there was not touched"
    assert 3 in bench.stored()
    bench.account(record_property)


def test_a_run_that_hangs_stops_or_leaks_is_ended_and_the_others_finish(
    bench, record_property, monkeypatch
):
    monkeypatch.setenv("LABKIT_RUN_MEMORY", "700M")
    bench.faults(s0=("leak", 9), s1=("hang", 9), s2=("stop", 9))
    said = bench.train(RUNS[:5], timeout=12)
    assert said.startswith("3 of 5 tasks failed")
    for seed, word in ((0, "LABKIT_RUN_MEMORY"), (1, "LABKIT_RUN_TIMEOUT"), (2, "the worker hung")):
        assert any(f"seed={seed}" in line for line in said.splitlines())
        assert word in said
    assert "700 MiB" in said, "the message names the cap"
    before = bench.stored()
    assert set(before) == {3, 4}
    assert sum(what == "fault" for what, _ in bench.events()) == 3, "none of these is tried twice"

    bench.faults()
    assert bench.train(RUNS[:5]) == ""
    assert before.items() <= bench.stored().items() and len(bench.stored()) == 5
    bench.account(record_property)
