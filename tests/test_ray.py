"""The Ray engine: the same runs and records as without it, on one machine and on a cluster."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from labkit import Record, TrainConfig
from labkit.corpora import Digits
from labkit.experiments import Run, execute_run
from labkit.experiments.engines import make_engine, on_ray
from labkit.experiments.engines.base import Lost
from labkit.experiments.engines.on_ray import OnRay
from labkit.experiments.records import from_row
from labkit.experiments.store import Store
from labkit.model.vision import MLPConfig
from tests.ray_cluster import Cluster, cluster

TINY = Run(MLPConfig(width=8, depth=1), Digits(batch=16), TrainConfig(steps=3, lr=0.01))
RUNS = [replace(TINY, seed=seed) for seed in range(6)]
ENDLESS = replace(TINY, train=TrainConfig(steps=10**7))
HERE = Path(__file__).resolve().parents[1]
# Ray leaves its processes' handles to the garbage collector.
QUIET = pytest.mark.filterwarnings(
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore:unclosed file <_io:ResourceWarning",
)


def same(store: Store, run: Run) -> bool:
    """Return whether a stored record equals the result of training here, bit for bit."""
    record = store.read_record(run)
    return record is not None and record.losses == execute_run(run).losses


# --- without Ray ---


@pytest.mark.slow
def test_labkit_knows_the_engine_and_imports_no_ray_for_it():
    program = (
        "import sys, labkit.experiments.engines.on_ray\n"
        "assert not {name for name in sys.modules if name.split('.')[0] == 'ray'}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_ray_one_error_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'norm-lab-book\[ray\]'.*make setup"):
        make_engine(tmp_path, name="ray")


def test_a_task_needs_a_core_and_on_a_gpu_a_share_of_it(monkeypatch, tmp_path):
    monkeypatch.setattr(on_ray, "import_ray", lambda: None)
    assert OnRay(tmp_path, address="auto").needs == {"CPU": 1}
    assert OnRay(tmp_path, "NVIDIA H200", "auto").needs == {"CPU": 1, "GPU": 0.25}
    monkeypatch.setenv("LABKIT_GPU_FRACTION", "0.5")
    monkeypatch.setenv("LABKIT_RUN_MEMORY", "2G")
    asked = OnRay(tmp_path, "NVIDIA H200", "auto").needs
    assert asked == {"CPU": 1, "GPU": 0.5, "memory": 2 * 2**30}
    node = {"CPU": 8, "GPU": 2, "memory": 7 * 2**30}
    assert on_ray.count_fitting_tasks([node, {"CPU": 8}, node], asked) == 6
    with pytest.raises(
        RuntimeError, match=r"'memory': 2147483648\} on one node.*\[\{'CPU': 8, 'GPU': 0,"
    ):
        on_ray.count_fitting_tasks([{"CPU": 8}], asked)


def test_what_is_sent_is_the_package_and_never_the_folder_around_it():
    assert (
        Path(on_ray.list_packages()[0]).name == "labkit" and str(HERE) not in on_ray.list_packages()
    )


def test_other_code_on_a_node_is_refused():
    with pytest.raises(Lost, match=r"must run labkit 1, torch 0, but .* has labkit") as refused:
        on_ray.train_on_node("labkit 1, torch 0", None)
    assert refused.value.hopeless


# --- on a cluster of two nodes ---


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory):
    """Start two Ray nodes on this machine, once for all tests that need them."""
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture
def no_ray():
    """Disconnect from Ray, whatever the last test did."""
    import ray

    ray.shutdown()


@pytest.fixture(scope="module")
def joined(ray_cluster: Cluster, tmp_path_factory):
    """Join the cluster once, because its workers keep imported modules."""
    engine = make_engine(tmp_path_factory.mktemp("book"), name="ray", address=ray_cluster.address)
    yield engine
    engine.close()


@pytest.fixture
def engine(joined, tmp_path):
    """Point the shared engine to the test's own store."""
    joined.store, joined.timeout = Store(tmp_path), 3600.0
    return joined


@QUIET
@pytest.mark.slow
def test_ray_trains_as_this_process_does(engine):
    told = []
    engine.train_tasks([(run,) for run in RUNS[:4]] + [tuple(RUNS[4:])], done=told.append)
    assert all(same(engine.store, run) for run in RUNS[:4])
    together = [engine.store.read_record(run) for run in RUNS[4:]]
    assert [record.provenance["together"] for record in together] == [2, 2]
    for run, record in zip(RUNS[4:], together, strict=True):
        assert record.losses == pytest.approx(execute_run(run).losses, rel=1e-5)
    assert sorted(told) == [1, 1, 1, 1, 2]
    assert engine.slots == 2
    names = {path.name for path in engine.store.folder.iterdir()}
    assert names == {f"{run.key()}.json" for run in RUNS}, "nothing else is left behind"


@QUIET
@pytest.mark.slow
def test_a_task_that_fails_or_hangs_is_reported_and_the_others_finish(engine):
    bad, told = replace(TINY, probes=("residual-rms",)), []
    engine.timeout = 3
    with pytest.raises(RuntimeError) as failed:
        engine.train_tasks([(bad,), (ENDLESS,), (RUNS[0],), (RUNS[1],)], done=told.append)
    said = str(failed.value)
    assert said.startswith("2 of 4 tasks failed") and "needs a Transformer" in said
    assert "may take at most 3 seconds, so this one was stopped" in said
    assert (
        engine.store.read_record(RUNS[0]) and engine.store.read_record(RUNS[1]) and len(told) == 4
    )


@QUIET
@pytest.mark.slow
def test_a_run_whose_worker_dies_has_a_new_start_and_one_that_always_kills_is_reported(
    engine, tmp_path, monkeypatch
):
    flag = tmp_path / "died"

    def die(words, share, task, *given):  # sent to the worker as it is, being no module's
        if task[0].seed == 1 or not flag.exists():
            flag.touch()
            os.kill(os.getpid(), 9)
        return [Record(losses=[1.0], steps=1) for _ in task], {}

    monkeypatch.setattr(on_ray, "train_on_node", die)
    with pytest.raises(RuntimeError) as failed:
        engine.train_tasks([(RUNS[0],), (RUNS[1],)])
    assert "1 of 2 tasks failed" in str(failed.value)
    assert "3 times, the last time: the run's worker died" in str(failed.value)
    assert engine.store.read_record(RUNS[0]) is not None


@QUIET
@pytest.mark.slow
def test_an_interrupted_sweep_ends_what_is_in_hand(engine):
    def interrupt(count: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        engine.train_tasks([(ENDLESS,), (TINY,)], done=interrupt)
    assert time.monotonic() - began < 120


@QUIET
@pytest.mark.slow
def test_what_no_node_has_is_said_at_once(engine, ray_cluster: Cluster, tmp_path, monkeypatch):
    assert engine.slots == 2
    with pytest.raises(RuntimeError, match=r"Ray is connected already; call ray.shutdown"):
        make_engine(tmp_path, name="ray", address=ray_cluster.address).train_tasks([(TINY,)])
    monkeypatch.setitem(engine.needs, "memory", 100 * 2**40)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"'memory': 109951162777600\} on one node"):
        engine.train_tasks([(TINY,)])
    assert time.monotonic() - began < 20


@QUIET
@pytest.mark.slow
def test_a_cluster_is_left_running_and_joined_again(engine, ray_cluster: Cluster):
    engine.train_tasks([(run,) for run in RUNS[:5]])
    engine.close()
    assert ray_cluster.alive() == 2
    engine.train_tasks([(run,) for run in RUNS])
    assert all(same(engine.store, run) for run in RUNS), "what was closed connects anew"


# A path that means another place in each process stands for a file system that is not shared.
ALIEN = """
import json, sys
from pathlib import Path
import labkit
assert labkit.__file__.startswith("/proc/self/cwd/"), labkit.__file__
from labkit.experiments import Run
from labkit.experiments.engines import make_engine
from labkit.experiments.store import Store
runs = [Run.from_dict(run) for run in json.loads(sys.argv[2])]
engine = make_engine(Path("/proc/self/cwd/book"), name="ray", address=sys.argv[1])
engine.train_tasks([(run,) for run in runs])
assert all(engine.store.read_record(run) is not None for run in runs)
engine.close()
"""


@pytest.mark.slow
def test_a_cluster_that_shares_no_files_is_sent_labkit_and_sends_records(
    ray_cluster: Cluster, no_ray, tmp_path
):
    driver = tmp_path / "driver"
    shutil.copytree(HERE / "labkit", driver / "code" / "labkit")
    # Other code than what a node may have installed.
    training = driver / "code" / "labkit" / "training.py"
    training.write_text(training.read_text() + "\nA_LINE_OF_ITS_OWN = True\n")
    done = subprocess.run(
        [sys.executable, "-c", ALIEN, ray_cluster.address, json.dumps([r.to_dict() for r in RUNS])],
        cwd=driver,
        env={**os.environ, "PYTHONPATH": "/proc/self/cwd/code"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(p.read_text()) for p in (driver / "book/.labkit/runs").glob("*.json")]
    losses = {row["run"]["seed"]: from_row(row).losses for row in rows}
    assert losses == {run.seed: execute_run(run).losses for run in RUNS}
    assert not list(ray_cluster.folder.rglob("*.json")), "a node kept what is the driver's"


@QUIET
@pytest.mark.slow
def test_an_address_where_nobody_answers_is_one_error(no_ray, tmp_path):
    engine = make_engine(tmp_path, name="ray", address="127.0.0.1:1")
    with pytest.raises(RuntimeError, match=r"does not accept the connection.*ray start --head"):
        engine.train_tasks([(TINY,)])
