"""`labkit runs gc` removes what no run asks for again, and never anything else."""

import os
import time
from pathlib import Path

import pytest
from stored_runs import filled, make_older, record, said, variants

from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.queries import garbage
from labkit.experiments.store import Store

DAY = 86400
NOW = ("--older-than", "0s")


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def names(store: Store) -> set[str]:
    return {path.name for path in store.folder.iterdir()}


def age(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


@pytest.fixture
def littered(store):
    """Six runs, two of an older version, one damaged; files being written and foreign."""
    recipes = variants()
    make_older(store.build_path(recipes[0]))
    make_older(store.build_path(recipes[1]))
    path = store.build_path(recipes[3])
    path.write_text(path.read_text()[:100])
    (store.folder / ".writing-new").write_text("x")
    (store.folder / ".writing-left").write_text("xx")
    age(store.folder / ".writing-left", 2 * 3600)
    (store.folder / "notes.txt").write_text("mine")
    age(store.folder / "notes.txt", 400 * DAY)
    return store


def test_gc_removes_what_is_older_and_leaves_the_rest(littered, capsys):
    before = names(littered)
    gone = said(capsys, "gc", *NOW, "--dry-run")
    assert "would remove 3 files" in gone and names(littered) == before
    size = sum(p.stat().st_size for p in littered.folder.iterdir())
    text = said(capsys, "gc", *NOW)
    assert "removed 3 files" in text and "2 of an older version" in text
    freed = size - sum(p.stat().st_size for p in littered.folder.iterdir())
    assert f"removed 3 files, {freed:,} bytes" in text
    left = names(littered)
    assert {"notes.txt", ".writing-new"} <= left and ".writing-left" not in left
    assert {littered.build_path(run).name for run in variants()[2:]} <= left  # the damaged one, too
    assert all(littered.read_record(run) is not None for run in variants()[4:])
    assert "removed 0 files" in said(capsys, "gc", *NOW)


def test_damaged_entries_go_when_asked_and_what_is_younger_stays(littered, capsys):
    text = said(capsys, "gc", "--older-than", "30d", "--damaged")
    assert "removed 1 files" in text and "1 left half written" in text, "that is debris"
    for path in littered.folder.glob("*.json"):
        age(path, 31 * DAY)
    assert "removed 3 files" in said(capsys, "gc", "--older-than", "30d", "--damaged")
    assert all(littered.read_record(run) is not None for run in variants()[4:])
    assert "a duration is" in said(capsys, "gc", "--older-than", "a month", status=2)


def test_a_week_passes_before_anything_goes_that_nobody_said_the_age_of(store, capsys):
    kept, gone = (
        age(make_older(store.build_path(run)), days * DAY)
        for run, days in zip(variants(), (6, 8), strict=False)
    )
    assert "1 of an older version" in said(capsys, "gc")
    assert kept.exists() and not gone.exists()


def test_locks_that_nobody_holds_go_and_those_in_use_stay(store, capsys):
    run, folder = variants()[0], store.folder
    left = [folder / f".{letter * 64}.lock" for letter in "ab"]
    for path in left:
        path.touch()
    before = names(store)
    with lock_runs((run,), store):
        held = folder / f".{run.key()}.lock"
        assert "2 locks" in said(capsys, "gc", "--dry-run")
        assert names(store) == before | {held.name}
        assert "removed 2 files" in said(capsys, "gc")
        assert held.exists() and not any(path.exists() for path in left)
    assert names(store) == before - {path.name for path in left}


def test_a_clock_that_was_set_back_removes_nothing_younger(littered, capsys):
    for path in littered.folder.glob("*.json"):
        age(path, -DAY)
    age(littered.folder / ".writing-left", -DAY)
    assert "removed 0 files" in said(capsys, "gc", "--older-than", "0s", "--damaged")


def test_what_a_sweep_writes_anew_meanwhile_stays_and_what_vanishes_is_no_fault(
    littered, monkeypatch, capsys
):
    damaged, sort_files = variants()[3], garbage.sort_files

    def while_others_work(folder):
        found = sort_files(folder)
        littered.write_record(damaged, record())
        for path in found[1].keys() - {littered.build_path(damaged)}:
            path.unlink()
        return found

    monkeypatch.setattr(garbage, "sort_files", while_others_work)
    assert "removed 0 files" in said(capsys, "gc", *NOW, "--damaged")
    assert littered.read_record(damaged) is not None
