"""`labkit runs gc` removes what no run asks for again, and never anything else."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from stored_runs import TINY, filled, make_older, make_stale, record, rewrite, said, variants

from labkit.experiments.engines.locks import alone
from labkit.experiments.engines.ray_sign import sees, sign
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
    """Six current runs, two stale, one damaged; files being written and foreign."""
    recipes = variants()
    make_stale(store, recipes[0])
    make_older(store.path(recipes[1]))
    rewrite(store.path(recipes[2]), made={"code": "0" * 16, "torch": "1.0"})
    path = store.path(recipes[3])
    path.write_text(path.read_text()[:100])
    (store.folder / ".writing-new").write_text("x")
    (store.folder / ".writing-left").write_text("xx")
    age(store.folder / ".writing-left", 2 * 3600)
    (store.folder / "notes.txt").write_text("mine")
    age(store.folder / "notes.txt", 400 * DAY)
    return store


def test_gc_removes_what_is_stale_and_leaves_the_rest(littered, capsys):
    before = names(littered)
    gone = said(capsys, "gc", *NOW, "--dry-run")
    assert "would remove 3 files" in gone and names(littered) == before
    size = sum(p.stat().st_size for p in littered.folder.iterdir())
    text = said(capsys, "gc", *NOW)
    assert "removed 3 files" in text and "6 current runs stay" in text
    assert "2 stale (an older schema)" in text
    freed = size - sum(p.stat().st_size for p in littered.folder.iterdir())
    assert f"removed 3 files, {freed:,} bytes" in text
    left = names(littered)
    assert {"notes.txt", ".writing-new"} <= left and ".writing-left" not in left
    assert {littered.path(run).name for run in variants()[2:]} <= left  # the damaged one, too
    assert all(littered.get(run) is not None for run in variants()[4:])
    assert "removed 0 files" in said(capsys, "gc", *NOW)


def test_damaged_entries_go_only_when_asked(littered, capsys):
    assert "1 damaged" in said(capsys, "gc", *NOW, "--damaged")
    assert littered.path(variants()[3]).name not in names(littered)
    assert all(littered.get(run) is not None for run in variants()[4:])


def test_what_is_younger_than_asked_stays(littered, capsys):
    text = said(capsys, "gc", "--older-than", "30d", "--damaged")
    assert "removed 1 files" in text and "1 left half written" in text, "that is debris"
    older = [path for path in littered.folder.iterdir() if path.suffix == ".json"]
    for path in older:
        age(path, 31 * DAY)
    # an entry that says when it was made is as old as it says, whatever the file's date is
    assert "removed 2 files" in said(capsys, "gc", "--older-than", "30d", "--damaged")
    assert "a duration is" in said(capsys, "gc", "--older-than", "a month", status=2)


def test_what_was_just_trained_stays_although_a_later_schema_came_since(store, capsys):
    """A week passes before anything goes that nobody said the age of."""
    runs, now = variants(), datetime.now(UTC)
    kept, gone = (
        make_stale(store, run, at=(now - timedelta(days=days)).isoformat())
        for run, days in zip(runs, (6, 8), strict=False)
    )
    assert "1 stale (an older schema)" in said(capsys, "gc")
    assert kept.exists() and not gone.exists()


def test_locks_that_nobody_holds_go_and_those_in_use_stay(store, capsys):
    run, folder = variants()[0], store.folder
    left = [folder / f".{'a' * 64}.lock", folder / ".ray-abc"]
    for path in left:
        path.touch()
    (folder / ".ray-folder").mkdir()
    before = names(store)
    with alone((run,), store), sign(folder) as ours:
        held = folder / f".{run.key()}.lock"
        assert "2 locks of nobody" in said(capsys, "gc", "--dry-run")
        assert names(store) == before | {held.name, ours.name}
        assert "removed 2 files" in said(capsys, "gc")
        assert held.exists() and ours.exists() and not any(path.exists() for path in left)
        said_there = ours.read_text()
        assert sees(str(ours), said_there) and not sees(str(ours), "another word")
    assert names(store) == before - {path.name for path in left}


def test_a_clock_that_was_set_back_removes_nothing_younger(littered, capsys):
    for path in littered.folder.glob("*.json"):
        age(path, -DAY)
    age(littered.folder / ".writing-left", -DAY)
    assert "removed 1 files" in said(capsys, "gc", "--older-than", "0s", "--damaged")


def test_an_entry_that_a_sweep_writes_anew_meanwhile_stays(littered, monkeypatch, capsys):
    damaged = variants()[3]
    look = garbage.look

    def while_a_sweep_runs(path):
        if path == littered.path(damaged):
            littered.put(damaged, record())
        return look(path)

    monkeypatch.setattr(garbage, "look", while_a_sweep_runs)
    assert "damaged" not in said(capsys, "gc", *NOW, "--damaged")
    assert littered.get(damaged) is not None


def test_a_file_that_vanishes_is_no_fault(littered, monkeypatch, capsys):
    look = garbage.look

    def another_was_quicker(path):
        path.unlink()
        return look(path)

    monkeypatch.setattr(garbage, "look", another_was_quicker)
    assert "removed 0 files" in said(capsys, "gc", *NOW)
    assert littered.get(TINY) is not None
