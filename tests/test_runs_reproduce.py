"""`labkit runs reproduce` trains again and says whether the numbers agree; what a task took."""

import json
from dataclasses import replace

import pytest
import torch
from stored_runs import LANGUAGE, TINY, filled, record, rewrite, said

from labkit.experiments import execute, memory
from labkit.experiments.engines.task import complete
from labkit.experiments.queries.entries import scan
from labkit.experiments.queries.reproduce import differences, reproduce
from labkit.experiments.store import Store, read_entry

SMALL = replace(TINY, probes=("test", "validation"), seed=3)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


@pytest.fixture(scope="module")
def trained():
    """One real training."""
    return execute(SMALL)


def again(store, trained, capsys, *words, status=0, **changes):
    store.put(SMALL, replace(trained, **changes))
    return said(capsys, "reproduce", store.path(SMALL).stem[:12], *words, status=status)


def test_an_honest_record_is_reproduced_bit_for_bit(store, trained, capsys):
    before = store.folder.stat().st_mtime_ns
    torch.set_num_threads(2)
    text = again(store, trained, capsys)
    assert text == "agrees bit for bit: 6 curves and values\n"
    assert torch.get_num_threads() == 2
    assert before  # nothing but the record above was written
    assert len(scan(store.folder).entries) == 10


def test_a_number_that_is_a_little_off_is_within_tolerance(store, trained, capsys):
    losses = [trained.losses[0] * (1 + 1e-5), *trained.losses[1:]]
    text = again(store, trained, capsys, losses=losses)
    assert (
        "losses  1e-05" in text and "agrees within 0.001" in text and "5 of 6 bit for bit" in text
    )
    text = again(store, trained, capsys, "--tolerance", "1e-6", losses=losses, status=1)
    assert "does not agree within 1e-06" in text
    assert "must be 0 or more" in again(store, trained, capsys, "--tolerance", "-1", status=2)


def test_a_wrong_number_is_red(store, trained, capsys):
    probes = {**trained.probes, "test": {**trained.probes["test"], "loss": 1.0}}
    text = again(store, trained, capsys, probes=probes, status=1)
    assert "test.loss" in text and "outside" in text and "does not agree" in text


def test_a_record_of_elsewhere_says_what_is_not_as_it_was(store, trained, capsys):
    where = trained.provenance | {"cpu": "abacus", "torch": "1.0", "device": "Another GPU"}
    store.put(SMALL, replace(trained, provenance=where))
    rewrite(store.path(SMALL), made={"code": "0" * 16, "torch": "1.0", "device": "Another GPU"})
    text = said(capsys, "reproduce", SMALL.key())
    for what in (f"code {'0' * 16}, now ", f"torch 1.0, now {torch.__version__}",
                 "device Another GPU, now cpu", "cpu abacus, now "):  # fmt: skip
        assert f"differs from then: {what}" in text
    assert "agrees bit for bit" in text


def test_a_record_of_the_book_is_compared_as_the_book_keeps_it(store, capsys):
    long = replace(SMALL, train=replace(SMALL.train, steps=450))  # a curve that is thinned
    store.put(long, execute(long))
    store.records.write("03", [store.row(long)])
    store.path(long).unlink()
    assert "agrees bit for bit: 6 curves" in said(capsys, "reproduce", long.key())


def test_a_run_that_this_code_cannot_read_is_red_and_says_the_way_out(store, capsys):
    path = store.path(TINY)
    model = json.loads(path.read_text())["run"]["model"] | {"fairy_dust": 1}
    rewrite(path, run={"model": model})
    text = said(capsys, "reproduce", path.stem, status=1)
    assert "cannot be read by this" in text and "check out commit abc" in text


@pytest.mark.parametrize(
    ("stored", "new", "difference"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.0], [1.0, 2.5], 0.25),
        ([1.0, 2.0], [1.0], float("inf")),
        ([0.0], [0.5], float("inf")),
        ({"a": None}, {"a": None}, 0.0),
        ({"a": None}, {"a": 1.0}, float("inf")),
        ({"a": [1.0, None]}, {"a": [None, 1.0]}, float("inf")),
        ({}, {"a": 1.0}, float("inf")),
        ({"a": "x"}, {"a": "y"}, float("inf")),
        ({"a": {"b": [[2.0, -4.0]]}}, {"a": {"b": [[1.0, -4.0]]}}, 0.25),
    ],
)
def test_differences_are_relative_to_the_largest_number(stored, new, difference):
    there = record()
    old = json.loads(replace(there, probes={"p": stored}).to_json())
    found = differences(old, replace(there, probes={"p": new}))
    assert max(found.values()) == difference


def test_a_run_that_diverges_elsewhere_does_not_agree():
    old = json.loads(record(None).to_json())
    assert differences(old, record(None)) == dict.fromkeys(differences(old, record(None)), 0.0)
    assert differences(old, record(0.5))["diverged_at"] == float("inf")


def test_the_device_of_the_record_is_used_where_it_is_here(store):
    store.put(SMALL, record())
    entry = next(e for e in scan(store.folder).entries if e.key == store.path(SMALL).stem)
    asked = {}

    def train(run, **options):
        asked.update(options, run=run, threads=torch.get_num_threads())
        return record()

    assert reproduce(entry, train=train).agrees
    assert (asked["run"], asked["device"], asked["threads"]) == (SMALL, "cpu", 1)


def test_what_a_task_took_is_in_its_records(tmp_path):
    store = Store(tmp_path)
    assert complete((LANGUAGE,), store) == 1
    made = read_entry(store.path(LANGUAGE))["made"]
    # torch alone takes more than 50 MiB, and no test machine gives a process a TiB
    assert 50 * 2**20 < made["peak_bytes"] < 2**40
    assert 0 < made["seconds"] < 600 and made["at"].endswith("+00:00")
    assert complete((LANGUAGE,), store) == 0


def test_the_peak_is_counted_anew_for_each_task():
    if not memory._CLEAR.exists():
        pytest.skip("only Linux can set a process' peak back")
    with memory.watched() as large:
        torch.ones(2**26).sum()  # 256 MiB, given back at once
    with memory.watched() as small:
        pass
    assert large["peak_bytes"] > small["peak_bytes"] + 200 * 2**20


def test_without_proc_the_peak_is_that_of_the_process(monkeypatch, tmp_path):
    with memory.watched() as exact:
        pass
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "missing" / "clear_refs")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "missing" / "status")
    with memory.watched() as rough:
        pass
    assert rough["peak_bytes"] > 0.9 * exact["peak_bytes"]
