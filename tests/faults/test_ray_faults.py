"""A Ray worker, a whole node, the driver: killed in the middle of a sweep, and then gone on."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch

from labkit import TrainConfig
from labkit.corpora import Digits
from labkit.experiments import Run
from labkit.experiments.engines import make_engine
from labkit.experiments.store import Store
from labkit.vision import MLPConfig
from tests.ray_cluster import PATIENCE, cluster

pytestmark = pytest.mark.slow
# Half a second or more each: time enough to be hit.
BASE = Run(MLPConfig(width=8, depth=1), Digits(batch=16), TrainConfig(steps=300, lr=0.01))
RUNS = [replace(BASE, seed=seed) for seed in range(8)]
ENDLESS = replace(BASE, train=TrainConfig(steps=10**7))
DRIVER = """
import json, sys
from labkit.experiments import Run
from labkit.experiments.engines import make_engine
runs = [Run.from_dict(run) for run in json.loads(sys.argv[2])]
engine = make_engine(sys.argv[1], name="ray", address=sys.argv[3] or None)
try:
    engine.train([(run,) for run in runs])
except RuntimeError as error:
    sys.exit(f"RuntimeError: {error}")
finally:
    engine.close()
"""


@contextlib.contextmanager
def driver(root: Path, address: str, runs: list[Run] = RUNS) -> "Iterator[subprocess.Popen[str]]":
    """Start a process that trains what a store lacks, and end what is left of it."""
    words = json.dumps([run.to_dict() for run in runs])
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, root, words, address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def stored(root: Path) -> dict[int, int]:
    """List the seeds of the finished runs, with the times of their files."""
    paths = {run.seed: Store(root).path(run) for run in RUNS}
    return {seed: p.stat().st_mtime_ns for seed, p in paths.items() if p.is_file()}


def wait_for(what, process: "subprocess.Popen[str]"):
    """Wait until something is there, and return it."""
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return found


def training(family: list[psutil.Process]) -> list[psutil.Process]:
    """Find the worker processes that have a task in hand."""
    found = []
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += [process] if (process.cmdline() or [""])[0].startswith("ray::work") else []
    return found


@pytest.fixture(scope="module")
def truth(tmp_path_factory) -> dict[int, list[float]]:
    """Train every run here, one after another."""
    torch.set_num_threads(1)  # as a worker does
    root = tmp_path_factory.mktemp("serial")
    engine = make_engine(root, name="serial")
    engine.train([(run,) for run in RUNS])
    return losses(root)


def losses(root: Path) -> dict[int, list[float]]:
    records = {run.seed: Store(root).get(run) for run in RUNS}
    return {seed: record.losses for seed, record in records.items() if record is not None}


def account(record_property, root: Path, truth, before: dict[int, int], faults: int = 1) -> None:
    """Hold what is stored now against what was stored before, and against the truth."""
    now, found = stored(root), losses(root)
    lost = len(before.keys() - now.keys())
    repeated = sum(now[seed] != stamp for seed, stamp in before.items() if seed in now)
    wrong = sum(found[seed] != truth[seed] for seed in found)
    record_property("faults", (faults, lost, repeated, wrong))
    assert (lost, repeated, wrong) == (0, 0, 0)
    assert found == truth, "everything is there"


@pytest.fixture(scope="module")
def two_nodes(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def family_of(nodes) -> list[psutil.Process]:
    return [process for node in nodes for process in node.family()]


def test_a_killed_worker_costs_its_run_a_second_start(tmp_path, two_nodes, truth, record_property):
    with driver(tmp_path, two_nodes.address) as process:
        wait_for(lambda: stored(tmp_path), process)
        victim = wait_for(lambda: training(family_of(two_nodes.nodes)), process)[0]
        before = stored(tmp_path)
        victim.kill()
        said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    account(record_property, tmp_path, truth, before)


def test_a_run_whose_worker_always_dies_is_reported(tmp_path, two_nodes, record_property):
    with driver(tmp_path, two_nodes.address, [ENDLESS]) as process:
        for _ in range(3):
            victim = wait_for(lambda: training(family_of(two_nodes.nodes)), process)[0]
            victim.kill()
            victim.wait(PATIENCE)
        said = process.communicate(timeout=PATIENCE)[0]
    assert "1 of 1 tasks failed" in said and "its worker died 3 times" in said
    record_property("faults", (3, 0, 0, 0))


@pytest.mark.parametrize("where", ["local", "cluster"])
def test_a_killed_driver_leaves_what_finished_and_no_process(
    tmp_path, two_nodes, truth, record_property, where
):
    address = two_nodes.address if where == "cluster" else ""
    with driver(tmp_path, address) as process:
        wait_for(lambda: stored(tmp_path), process)
        ours = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(ours, timeout=PATIENCE)
    assert alive == [], "a Ray of one's own ends with its driver"
    end = time.monotonic() + PATIENCE
    while training(family_of(two_nodes.nodes)) and time.monotonic() < end:
        time.sleep(0.1)  # a cluster ends the tasks of a driver that is gone
    before = stored(tmp_path)
    assert before and len(before) < len(RUNS)
    with driver(tmp_path, two_nodes.address) as process:
        said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    account(record_property, tmp_path, truth, before)


def test_a_killed_node_loses_nothing_that_finished(tmp_path, two_nodes, truth, record_property):
    with driver(tmp_path, two_nodes.address) as process:
        wait_for(lambda: stored(tmp_path), process)
        second = two_nodes.nodes[1]
        wait_for(lambda: training(second.family()), process)
        before = stored(tmp_path)
        second.kill()
        said = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 0, said
    account(record_property, tmp_path, truth, before)
