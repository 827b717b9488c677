"""`labkit show KEY`: a stored run in full, whichever file has it."""

import subprocess
import sys

import pytest
from stored_runs import TINY, filled, record, said, variants

from press import cli


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


def test_a_run_is_the_newer_of_the_store_s_and_the_book_s(store, capsys):
    recorded, newer = variants()[:2]
    store.records.write_rows("07", [store.find_row(run.key()) for run in (recorded, newer)])
    store.build_path(recorded).unlink()
    store.write_record(newer, record(0.7), at="2999-01-01T00:00:00+00:00")
    assert show(capsys, recorded.key())["probe.test.loss"] == "0.1"
    assert show(capsys, newer.key())["probe.test.loss"] == "0.7"


def test_a_key_that_nothing_has_is_told_without_torch(store):
    program = (
        "import sys; from press import cli\n"
        "status = cli.main(['show', 'eee'])\n"
        "print(status, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2 False\n" and "'eee' is the key of no run here" in done.stderr


def test_outside_a_clone_one_sentence_says_where_the_records_are(store, tmp_path, capsys):
    assert "set LABKIT_ROOT to the clone's path" in said(capsys, "show", "eee", status=2)
    assert cli.main(["leaderboard", "pre", "--list"]) == 0
    assert "every run trains here; no records of the book are in" in capsys.readouterr().err
    (tmp_path / "data" / "records").mkdir(parents=True)
    assert "0 keys begin with 'eee'" in said(capsys, "show", "eee", status=2)
    assert cli.main(["leaderboard", "pre", "--list"]) == 0
    assert capsys.readouterr().err == ""
