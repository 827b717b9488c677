"""`labkit reproduce` trains again and compares; the peak memory of a task is recorded."""

import mmap
from dataclasses import replace

import pytest
import torch
from stored_runs import LANGUAGE, TINY, filled, rewrite, said

from labkit.experiments import execute_run, memory
from labkit.experiments.engines.serial import Serial
from labkit.experiments.store import Store

SMALL = replace(TINY, probes=("test", "validation"), seed=3)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


@pytest.fixture(scope="module")
def trained():
    """One real training, on one thread as in the book."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return execute_run(SMALL)
    finally:
        torch.set_num_threads(threads)


def again(store, trained, capsys, *words, status=0, **changes):
    store.write_record(SMALL, replace(trained, **changes))
    return said(capsys, "reproduce", store.build_path(SMALL).stem[:12], *words, status=status)


def test_an_honest_record_is_reproduced_bit_for_bit(store, trained, capsys):
    text = again(store, trained, capsys)
    assert text.endswith("agrees: losses by 0; it may differ by 0\n")
    assert len(list(store.folder.iterdir())) == 10, "nothing is stored"


def test_a_wrong_number_is_red(store, trained, capsys):
    losses = [trained.losses[0] * (1 + 1e-5), *trained.losses[1:]]
    assert "differs: losses by 1" in again(store, trained, capsys, losses=losses, status=1)
    assert "may differ by 0.001" in again(
        store, trained, capsys, "--tolerance", "1e-3", losses=losses
    )
    assert "than or equal to 0, got '-1'" in again(
        store, trained, capsys, "--tolerance", "-1", status=2
    )
    probes = {**trained.probes, "test": {**trained.probes["test"], "loss": 1.0}}
    assert "differs: test by" in again(store, trained, capsys, probes=probes, status=1)


def test_a_record_of_elsewhere_says_what_is_not_as_it_was(store, trained, capsys):
    where = trained.provenance | {"cpu": "abacus", "torch": "1.0"}
    text = again(store, trained, capsys, provenance=where)
    for what in (f"torch 1.0, now {torch.__version__}", "cpu abacus, now "):
        assert f"differs from then: {what}" in text
    assert "agrees: losses by 0" in text
    text = again(store, trained, capsys, provenance=where | {"device": "A GPU"}, status=2)
    assert "needs the device 'A GPU'" in text


def test_a_record_of_the_book_is_compared_as_the_book_keeps_it(store, capsys):
    long = replace(SMALL, train=replace(SMALL.train, steps=450))  # a curve that is thinned
    store.write_record(long, execute_run(long))
    store.records.write_rows("03", [store.find_row(long.key())])
    store.build_path(long).unlink()
    assert "agrees: losses by 0" in said(capsys, "reproduce", long.key())


def test_a_run_that_this_code_cannot_read_says_the_way_out(store, capsys):
    path = store.build_path(TINY)
    model = TINY.to_dict()["model"] | {"fairy_dust": 1}
    rewrite(path, run=TINY.to_dict() | {"model": model})
    text = said(capsys, "reproduce", path.stem, status=2)
    assert "cannot read it" in text and "check out the commit" in text


def test_the_most_memory_that_a_task_held_is_in_its_records(tmp_path):
    Serial(tmp_path).train_tasks([(LANGUAGE,)])
    row = Store(tmp_path).find_row(LANGUAGE.key())
    assert row is not None and row["at"].endswith("+00:00")
    # torch alone takes more than 50 MiB, and no test machine gives a process a TiB
    assert 50 * 2**20 < row["peak_bytes"] < 2**40


def test_the_peak_is_counted_anew_for_each_task():
    if not memory._CLEAR.exists():
        pytest.skip("only Linux can set a process' peak back")
    # Pages of their own: malloc may serve 256 MiB from what this process freed long ago.
    with memory.measure_peak() as large, mmap.mmap(-1, 2**28) as block:
        block[:: mmap.PAGESIZE] = bytes(2**28 // mmap.PAGESIZE)
    with memory.measure_peak() as small:
        pass
    assert large["peak_bytes"] > small["peak_bytes"] + 200 * 2**20


def test_without_proc_the_peak_is_that_of_the_process(monkeypatch, tmp_path):
    with memory.measure_peak() as exact:
        pass
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "missing" / "clear_refs")
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "missing" / "status")
    with memory.measure_peak() as rough:
        pass
    assert rough["peak_bytes"] > 0.9 * exact["peak_bytes"]
