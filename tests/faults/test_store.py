"""A full disk, and files in the store that are damaged, doubled or somebody else's."""

import json
import os
import shutil
from pathlib import Path

import pytest

from labkit.experiments.engines import make_engine
from labkit.experiments.filling import read_records, train_and_read
from tests.faults.bench import RUNS

pytestmark = pytest.mark.slow


@pytest.fixture
def engine(bench):
    engine = make_engine(bench.root)
    yield engine
    engine.close()


def test_a_full_disk_stops_the_sweep_and_leaves_nothing_half_written(
    bench, engine, record_property
):
    full = Path(f"{bench.log}.full")
    train_and_read(RUNS[:1], bench.store, engine)
    before = bench.stored()
    for where in ("open", "write", "sync"):
        full.write_text(where)
        with pytest.raises(RuntimeError, match=r"the disk is full; free some space") as caught:
            train_and_read(RUNS[1:], bench.store, engine)
        assert "No space left on device" in str(caught.value)
        assert "more were not begun" in str(caught.value), "it trains nothing that it cannot keep"
        assert bench.stored() == before
        assert [p.name for p in bench.store.folder.iterdir()] == [
            bench.store.build_path(RUNS[0]).name
        ], "nothing half-written, no lock left"
    full.unlink()
    train_and_read(RUNS[1:], bench.store, engine)
    assert before.items() <= bench.stored().items() and len(bench.stored()) == len(RUNS)
    bench.account(record_property)


def test_damaged_doubled_and_foreign_files_are_said_and_never_taken_for_records(
    bench, engine, record_property
):
    train_and_read(RUNS, bench.store, engine)
    path = [bench.store.build_path(run) for run in RUNS]
    text = [p.read_text() for p in path]
    entry = json.loads(text[3])
    del entry["record"]
    shutil.copy(path[0], path[1])
    for seed, damage in {
        2: text[2][: len(text[2]) // 2],
        3: json.dumps(entry),
        4: text[4].replace('"losses": [', '"losses": [0.5, '),
        5: "[" * 100_000,
        6: "\0" * len(text[6]),
    }.items():
        path[seed].write_text(damage)
    folder = bench.store.folder
    (folder / "notes.txt").write_text("somebody's")
    (folder / "0123.json").write_text("[]")
    (folder / f"{path[0].stem} (copy).json").write_text(text[0])
    (folder / "folder.json").mkdir()
    for seed in (1, 2, 3, 4, 5, 6):
        bench.damaged(seed)
    bench.outside += 4

    kept = {seed: bench.stored()[seed] for seed in (0, 7)}
    with pytest.warns(UserWarning, match="is damaged") as warned:
        found, missing = read_records(RUNS, bench.store)
    assert {run.seed for run in missing} == {1, 2, 3, 4, 5, 6} and len(found) == 2
    assert len(warned) == 6 and all("its run trains again" in str(w.message) for w in warned)
    with pytest.warns(UserWarning, match="is damaged"):
        train_and_read(missing, bench.store, engine)
    assert kept.items() <= bench.stored().items()
    assert (folder / "notes.txt").read_text() == "somebody's"
    bench.account(record_property)


def test_what_a_writer_that_died_left_is_in_nobody_s_way(bench, engine, record_property):
    folder = bench.store.folder
    folder.mkdir(parents=True)
    key = RUNS[0].key()
    (folder / ".writing-abc").write_text('{"checksum": "')
    (folder / f".{key}.lock").touch()
    bench.outside += 2
    train_and_read(RUNS[:1], bench.store, engine)
    future = 4e9  # seconds since 1970: the year 2096
    os.utime(bench.store.build_path(RUNS[0]), (future, future))
    bench.outside += 1
    assert read_records(RUNS[:1], bench.store)[1] == [], "a file's time means nothing"
    bench.account(record_property)
