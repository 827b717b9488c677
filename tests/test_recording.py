"""Moving trained runs into the book's records: only requested runs, once, and complete."""

import contextlib
import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stored_runs import record, variants
from toy_book import REPOSITORY, chapter_text, make_book

from labkit.experiments import Run
from labkit.experiments.records import to_row
from labkit.experiments.store import Store
from press import cli
from press.book import asked, chapters, recording, replays
from press.book.runs import mark_stale

LATE = "2999-01-01T00:00:00+00:00"


@pytest.fixture
def book(tmp_path):
    """A book of two chapters; the first asks for all but two of the stored runs."""
    root = make_book(tmp_path, c01_one=chapter_text("01_one"), c02_two=chapter_text("02_two"))
    store, runs = Store(root), variants()
    for i, run in enumerate(runs):
        store.write_record(run, record(0.1 * (i + 1)))
    declare(root, "01_one", runs[:6])
    declare(root, "02_two", runs[4:7])
    return root


def declare(root: Path, name: str, runs: list[Run]) -> None:
    path = asked.path_of(root, "book", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"key": run.key(), "run": run.to_dict(), "own": {}} for run in runs]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    asked.mark_whole(root, "book", name)


@pytest.mark.slow
def test_what_was_asked_for_is_recorded_once_and_the_rest_stays_in_the_store(book):
    store, runs = Store(book), variants()

    def read() -> dict[str, list[np.float32]]:
        return {run.key(): [np.float32(x) for x in store.read_record(run).losses] for run in runs}

    before = read()
    done = recording.update_records(book, chapters.find_chapters(book), "book")
    assert [(one.name, one.runs, one.new) for one in done] == [("01", 6, 6), ("02", 1, 1)]
    left = {path.stem for path in store.folder.glob("*.json")}
    assert left == {run.key() for run in runs[7:]}, "a run that nobody declared stays"
    assert read() == before
    content = store.records.build_path("01").read_bytes()
    assert [
        one.new for one in recording.update_records(book, chapters.find_chapters(book), "book")
    ] == [0, 0]
    assert store.records.build_path("01").read_bytes() == content
    early = "2001-01-01T00:00:00+00:00"
    store.records.write_rows("01", [to_row(run, record(), early) for run in runs[:6]])
    store.write_record(runs[0], record(9.0))  # trained again, and the sixth is asked for no more
    declare(book, "01_one", runs[:5])
    (one, _) = recording.update_records(book, chapters.find_chapters(book), "book")
    assert (one.runs, one.new, one.dropped) == (6, 1, 0), "the second chapter still asks for it"
    assert read()[runs[0].key()][-1] == 9.0 and not store.build_path(runs[0]).exists()
    declare(book, "02_two", runs[6:7])
    (one, two) = recording.update_records(book, chapters.find_chapters(book), "book")
    assert (one.runs, one.dropped, two.runs, two.dropped) == (5, 1, 1, 0)
    assert store.read_record(runs[5]) is None
    declare(book, "02_two", [])
    (_, two) = recording.update_records(book, chapters.find_chapters(book), "book")
    assert (two.runs, two.dropped) == (0, 1) and not store.records.build_path("02").exists()


def test_nothing_is_left_out_for_a_chapter_that_changed_since_it_was_asked(book):
    recording.update_records(book, chapters.find_chapters(book), "book")
    declare(book, "01_one", variants()[:2])
    changed = book / "chapters" / "01_one.py"
    changed.write_text(changed.read_text() + "\n# %%\nx = 1\n")
    (one, _) = recording.update_records(book, chapters.find_chapters(book), "book")
    assert (one.runs, one.dropped) == (6, 0)
    declare(book, "01_one", variants()[:2])
    (one, _) = recording.update_records(book, chapters.find_chapters(book), "book")
    assert (one.runs, one.dropped) == (4, 2), "the other chapter asks for two of them"


def test_nothing_is_left_out_while_a_chapter_has_not_been_asked(book):
    store, (one, *_) = Store(book), chapters.find_chapters(book)
    recording.update_records(book, chapters.find_chapters(book), "book")
    asked.path_of(book, "book", "02_two").with_suffix(".whole").unlink()
    declare(book, "01_one", variants()[:2])
    (done,) = recording.update_records(book, [one], "book")
    assert (done.runs, done.dropped) == (6, 0) and len(store.records.load_rows("02")) == 1


def test_a_run_that_climbs_the_ladder_moves_into_its_file(book, monkeypatch):
    store, runs = Store(book), variants()
    recording.update_records(book, chapters.find_chapters(book), "book")
    before = store.read_record(runs[0])
    monkeypatch.setattr(recording, "ladder_keys", lambda store: {runs[0].key()})
    recording.update_records(book, chapters.find_chapters(book), "book")
    assert list(store.records.load_rows("ladder")) == [runs[0].key()]
    assert (
        runs[0].key() not in store.records.load_rows("01") and store.read_record(runs[0]) == before
    )


def test_a_full_disk_is_said_in_a_line_and_leaves_every_file_as_it_was(book, monkeypatch, capsys):
    store, runs = Store(book), variants()
    recording.update_records(book, chapters.find_chapters(book), "book")
    store.write_record(runs[0], record(9.0), at=LATE)
    files = {path: path.read_bytes() for path in book.rglob("*") if path.is_file()}

    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.chdir(book)
    assert cli.main(["book", "record"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "No space left on device" in said and "01.jsonl" in said
    assert files == {path: path.read_bytes() for path in book.rglob("*") if path.is_file()}


class Killed(BaseException):
    """The process is gone: nothing that it would write or remove after this happens."""


def kill_at(moment: int, book: Path, monkeypatch) -> bool:
    """Record until a number of writes, renames and removals; return whether it was killed."""
    steps = itertools.count()

    def step_or_die(step):
        def take(*args, **options):
            if next(steps) >= moment:
                raise Killed
            return step(*args, **options)

        return take

    with monkeypatch.context() as patch, contextlib.suppress(Killed):
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
            patch.setattr(owner, name, step_or_die(getattr(owner, name)))
        recording.update_records(book, chapters.find_chapters(book), "book")
        return False
    return True


def test_who_is_killed_at_any_step_of_recording_loses_nothing_and_goes_on(
    book, tmp_path_factory, monkeypatch
):
    monkeypatch.setattr(recording, "ladder_keys", lambda store: {variants()[0].key()})
    whole = shutil.copytree(book, tmp_path_factory.mktemp("whole") / "book")
    recording.update_records(whole, chapters.find_chapters(whole), "book")

    def read_files(root: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in Store(root).records.folder.iterdir()}

    for moment in itertools.count():
        here = shutil.copytree(book, tmp_path_factory.mktemp("killed") / "book")
        if not kill_at(moment, here, monkeypatch):
            break
        assert all(Store(here).read_record(run) is not None for run in variants()), moment
        recording.update_records(here, chapters.find_chapters(here), "book")
        assert read_files(here) == read_files(whole), moment
        assert len([*Store(here).folder.glob("*.json")]) == 2, moment
    assert moment == 3 * 2 + 7, "three files, each flushed and renamed, and seven runs moved"


@pytest.mark.slow
def test_two_who_record_at_once_both_end_right(book):
    store, runs = Store(book), variants()
    program = (
        "import sys; from pathlib import Path; from press.book import chapters, recording\n"
        "root = Path(); chosen = chapters.find_chapters(root)\n"
        "print(*recording.update_records(root, chosen, 'book'))"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    words = [sys.executable, "-c", program]
    both = [subprocess.Popen(words, cwd=book, env=environment) for _ in range(2)]
    assert [process.wait(300) for process in both] == [0, 0]
    found = {name: set(store.records.load_rows(name)) for name in store.records.list_names()}
    assert found == {"01": {r.key() for r in runs[:6]}, "02": {runs[6].key()}}
    assert all(store.read_record(run) is not None for run in runs)
    assert [p.name for p in store.records.folder.glob(".*")] == []


def test_what_a_replay_refuted_is_trained_again_once(book):
    store, (run, other, *_) = Store(book), variants()
    replays.keep_notes(book, "book", {run.key(): ("a hash", "it differs")})
    mark_stale(book, "book", store)
    assert store.read_fresh(run) is None is not store.read_fresh(other)
    assert store.read_record(run) is not None, "a chapter reads it until then"
    store.write_record(run, record(), at=LATE)
    mark_stale(book, "book", store)
    assert store.read_fresh(run) is not None, "the replay knew an older record"
    recording.update_records(book, chapters.find_chapters(book), "book")
    mark_stale(book, "book", store)
    assert store.read_fresh(run) is not None
