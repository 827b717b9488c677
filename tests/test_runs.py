"""`labkit show KEY` shows a stored run in full; `labkit reproduce` trains it again."""

import mmap
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from stored_runs import LANGUAGE, TINY, filled, rewrite, said

from labkit.experiments import execute_run, memory
from labkit.experiments.engines.serial import Serial
from labkit.experiments.store import Store
from press import cli

SMALL = replace(TINY, probes=("test", "validation"), seed=3)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def show(capsys, key: str) -> dict[str, str]:
    return dict(line.split(None, 1) for line in said(capsys, "show", key).splitlines())


def test_show_says_everything(store, capsys):
    fields = show(capsys, TINY.key()[:10])
    assert fields["key"] == TINY.key() and fields["provenance.commit"] == "abc"
    assert fields["model.width"] == "8" and fields["train.lr"] == "0.01"
    assert fields["losses"] == "[1.0, 0.75, 0.9]" and fields["peak_bytes"] == str(9 * 2**20)
    assert fields["probe.residual-rms"] == "[1.0, 2.0, 4.0]" and fields["probe.test.loss"] == "0.9"
    assert "model.recipe" not in fields and "diverged_at" not in fields
    assert "2 keys begin with '7'" in said(capsys, "show", "7", status=2)


def test_a_damaged_record_is_named(store, capsys):
    path = store.build_path(TINY)
    path.write_text(path.read_text().replace("0.75", "0.74"))
    with pytest.warns(UserWarning, match="is damaged"):
        assert "is damaged" in said(capsys, "show", TINY.key(), status=2)


def test_a_key_that_nothing_has_is_told_without_torch(store):
    program = (
        "import sys; from press import cli\n"
        "status = cli.main(['show', 'eee'])\n"
        "print(status, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2 False\n" and "no run has the key 'eee'" in done.stderr


def test_outside_a_clone_one_sentence_says_where_the_records_are(store, tmp_path, capsys):
    assert "set LABKIT_ROOT to the clone's path" in said(capsys, "show", "eee", status=2)
    assert cli.main(["leaderboard", "pre", "--list"]) == 0
    assert "every run trains here; no records of the book are in" in capsys.readouterr().err
    (tmp_path / "data" / "records").mkdir(parents=True)
    assert "0 keys begin with 'eee'" in said(capsys, "show", "eee", status=2)
    assert cli.main(["leaderboard", "pre", "--list"]) == 0
    assert capsys.readouterr().err == ""


# --- a run trained again, and the peak memory of a task ---


@pytest.fixture(scope="module")
def trained():
    """One real training, on one thread as in the book."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return execute_run(SMALL)
    finally:
        torch.set_num_threads(threads)


def again(store, trained, capsys, status=0, **changes):
    store.write_record(SMALL, replace(trained, **changes))
    return said(capsys, "reproduce", store.build_path(SMALL).stem[:12], status=status)


def test_an_honest_record_is_reproduced_bit_for_bit(store, trained, capsys):
    text = again(store, trained, capsys)
    assert text.endswith("agrees: losses by 0; it may differ by 0\n")
    assert len(list(store.folder.iterdir())) == 10, "nothing is stored"


def test_a_wrong_number_is_red(store, trained, capsys):
    losses = [trained.losses[0] * (1 + 1e-5), *trained.losses[1:]]
    assert "differs: losses by 1" in again(store, trained, capsys, losses=losses, status=1)
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
