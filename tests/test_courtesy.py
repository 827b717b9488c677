"""Shared machines: memory of a GPU is limited, released, and declared.

No GPU is needed: what torch would be asked of one is counted by a stand-in (`Device`), and what
starts worker processes starts none here, but for one test.
"""

import json
import os
import re
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace

import psutil
import pytest
import torch
from stored_runs import TINY, record
from toy_book import REPOSITORY, chapter_text, make_book

from labkit.experiments import Lab, memory
from labkit.experiments.engines import on_ray, processes, serial, task
from labkit.experiments.replicates import groups
from labkit.experiments.store import Store
from labkit.system import share
from press.book import chapters, state
from press.book.declared import list_excesses, sum_costs
from press.book.job import Job
from press.book.percent import cells_of

GIB = 2**30
GPU = "a GPU"
BAD = ["0", "1.01", "half", "nan"]


class Device:
    """Stub for torch.cuda: records its calls and returns preset values."""

    def __init__(self, whole: int = 100 * GIB, free: int = 90 * GIB):
        self.whole, self.left = whole, free
        self.limits: list[float] = []
        self.emptied = 0

    def set_per_process_memory_fraction(self, part: float) -> None:
        self.limits.append(part)

    def mem_get_info(self) -> tuple[int, int]:
        return self.left, self.whole

    def empty_cache(self) -> None:
        self.emptied += 1

    def memory_reserved(self) -> int:
        return 3 * GIB


@pytest.fixture
def device(monkeypatch):
    found = Device()
    monkeypatch.setattr(share, "find_cuda", lambda: found)
    monkeypatch.setattr(torch.cuda, "empty_cache", found.empty_cache)
    monkeypatch.setattr(torch.cuda, "memory_reserved", found.memory_reserved)
    return found


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Work in an empty folder, without the settings of the person who runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in ("GPU_FRACTION", "SLOTS", "ENGINE", "ENGINE_ADDRESS", "ROOT", "POOL", "DEVICE"):
        monkeypatch.delenv(f"LABKIT_{name}", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))


def give(monkeypatch, part: str) -> None:
    monkeypatch.setenv("LABKIT_GPU_FRACTION", part)


# -- the part ---------------------------------------------------------------------------------
def test_without_a_word_nothing_is_limited(device):
    assert share.read_fraction() is None and processes.part_of_gpu(4) is None
    share.limit_memory(share.read_fraction())
    assert device.limits == []


@pytest.mark.parametrize("part", BAD)
def test_a_part_that_is_none_is_refused_with_the_rule(monkeypatch, part):
    give(monkeypatch, part)
    with pytest.raises(ValueError, match="must be above 0 and at most 1; got"):
        share.read_fraction()


def test_where_there_is_no_gpu_nothing_is_asked_of_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    give(monkeypatch, "0.5")
    share.limit_memory(share.read_fraction())
    assert share.find_cuda() is None and share.count_free_bytes() == 0.0


@pytest.mark.parametrize(("part", "left", "free"), [("0.5", 90, 50), ("0.5", 20, 20)])
def test_free_is_what_is_free_and_ours(device, monkeypatch, part, left, free):
    device.left = left * GIB
    assert share.count_free_bytes() == left * GIB
    give(monkeypatch, part)
    assert share.count_free_bytes() == free * GIB


def test_as_many_runs_train_together_as_our_part_holds(device, monkeypatch):
    monkeypatch.setattr(groups, "estimate_need", lambda run: GIB)
    assert groups.count_fitting_runs(TINY, GPU) == 18  # a fifth of 90
    give(monkeypatch, "0.25")
    assert groups.count_fitting_runs(TINY, GPU) == 5
    assert [len(t) for t in groups.group_runs([TINY] * 10, GPU)] == [5, 5]


# -- where labkit first touches a GPU -----------------------------------------------------------
class FakeExecutor:
    """Stand-in for a worker process: keeps its environment, answers at once."""

    made: list["FakeExecutor"] = []  # noqa: RUF012 # emptied by the fixture

    def __init__(self, count, *, env, **words):
        self.environment = env
        self.made.append(self)

    def submit(self, work, *words):
        future = Future()
        future.set_result(([record() for _ in words[0]], {}) if words else 0)
        return future

    def shutdown(self) -> None:
        pass


@pytest.fixture
def workers(monkeypatch):
    monkeypatch.setattr(processes, "ProcessPoolExecutor", FakeExecutor)
    FakeExecutor.made = []
    return FakeExecutor


@pytest.mark.parametrize(("gpus", "each"), [(1, 0.5 / 5), (3, 0.5 / 3), (None, 0.5 / 5)])
def test_workers_and_the_process_over_them_divide_the_part(
    device, workers, monkeypatch, tmp_path, gpus, each
):
    if gpus is None:  # those that were named count as one
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    monkeypatch.setenv("LABKIT_SLOTS", "4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    give(monkeypatch, "0.5")
    engine = processes.Processes(tmp_path, GPU)
    engine.train_tasks([(replace(TINY, seed=seed),) for seed in range(8)])
    engine.close()
    parts = [float(one.environment["LABKIT_GPU_FRACTION"]) for one in workers.made]
    assert set(parts) == set(device.limits) == {each}
    places = [one.environment.get("CUDA_VISIBLE_DEVICES") for one in workers.made]
    busiest = max(map(places.count, places))
    assert (busiest + 1) * each <= 0.5 + 1e-9


def test_without_a_word_and_on_a_cpu_workers_are_told_nothing(
    device, workers, monkeypatch, tmp_path
):
    for where, part in ((GPU, ""), ("cpu", "0.5")):
        give(monkeypatch, part)
        engine = processes.Processes(tmp_path, where)
        engine.train_tasks([(TINY,)])
        engine.close()
    assert device.limits == []
    assert all("LABKIT_GPU_FRACTION" not in one.environment for one in workers.made)


def test_a_worker_takes_what_its_engine_left_to_it(device, monkeypatch):
    monkeypatch.setattr(os, "setsid", lambda: None)
    give(monkeypatch, "0.1")
    processes.initialize_worker(os.getppid(), "cpu")
    assert device.limits == []
    processes.initialize_worker(os.getppid(), GPU)
    assert device.limits == [0.1]


def test_the_serial_engine_has_the_whole_part(device, monkeypatch, tmp_path):
    give(monkeypatch, "0.3")
    serial.Serial(tmp_path, GPU).train_tasks([])
    assert device.limits == [0.3]


def test_a_ray_task_is_limited_to_its_share(device, monkeypatch):
    monkeypatch.setattr(on_ray, "train_in_worker", lambda *given: given)
    assert on_ray.train_on_node(on_ray.OURS, 0.2, "a task") == ("a task",)
    assert device.limits == [0.2]


# -- giving back --------------------------------------------------------------------------------
@pytest.mark.parametrize("fails", [False, True])
def test_after_each_task_a_gpu_gets_its_memory_back(device, monkeypatch, tmp_path, fails):
    def perform(runs, place):
        assert device.emptied == 0
        return [record() for _ in runs] if not fails else 1 / 0

    monkeypatch.setattr(task, "execute_together", perform)
    with pytest.raises(RuntimeError, match="ZeroDivisionError") if fails else nullcontext():
        serial.Serial(tmp_path).train_tasks([(TINY,)])
    assert device.emptied == 1


@pytest.mark.slow
def test_workers_without_work_end(monkeypatch, tmp_path):
    monkeypatch.setenv("LABKIT_SLOTS", "1")
    monkeypatch.setattr(processes, "IDLE", 0.5)
    engine, before = processes.Processes(tmp_path), psutil.Process().children()
    engine.train_tasks([(TINY,)])
    children = [child for child in psutil.Process().children() if child not in before]
    workers = [child for child in children if "popen_loky_posix" in " ".join(child.cmdline())]
    assert psutil.wait_procs(workers, timeout=120)[1] == []
    engine.close()


@pytest.mark.parametrize("cuda", [None, "13.0"])
def test_closing_a_lab_frees_and_says_what_is_left(device, monkeypatch, tmp_path, capsys, cuda):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    facts = {}

    def publish(bundle, kind, **more):
        print(bundle["text/plain"])
        facts.update(more)

    monkeypatch.setattr("labkit.experiments.lab.publish_bundle", publish)
    said = {"kernel": "1G", "run": "300M"}
    lab = Lab("x", size="book", seed=0, memory=said)
    lab.store.write_record(TINY, record(), peak_bytes=200 * 2**20)
    lab.store.write_record(replace(TINY, seed=7), record(), peak_bytes=GIB)
    lab._counted = {TINY.key()}
    lab.close()
    words = capsys.readouterr().out
    assert "in a run 200 MiB of 300 MiB declared" in words and "of 1.0 GiB declared" in words
    assert "3.0 GiB of the GPU" in words and device.emptied == 1
    assert facts["run_bytes"] == 200 * 2**20 and facts["gpu_bytes"] == 0
    assert 50 * 2**20 < facts["kernel_bytes"] < 100 * GIB
    declared = {} if cuda else {"kernel": GIB, "run": 300 * 2**20}
    assert facts["memory"] == declared, "a torch with CUDA's libraries holds more"


# -- declaring ----------------------------------------------------------------------------------
@pytest.mark.parametrize("given", [{"kernel": "1G"}, {"kernel": "1G", "run": "1G", "all": 1}])
def test_a_chapter_declares_both_parts_or_none(given):
    assert memory.read_declared_memory(None) == {}
    with pytest.raises(ValueError, match="memory must name kernel and run, as in"):
        Lab("x", size="book", seed=0, memory=given)


def test_the_largest_run_counts_by_device(tmp_path):
    near, far = Store(tmp_path), Store(tmp_path, GPU)
    runs = [replace(TINY, seed=seed) for seed in range(4)]
    for run, peak, together in zip(runs, (5, 7, 90, 6), (1, 1, 8, 1), strict=True):
        near.write_record(run, record(), peak_bytes=peak, together=together)
    far.write_record(runs[0], record(), peak_bytes=9)
    far.write_record(runs[1], record(), peak_bytes=41, together=4)
    keys = {run.key() for run in runs} | {"gone"}
    assert memory.find_peak_memory(near, keys) == {"run_bytes": 7, "gpu_bytes": 0}
    assert memory.find_peak_memory(far, keys) == {"run_bytes": 0, "gpu_bytes": 11}
    assert memory.find_peak_memory(near, []) == {"run_bytes": 0, "gpu_bytes": 0}


COST = {"cpu_seconds": 9.0, "memory": {"kernel": 100 * 2**20, "run": 8 * 2**20}}


@pytest.mark.parametrize(
    ("kernel", "run", "said"),
    [
        (125, 10, []),
        (126, 11, ["its kernel held 126 MiB", "one of its runs held 11 MiB, but it declares 8"]),
    ],
)
def test_a_quarter_more_than_declared_is_too_much(kernel, run, said):
    found = list_excesses(COST | {"kernel_bytes": kernel * 2**20, "run_bytes": run * 2**20})
    assert len(found) == len(said)
    assert all(part in whole for part, whole in zip(said, found, strict=True))
    assert list_excesses({"cpu_seconds": 9.0, "kernel_bytes": 2**50}) == [], "none is declared"


def test_the_build_reads_the_summary_and_goes_red(tmp_path, capsys):
    last = {"kind": "volatile", "kernel_seconds": 2.5, "run_bytes": 0, "gpu_bytes": 0}
    last |= {"kernel_bytes": 3 * GIB, "memory": {"kernel": GIB, "run": GIB}}
    shown = [
        {"outputs": [{"metadata": {"labkit": about}}]}
        for about in (
            {"kind": "volatile", "cpu_seconds": 3.0, "runs": 4, "stored": 1},
            {"kind": "claim"},
            last,
        )
    ]
    cost = sum_costs({"cells": [*shown, {"cell_type": "markdown"}]})
    assert cost["cpu_seconds"] == 3.0 and cost["kernel_seconds"] == 2.5 and cost["runs"] == 4
    root = make_book(tmp_path / "book", c01_one=chapter_text("01_one"))
    notebook = state.notebook_path(root, "book", "01_one")
    notebook.parent.mkdir(parents=True)
    notebook.write_text("{}")
    state.write_state(
        root, "book", "01_one", {"key": "", "ok": True, "claims": [], "twin": None} | cost
    )
    job = Job(chapters.find_chapters(root)[0], root, "book")
    assert job.finish_chapter() is False
    assert "RED: its kernel held 3072 MiB, but it declares 1024" in capsys.readouterr().out
    there = {"device": "cpu", "cpu": "a quick one", "torch": "0"}
    ledger = root / "data" / "ledger" / "book.json"
    ledger.parent.mkdir(parents=True)
    empty = {"schema": 1, "size": "book", "provenance": there, "claims": {}}
    ledger.write_text(json.dumps(empty))
    assert job.finish_chapter() is True
    assert "note: its kernel held 3072 MiB" in capsys.readouterr().out


@pytest.mark.parametrize(
    "chapter", chapters.find_chapters(REPOSITORY), ids=lambda chapter: chapter.name
)
def test_every_chapter_declares_its_memory_and_gives_it_back(chapter):
    source = chapter.source.read_text(encoding="utf-8")
    cells = cells_of(source)
    found = memory.read_declared_memory(json.loads(re.findall(r"memory=(\{.+?\})", source)[0]))
    assert 2**28 < found["kernel"] < 4 * GIB and 2**28 < found["run"] < 4 * GIB
    assert cells[-1].kind == "code" and cells[-1].source.startswith("lab.close()")
