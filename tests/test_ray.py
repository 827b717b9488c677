"""The Ray engine: the same runs and records as here, on this machine and on a cluster."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from labkit import TrainConfig
from labkit.corpora import Digits
from labkit.experiments import Run, execute
from labkit.experiments.engines import make_engine, ray_cluster
from labkit.experiments.engines.on_ray import OnRay
from labkit.experiments.engines.ray_code import environment, packages
from labkit.experiments.engines.ray_needs import gpu_fraction, needs
from labkit.experiments.engines.ray_work import BEGAN, machine, order, work
from labkit.experiments.store import Store
from labkit.vision import MLPConfig
from tests.ray_cluster import Cluster

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
    """Tell whether a stored record is what training here gives, to the last bit."""
    record = store.get(run)
    return record is not None and record.losses == execute(run).losses


# --- without Ray ---


def test_labkit_knows_the_engine_and_imports_no_ray_for_it():
    program = (
        "import sys, labkit.experiments.engines.on_ray, labkit.experiments.engines.ray_work\n"
        "assert not {name for name in sys.modules if name.split('.')[0] == 'ray'}"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_ray_one_error_names_the_way_out(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install 'norm-lab-book\[ray\]'.*make setup"):
        make_engine(tmp_path, name="ray")


def test_a_task_needs_a_core_and_on_a_gpu_a_share_of_it(monkeypatch):
    assert needs("cpu") == {"CPU": 1}
    assert needs("NVIDIA H200") == {"CPU": 1, "GPU": 0.25}
    monkeypatch.setenv("LABKIT_GPU_FRACTION", "0.5")
    monkeypatch.setenv("LABKIT_RUN_MEMORY", "2G")
    assert needs("NVIDIA H200") == {"CPU": 1, "GPU": 0.5, "memory": 2 * 2**30}


@pytest.mark.parametrize("share", ["0", "1.5", "half", "nan"])
def test_a_share_of_a_gpu_is_above_0_and_at_most_1(monkeypatch, share):
    monkeypatch.setenv("LABKIT_GPU_FRACTION", share)
    with pytest.raises(ValueError, match="above 0 and at most 1"):
        gpu_fraction()


def test_what_is_sent_is_the_package_and_never_the_folder_around_it():
    assert Path(packages()[0]).name == "labkit" and str(HERE) not in packages()
    assert environment()["PYTHONPATH"].split(os.pathsep)[0] == str(HERE)
    assert environment()["OMP_NUM_THREADS"] == "1"


@pytest.fixture
def given(tmp_path):
    """Make the order for one run, and the store that it is for."""
    store = Store(tmp_path / "book")
    store.folder.mkdir(parents=True)
    sign = tmp_path / "sign"
    sign.write_text("a word")
    return json.loads(json.dumps(order((TINY,), store, sign))), store


def test_a_node_that_sees_the_store_keeps_the_record_there(given):
    given, store = given
    began, entries = work(given)
    assert began == BEGAN and entries[0]["key"] == TINY.key()
    assert same(store, TINY) and entries[0]["made"]["engine"] == "ray"


def test_a_node_that_does_not_see_the_store_hands_the_record_over(given, tmp_path):
    given, store = given
    (tmp_path / "sign").write_text("another word")
    _, entries = work(given)
    assert list(store.folder.iterdir()) == [], "it wrote into a folder that only looks the same"
    assert entries[0]["record"]["losses"] == execute(TINY).losses


def test_a_slot_is_taken_on_the_drivers_machine_only(given, monkeypatch):
    given, store = given
    taken = []
    monkeypatch.setattr(
        "labkit.pool.Pool.acquire", lambda pool: taken.append(pool.folder) or os.open("/", 0)
    )
    list(work({**given, "machine": "another"}))
    assert taken == []
    store.path(TINY).unlink()
    list(work(given))
    assert taken == [store.folder.parent / "slots"]


def test_other_code_on_a_node_is_refused(given):
    given, store = given
    with pytest.raises(ValueError, match="same versions on every node"):
        list(work({**given, "keys": ["0" * 64]}))
    assert store.get(TINY) is None


def test_a_run_that_takes_more_memory_than_was_declared_is_reported(given, monkeypatch):
    given, _ = given
    monkeypatch.setattr("labkit.experiments.engines.ray_work.TICK", 0.01)
    run = replace(TINY, train=TrainConfig(steps=100))
    given["runs"], given["keys"] = [run.to_dict()], [run.key()]
    answers = work({**given, "memory": 10 * 2**20})
    assert next(answers) == BEGAN
    assert "may hold 10 MiB (LABKIT_RUN_MEMORY)" in next(answers)["error"]
    list(answers)


def test_a_machine_has_one_name():
    assert machine() == machine() != ""


# --- on this machine ---


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Start Ray once for all tests of this part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_SLOTS", "2")
        engine = OnRay(tmp_path_factory.mktemp("local"))
        engine._connected()
        yield engine
        engine.close()


@pytest.fixture
def engine(local, tmp_path):
    """Give the one engine a store of the test's own."""
    local.root, local.store, local.timeout = tmp_path, Store(tmp_path), 3600.0
    return local


@QUIET
@pytest.mark.slow
def test_ray_trains_as_this_process_does(engine):
    told, most = [], []
    submit = engine._submit
    engine._submit = lambda flight, flying: (submit(flight, flying), most.append(len(flying)))
    try:
        engine.train([(run,) for run in RUNS[:4]] + [tuple(RUNS[4:])], done=told.append)
    finally:
        del engine._submit
    assert all(same(engine.store, run) for run in RUNS[:4])
    together = [engine.store.get(run) for run in RUNS[4:]]
    assert [record.provenance["together"] for record in together] == [2, 2]
    for run, record in zip(RUNS[4:], together, strict=True):
        assert record.losses == pytest.approx(execute(run).losses, rel=1e-5)
    assert sorted(told) == [1, 1, 1, 1, 2]
    assert engine.slots == 2 and max(most) == 4, "never more in flight than two for a place"
    names = {path.name for path in engine.store.folder.iterdir()}
    assert names == {f"{run.key()}.json" for run in RUNS}, "nothing else is left behind"


@QUIET
@pytest.mark.slow
def test_a_task_that_fails_or_hangs_is_reported_and_the_others_finish(engine):
    bad, told = replace(TINY, probes=("residual-rms",)), []
    engine.timeout = 3
    with pytest.raises(RuntimeError) as failed:
        engine.train([(bad,), (ENDLESS,), (RUNS[0],), (RUNS[1],)], done=told.append)
    said = str(failed.value)
    assert said.startswith("2 of 4 tasks failed") and "needs a Transformer" in said
    assert "may take 3 seconds and was ended" in said
    assert engine.store.get(RUNS[0]) and engine.store.get(RUNS[1]) and len(told) == 4


@QUIET
@pytest.mark.slow
def test_nothing_begins_after_its_time_and_what_is_stored_is_not_trained(engine):
    engine.train([(TINY,)], until=time.monotonic() - 1)
    assert engine.store.get(TINY) is None
    engine.train([(TINY,)])
    stamp = engine.store.path(TINY).stat().st_mtime_ns
    engine.train([(TINY,)])
    assert engine.store.path(TINY).stat().st_mtime_ns == stamp


@QUIET
@pytest.mark.slow
def test_what_no_node_has_is_said_at_once(engine, monkeypatch):
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"needs 1 CPU and 0.25 GPU on one node.*2 CPU"):
        OnRay(engine.root, "NVIDIA H200").train([(TINY,)])
    monkeypatch.setenv("LABKIT_RUN_MEMORY", "100T")
    with pytest.raises(RuntimeError, match=r"and 102400.0 GiB of memory"):
        OnRay(engine.root).train([(TINY,)])
    assert time.monotonic() - began < 20


def sockets(process: psutil.Process) -> list:
    """List the network sockets of a process, none of one that has just ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.net_connections("inet")
    return []


@QUIET
@pytest.mark.slow
def test_nobody_else_can_reach_a_local_ray_and_it_ends_with_its_engine(local, tmp_path):
    children = psutil.Process().children(recursive=True)
    listening = {c.laddr.ip for p in children for c in sockets(p) if c.status == "LISTEN"}
    assert listening and listening <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    with pytest.raises(RuntimeError, match=r"and 127\.0\.0\.1:1 was asked for"):
        OnRay(tmp_path, address="127.0.0.1:1").train([(TINY,)])
    folder = Path(local._cluster._folder)
    assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL, "Ray ends what it started"
    local.close()
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == [] and not folder.exists()


# --- on a cluster of two nodes ---


@QUIET
@pytest.mark.slow
def test_a_cluster_that_shares_the_files_is_used_whole_and_left_running(
    two_nodes: Cluster, tmp_path
):
    engine = make_engine(tmp_path, name="ray", address=two_nodes.address)
    try:
        assert engine.slots == 2
        engine.train([(run,) for run in RUNS[:5]])
        engine.close()
        assert two_nodes.alive() == 2
        engine.train([(run,) for run in RUNS])
    finally:
        engine.close()
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
engine.train([(run,) for run in runs])
assert all(engine.store.get(run) is not None for run in runs)
print(sorted(engine._cluster.env))
engine.close()
"""


@pytest.mark.slow
def test_a_cluster_that_shares_no_files_is_sent_labkit_and_sends_records(
    two_nodes: Cluster, tmp_path
):
    driver = tmp_path / "driver"
    shutil.copytree(HERE / "labkit", driver / "code" / "labkit")
    # Other code than what a node may have installed.
    training = driver / "code" / "labkit" / "training.py"
    training.write_text(training.read_text() + "\nA_LINE_OF_ITS_OWN = True\n")
    done = subprocess.run(
        [sys.executable, "-c", ALIEN, two_nodes.address, json.dumps([r.to_dict() for r in RUNS])],
        cwd=driver,
        env={**os.environ, "PYTHONPATH": "/proc/self/cwd/code"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "PYTHONPATH" not in done.stdout, "labkit was not sent"
    entries = [json.loads(p.read_text()) for p in (driver / "book/.labkit/runs").glob("*.json")]
    losses = {entry["run"]["seed"]: entry["record"]["losses"] for entry in entries}
    assert losses == {run.seed: execute(run).losses for run in RUNS}
    assert not list(two_nodes.folder.rglob("*.json")), "a node kept what is the driver's"


STRANGER = """
import sys, time
from labkit.experiments.engines.ray_cluster import Cluster
began = time.monotonic()
try:
    Cluster(sys.argv[1], 1, {"CPU": 1})
except RuntimeError as error:
    print(error)
print(time.monotonic() - began)
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", [{}, {"RAY_AUTH_MODE": "token"}], ids=["no mode", "no token"])
def test_who_has_no_token_is_told_so_at_once(two_nodes: Cluster, tmp_path, mode):
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, two_nodes.address],
        env={**env, **mode, "HOME": str(tmp_path)},  # where the token would be
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *said, seconds = done.stdout.splitlines()
    assert "takes only who knows its token" in said[0] and "~/.ray/auth_token" in said[0]
    assert float(seconds) < 30, "Ray by itself tries for two minutes"


@QUIET
@pytest.mark.slow
def test_a_node_that_does_not_answer_is_named_and_asked_once(
    two_nodes: Cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr(ray_cluster, "LOOK", 0.0)
    engine, packed = make_engine(tmp_path, name="ray", address=two_nodes.address), []
    monkeypatch.setattr(ray_cluster, "packages", lambda: packed.append(1) or packages())
    with pytest.raises(RuntimeError, match=r"not so on \S+: no answer.*`ray stop`"):
        engine.train([(TINY,)])
    assert packed == [], "labkit need not be sent to a node that is dead"


@QUIET
@pytest.mark.slow
def test_an_address_where_nobody_answers_is_one_error(no_ray, tmp_path):
    engine = make_engine(tmp_path, name="ray", address="127.0.0.1:1")
    with pytest.raises(RuntimeError, match=r"none answers.*ray start --head"):
        engine.train([(TINY,)])
