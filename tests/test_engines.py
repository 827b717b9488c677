"""Engines seen from their parent: limits, locks, turns, and workers that misbehave.

Most workers here do not train (tests/worker_tasks.py).
"""

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch

from labkit import ModelConfig, Record, TrainConfig
from labkit.corpora import Text
from labkit.experiments import Experiment, Run, execute_run, filling, sweep
from labkit.experiments.engines import base, limits, make_engine, processes
from labkit.experiments.engines.locks import lock_runs
from labkit.experiments.engines.processes import Processes
from labkit.experiments.engines.serial import Serial
from labkit.experiments.replay import replay_run
from labkit.experiments.replicates import execute_together
from labkit.experiments.store import CODE, Store
from labkit.system import units
from labkit.system.files import WRITING
from press.book.chapters import find_chapter
from press.book.keys import key_of, parts_of
from tests import worker_tasks
from tests.toy_book import REPOSITORY, chapter_text, make_book, run

BASE = Run(
    ModelConfig(dim=8, depth=1, heads=1, context=8),
    Text(batch=2, time=8),
    TrainConfig(steps=3),
    probes=(),
)
RUNS = [replace(BASE, seed=seed) for seed in range(8)]
TASKS = [(run,) for run in RUNS]


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("ENGINE", "ENGINE_ADDRESS", "RUN_TIMEOUT", "RUN_MEMORY"):
        monkeypatch.delenv(f"LABKIT_{name}", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv("LABKIT_SLOTS", "2")
    return tmp_path


@pytest.fixture
def engine(root):
    made = Processes(root)
    made.timeout = 60.0
    yield made
    made.close()


def failure(engine, tasks=TASKS, **options) -> str:
    with pytest.raises(RuntimeError) as caught:
        engine.train_tasks(tasks, **options)
    return str(caught.value)


# -- workers ------------------------------------------------------------------------------------
def become(monkeypatch, what) -> None:
    monkeypatch.setattr(processes, "train_in_worker", what)


@pytest.mark.slow
def test_workers_share_the_tasks_and_stay_for_the_next_call(engine, monkeypatch, root):
    become(monkeypatch, worker_tasks.note)
    done = []
    engine.train_tasks(TASKS[:6], done=done.append)
    engine.train_tasks([TASKS[6] + TASKS[7]], done=done.append)
    assert done == [1] * 6 + [2]
    assert len(list(root.glob("*.pid"))) == 2, "they start once"
    assert sum(len(p.read_text()) for p in root.glob("*.pid")) == 7


@pytest.mark.slow
def test_a_worker_takes_large_pages_and_stays_although_its_runs_hold_much(
    engine, monkeypatch, root
):
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(engine.pool, "slots", 1)
    become(monkeypatch, worker_tasks.hold_half_a_gigabyte)
    engine.train_tasks(TASKS[:3])
    assert [path.read_text() for path in root.glob("*.pid")] == ["+++"]
    assert (root / "heard").read_text() == "glibc.malloc.hugetlb=1"


@pytest.mark.slow
def test_a_worker_that_dies_once_is_replaced(engine, monkeypatch, caplog):
    become(monkeypatch, worker_tasks.die_once)
    done = []
    engine.train_tasks(TASKS[:3], done=done.append)
    assert done == [1] * 3
    assert caplog.text.count("SIGKILL") == 1 and "trained once more" in caplog.text


@pytest.mark.slow
def test_a_worker_that_stops_is_found_out_by_the_clock(engine, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.5)
    become(monkeypatch, worker_tasks.stop_once)
    engine.timeout = 2.0  # of each run
    done = []
    said = failure(engine, [TASKS[0] + TASKS[1], TASKS[2] + TASKS[3]], done=done.append)
    assert said.startswith("1 of 2 tasks failed") and "must report within 4 s" in said
    assert "and 1 more that train with it" in said
    assert sum(done) == 4


@pytest.mark.slow
def test_a_run_that_hangs_or_leaks_is_ended_and_its_place_goes_on(engine, monkeypatch):
    engine.timeout, engine.memory = 10.0, limits.parse_bytes("700M")
    become(monkeypatch, worker_tasks.hang_or_leak)
    said = failure(engine, TASKS[:2])
    assert said.startswith("2 of 2 tasks failed")
    assert "TimeoutError: a run may take at most 10 seconds" in said
    assert "LABKIT_RUN_TIMEOUT" in said
    peak = re.search(
        r"MemoryError: a run may use at most 700 MiB of memory, so this one was stopped at", said
    )
    assert peak and "LABKIT_RUN_MEMORY" in said and "LABKIT_SLOTS" in said, said
    become(monkeypatch, worker_tasks.answer)
    engine.train_tasks(TASKS[:2])


def test_workers_that_cannot_start_end_the_sweep(engine, monkeypatch):
    monkeypatch.setattr(processes, "initialize_worker", os.abort)
    said = failure(engine)
    assert "2 times, the last time: training needs a worker process, but none started" in said
    assert "more were not begun: no worker starts here" in said


@pytest.mark.slow
def test_an_interrupted_sweep_ends_what_is_in_hand_and_begins_nothing_more(
    engine, monkeypatch, root
):
    become(monkeypatch, worker_tasks.sleep_long)

    def interrupt(count: int) -> None:
        while not (root / "begun").exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.train_tasks(TASKS, done=interrupt)
    assert time.monotonic() - began < 60
    become(monkeypatch, worker_tasks.answer)
    engine.train_tasks(TASKS)  # and it can be used again
    assert all(Store(root).read_record(run) is not None for run in RUNS)


DRIVER = """
from pathlib import Path
from labkit.experiments.engines import processes
from tests import test_engines, worker_tasks
processes.train_in_worker = worker_tasks.sleep_long
processes.Processes(Path.cwd()).train_tasks(test_engines.TASKS)
"""


@pytest.mark.slow
def test_a_sweep_that_is_killed_ends_its_workers_and_goes_on_where_it_was(root):
    with subprocess.Popen([sys.executable, "-c", DRIVER]) as driver:
        while not (root / "begun").exists() or not list(root.glob(".labkit/runs/*.json")):
            assert driver.poll() is None
            time.sleep(0.05)
        family = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
    assert len(family) > 1 and psutil.wait_procs(family, timeout=60)[1] == []
    stamps = {path: path.stat().st_mtime_ns for path in root.glob(".labkit/runs/*.json")}
    engine = Serial(root)
    engine.train_tasks(TASKS)  # what the killed one had in hand is locked by nobody
    assert all(engine.store.read_record(run) is not None for run in RUNS)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


def test_a_run_trains_on_one_thread_wherever_it_trains(monkeypatch, root):
    threads = []

    def note_threads(*task):
        threads.append(torch.get_num_threads())
        return execute_together(*task)

    monkeypatch.setattr("labkit.experiments.engines.task.execute_together", note_threads)
    torch.set_num_threads(2)
    Serial(root).train_tasks(TASKS[:1])
    assert threads == [1] and torch.get_num_threads() == 2


# -- limits, locks, turns -----------------------------------------------------------------------
def test_memory_is_read_as_people_write_it(monkeypatch):
    for text, count in (("4G", 2**32), ("1.5 GiB", 3 * 2**29), ("100", 100)):
        monkeypatch.setenv("LABKIT_RUN_MEMORY", text)
        assert limits.run_memory() == count
        assert limits.parse_bytes(units.in_words(count).replace("bytes", "")) == count
    for text in ("much", "-1G", "0"):
        with pytest.raises(ValueError, match="memory must be a positive number of bytes"):
            limits.parse_bytes(text)


def test_each_worker_has_its_share_of_the_machine(engine):
    assert engine.memory == limits.machine_memory() // 2 > 0
    assert limits.count_resident_bytes() > 2**20


def test_an_engine_takes_its_timeout_from_the_environment(monkeypatch, root):
    assert make_engine(root).timeout == 3600
    monkeypatch.setenv("LABKIT_RUN_TIMEOUT", "90")
    assert make_engine(root).timeout == 90
    for seconds in ("0", "soon", "inf"):
        monkeypatch.setenv("LABKIT_RUN_TIMEOUT", seconds)
        with pytest.raises(
            ValueError, match=r"LABKIT_RUN_TIMEOUT.* must be a positive number of seconds"
        ):
            make_engine(root)


def test_an_engine_is_chosen_by_name(monkeypatch, root):
    assert make_engine(root).name == "processes"
    monkeypatch.setenv("LABKIT_ENGINE", "serial")
    assert make_engine(root).name == "serial"
    with pytest.raises(ValueError, match="unknown engine 'threads'; choose one of processes"):
        make_engine(root, name="threads")
    with pytest.raises(
        ValueError, match="'ray' has an address, but 'serial' was given the address"
    ):
        make_engine(root, address="10.0.0.1:6379")


def test_two_trainers_of_one_run_take_turns_and_leave_no_lock(root):
    store, order = Store(root), []

    def trainer(name: str, runs, seconds: float) -> None:
        with lock_runs(runs, store):
            order.append(f"{name} in")
            time.sleep(seconds)
            order.append(f"{name} out")

    with lock_runs(TASKS[0], store):
        threads = [
            threading.Thread(target=trainer, args=("same", TASKS[0] + TASKS[1], 0)),
            threading.Thread(target=trainer, args=("same", TASKS[1] + TASKS[0], 0)),
            threading.Thread(target=trainer, args=("other", TASKS[2], 0)),
        ]
        for thread in threads:
            thread.start()
        threads[2].join(10)
        assert order == ["other in", "other out"], "another run does not wait"
    for thread in threads:
        thread.join(10)
    assert order[2:] == ["same in", "same out"] * 2
    assert list(store.folder.iterdir()) == []

    # One who waited holds a lock that its last holder removed; a newcomer must not pass by it.
    with lock_runs(TASKS[0], store):
        waiter = threading.Thread(target=trainer, args=("waiter", TASKS[0], 0.5))
        waiter.start()
        time.sleep(0.2)
    while "waiter in" not in order:
        time.sleep(0.01)
    with lock_runs(TASKS[0], store):
        assert order[-1] == "waiter out"
    waiter.join()
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("number", [37, 5])
def test_where_files_cannot_be_locked_runs_train_all_the_same(root, monkeypatch, number):
    def refuse(*words):
        raise OSError(number, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    allowed = nullcontext() if number == 37 else pytest.raises(OSError, match="No locks")
    with allowed, lock_runs(TASKS[0], Store(root)):
        pass


def test_a_task_is_completed_once_and_says_how(root, monkeypatch):
    engine, slots = Serial(root), []

    @contextmanager
    def slot(give_up):
        slots.append("held")
        yield
        slots.append("given back")

    monkeypatch.setattr(engine.pool, "slot", slot)
    for task in (TASKS[0] + TASKS[1], TASKS[1] + TASKS[2], TASKS[2]):
        engine.train_tasks([task])
    assert slots == ["held", "given back"] * 2, "who has nothing to train takes no slot"
    made = [engine.store.find_row(run.key())["provenance"] for run in RUNS[:3]]
    assert [(m["engine"], m["together"]) for m in made] == [
        ("serial", 2), ("serial", 2), ("serial", 1),
    ]  # fmt: skip


class Toy(Serial):
    """An engine that runs a test's function instead of training."""

    def __init__(self, root, *acts):
        super().__init__(root)
        self.acts = list(acts)

    def train_at(self, place, task):
        self.acts.pop(0)()
        return worker_tasks.answer(task)


def lose(why: str, hopeless: str = "") -> None:
    raise base.Lost(why, hopeless)


def test_failures_are_kept_to_the_end_and_a_hopeless_one_stops_the_rest(root):
    engine = Toy(
        root, partial(lose, "because"), time.monotonic, partial(lose, "what\nit said last", "full")
    )
    done = []
    assert failure(engine, TASKS[:5], done=done.append).splitlines() == [
        "2 of 5 tasks failed; the first:",
        str(RUNS[0]),
        "because",
        f"also {RUNS[2]}: it said last",
        "2 more were not begun: full",
    ]
    assert done == [1] * 3 and engine.store.read_record(RUNS[1]) is not None


def fail(error: Exception) -> None:
    raise error


def test_a_sentence_of_labkit_s_own_comes_without_a_traceback(root):
    engine = Toy(root, *[partial(fail, ValueError("dim must be 8, got 7"))] * 2)
    assert failure(engine, TASKS[:2]).splitlines() == [
        "2 of 2 tasks failed; the first:",
        str(RUNS[0]),
        "ValueError: dim must be 8, got 7",
        base.TRACE,
        f"also {RUNS[1]}: ValueError: dim must be 8, got 7",
    ]


@pytest.mark.parametrize("error", [KeyError("dim"), MemoryError()])
def test_any_other_error_comes_with_its_traceback(root, error):
    said = failure(Toy(root, partial(fail, error)), TASKS[:1])
    assert "Traceback (most recent call last)" in said and type(error).__name__ in said


def test_no_task_is_begun_that_would_end_too_late(root):
    engine = Toy(root, *[partial(time.sleep, 0.4)] * 2)
    done = []
    engine.train_tasks(TASKS, done=done.append, until=time.monotonic() + 1)
    assert done == [1] * 2 and engine.acts == []


# -- from runs to records -----------------------------------------------------------------------
def test_a_record_that_is_not_there_in_the_end_is_an_error(root):
    class Idle(Serial):
        def train_tasks(self, tasks, done=lambda runs: None, until=None):
            pass

    engine = Idle(root)
    with pytest.raises(RuntimeError, match="2 of 2 have none"):
        filling.train_and_read(RUNS[:2], engine)


@pytest.mark.parametrize(("where", "call"), [(Path, "open"), (os, "fsync")])
def test_a_full_disk_stops_the_sweep_and_leaves_nothing_half_written(
    root, monkeypatch, where, call
):
    engine, original = Serial(root), getattr(where, call)
    engine.train_tasks(TASKS[:1])
    before = list(engine.store.folder.iterdir())

    def full(*words, **options):
        if where is Path and not words[0].name.startswith(WRITING):
            return original(*words, **options)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(where, call, full)
        said = failure(engine, TASKS[1:4])
    assert said.startswith("1 of 3 tasks failed") and "No space left on device" in said
    assert said.endswith(f"2 more were not begun: {base.FULL}")
    assert list(engine.store.folder.iterdir()) == before


def test_a_sweep_of_an_experiment_gives_its_results_by_label(root):
    experiment = Experiment(RUNS[0], {"train.lr": [1e-3, 3e-3], "seed": [0, 1]})
    results = sweep(experiment, "serial", root=root, progress=False)
    assert [row for row, _ in results] == [
        {"lr": lr, "seed": s} for lr in (1e-3, 3e-3) for s in (0, 1)
    ]
    assert results.rows[3][1].losses == execute_run(experiment.runs()[3][1]).losses
    with pytest.raises(TypeError, match="got a tuple in the list; pass the Experiment itself"):
        sweep(experiment.runs(), "serial", root=root)


def test_a_sweep_trains_each_run_once_and_returns_records_in_order(root, capsys):
    runs = [RUNS[1], RUNS[0], RUNS[1]]
    Store(root).write_record(RUNS[1], Record(losses=[1.0], steps=1))
    records = sweep(runs, "serial", root=root)
    assert [record.losses for record in records][::2] == [[1.0], [1.0]]
    assert records[1] == Store(root).read_record(RUNS[0])
    said = capsys.readouterr().err
    assert said.startswith("1 runs are stored, 1 train\n")
    assert sweep(runs, "serial", root=root) == records and capsys.readouterr().err == ""


def test_a_sweep_replays_what_other_code_trained_and_trains_again_what_differs(root, monkeypatch):
    """One run per configuration is replayed; its result holds for all its seeds."""
    other = [replace(run, train=replace(run.train, lr=0.02)) for run in RUNS[:2]]
    runs, store = [*RUNS[:2], *other], Store(root)
    right = {one.key(): execute_run(one) for one in runs}
    for one in RUNS[:2]:
        store.write_record(one, right[one.key()], code="another")
    for one in other:
        store.write_record(one, replace(right[one.key()], losses=[9.0, 8.0, 7.0]), code="another")
    wrong = replace(RUNS[2], train=replace(RUNS[2].train, lr=0.03))
    store.write_record(wrong, Record(losses=[5.0], steps=1))  # of this very code: nothing to replay
    asked = []
    monkeypatch.setattr(
        filling, "replay_run", lambda one, *words: asked.append(one) or replay_run(one, *words)
    )
    records = sweep([*runs, wrong], "serial", root=root)
    assert [run.hash_configuration() for run in asked] == [
        runs[0].hash_configuration(),
        runs[2].hash_configuration(),
    ]
    assert [record.losses for record in records[:4]] == [right[one.key()].losses for one in runs]
    assert records[4].losses == [5.0]
    made = [store.find_row(one.key())["provenance"]["code"] for one in runs]
    assert made == ["another", "another", CODE, CODE], "what is right stays as it was"


def test_a_root_stays_where_it_was_when_the_engine_was_made(root, monkeypatch):
    (root / "book").mkdir()
    (root / "elsewhere").mkdir()
    engine, store = make_engine(Path("book"), name="serial"), Store(Path("book"))
    monkeypatch.chdir(root / "elsewhere")
    engine.train_tasks(TASKS[:1])
    assert store.read_record(RUNS[0]) is not None and (root / "book" / ".labkit" / "slots").is_dir()
    assert list((root / "elsewhere").iterdir()) == []


# -- the command --------------------------------------------------------------------------------
@pytest.mark.slow
def test_the_engine_of_runs_is_told_to_their_chapters_and_changes_none(root, monkeypatch):
    book = make_book(root / "book", c01_one=chapter_text("01_one"))
    monkeypatch.setenv("LABKIT_ENGINE", "processes")  # so that it is taken back
    monkeypatch.setenv("LABKIT_ENGINE_ADDRESS", "")
    chapter = find_chapter(book, "01")
    before = key_of(parts_of(chapter, book, "book"))
    status, said = run(book, "book", "runs", "--engine", "serial", "--list")
    assert status == 0, said
    assert os.environ["LABKIT_ENGINE"] == "serial"
    assert key_of(parts_of(chapter, book, "book")) == before
    status, said = run(book, "book", "runs", "--engine", "threads")
    assert status == 2 and "choose one of processes, ray, serial" in said
    status, said = run(book, "book", "runs", "--engine", "serial", "--address", "here:1")
    assert status == 2 and "leave it out, or choose the engine 'ray'" in said
