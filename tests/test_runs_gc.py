"""`labkit runs gc` removes what killed processes left, and never a record that is whole."""

import os
import time
from pathlib import Path

import pytest
from stored_runs import filled, record, said, variants

from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.queries import garbage
from labkit.experiments.store import Store

HOUR = 3600


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def names(store: Store) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.fixture
def littered(store):
    """Nine runs, one damaged; files being written and foreign."""
    path = store.build_path(variants()[3])
    path.write_text(path.read_text()[:100])
    (store.folder / ".writing-new").write_text("x")
    for name in (".writing-left", "notes.txt", f"{'a' * 25}.json"):
        (store.folder / name).write_text("xx")
    for path in store.folder.iterdir():
        age(path, 0 if path.name == ".writing-new" else 2 * HOUR)
    return store


def test_what_was_left_half_written_goes_and_the_rest_stays(littered, capsys):
    before = names(littered)
    assert said(capsys, "gc", "--dry-run") == "would remove 1 left half written\n"
    assert names(littered) == before
    assert said(capsys, "gc") == "removed 1 left half written\n"
    assert names(littered) == before - {".writing-left"}
    assert said(capsys, "gc") == "removed nothing\n"


def test_damaged_records_go_when_asked_and_what_is_younger_than_an_hour_stays(littered, capsys):
    path = littered.build_path(variants()[3])
    age(path, HOUR / 2)
    assert said(capsys, "gc", "--damaged") == "removed 1 left half written\n"
    age(path, 2 * HOUR)
    assert said(capsys, "gc", "--damaged") == "removed 1 damaged\n"
    rest = [run for i, run in enumerate(variants()) if i != 3]
    assert not path.exists() and all(littered.read_record(run) for run in rest)
    assert "notes.txt" in names(littered)


def test_locks_that_nobody_holds_go_and_those_in_use_stay(store, capsys):
    run, folder = variants()[0], store.folder
    left = [folder / f".{letter * 24}.lock" for letter in "ab"]
    for path in left:
        path.touch()
    before = names(store)
    with lock_runs((run,), store):
        held = folder / f".{run.key()}.lock"
        assert said(capsys, "gc", "--dry-run") == "would remove 2 locks\n"
        assert names(store) == before | {held.name}
        assert said(capsys, "gc") == "removed 2 locks\n"
        assert held.exists() and not any(path.exists() for path in left)
    assert names(store) == before - {path.name for path in left}


def test_a_clock_that_was_set_back_removes_nothing_younger(littered, capsys):
    for path in littered.folder.iterdir():
        age(path, -24 * HOUR)
    assert said(capsys, "gc", "--damaged") == "removed nothing\n"


def test_what_a_sweep_writes_anew_meanwhile_stays(littered, monkeypatch, capsys):
    damaged, read_file = variants()[3], garbage.read_file

    def read_while_others_work(path):
        try:
            return read_file(path)
        finally:
            if path == littered.build_path(damaged):
                littered.write_record(damaged, record())

    monkeypatch.setattr(garbage, "read_file", read_while_others_work)
    assert said(capsys, "gc", "--damaged") == "removed 1 left half written\n"
    assert littered.read_record(damaged) is not None
