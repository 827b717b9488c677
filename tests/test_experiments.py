"""Runs, keys, the store, the pool and the engine: nothing trained twice, nothing lost."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import labkit
from labkit import ModelConfig, Record, TrainConfig
from labkit.corpora import Digits, Text
from labkit.experiments import Experiment, Lab, Results, Run
from labkit.experiments.lab import MissingRuns
from labkit.experiments.store import CODE, Store
from labkit.model.vision import CNNConfig, MLPConfig
from labkit.system.pool import Pool
from tests.slot_holder import hold
from tests.stored_runs import LANGUAGE, TINY


@pytest.fixture(autouse=True)
def empty_root(tmp_path, monkeypatch):
    """Give every test an empty store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.setenv("LABKIT_SLOTS", "1")
    monkeypatch.setenv("LABKIT_ENGINE", "serial")  # each worker imports PyTorch anew


@pytest.mark.parametrize(
    "run",
    [
        TINY,
        LANGUAGE,
        replace(LANGUAGE, data=Text(batch=2, time=8), probes=()),
        replace(TINY, model=CNNConfig(width=8, groups=2, norm="group"), seed=4),
        replace(LANGUAGE, model=ModelConfig(norm="partial-rms", norm_kw=(("p", 0.25),))),
    ],
)
def test_a_run_survives_json_and_keeps_its_key(run):
    again = Run.from_dict(json.loads(json.dumps(run.to_dict())))
    assert again == run and hash(again) == hash(run) and again.key() == run.key()


def test_a_run_given_lists_has_the_key_of_one_given_tuples():
    lists = replace(TINY, train=replace(TINY.train, betas=[0.9, 0.95]), probes=["test"])
    pairs = replace(TINY, train=replace(TINY.train, betas=(0.9, 0.95)), probes=("test",))
    assert lists.key() == pairs.key() != TINY.key()


def test_a_record_may_have_a_field_that_is_gone_at_the_value_that_all_had():
    values = TINY.to_dict()
    assert Run.from_dict({**values, "train": {**values["train"], "matmul": "default"}}) == TINY
    with pytest.raises(TypeError, match="matmul"):
        Run.from_dict({**values, "train": {**values["train"], "matmul": "onednn"}})


def test_every_field_of_a_run_is_in_its_key():
    others = [
        replace(TINY, seed=1),
        replace(TINY, probes=("test",)),
        replace(TINY, model=replace(TINY.model, norm="layer")),
        replace(TINY, data=Digits(batch=17)),
        replace(TINY, train=replace(TINY.train, lr=0.02)),
        LANGUAGE,
    ]
    assert len({run.key() for run in [TINY, *others]}) == 1 + len(others)


# Run in a copy of the package, which it edits after it has imported it.
EDITED = """
from pathlib import Path
from labkit import Record
from labkit.experiments.store import CODE, Store
from labkit.system.files import code_hash
from tests.test_experiments import TINY

key, path = TINY.key(), Path("labkit/training.py")
path.write_text(path.read_text() + "\\nx = 1\\n")
assert code_hash() == CODE, "what this process runs, not what was written since"
code_hash.cache_clear()
assert code_hash() != CODE
store = Store(Path())
store.write_record(TINY, Record(losses=[1.0], steps=1))
assert store.find_row(TINY.key())["provenance"]["code"] == CODE
assert TINY.key() == key
print(key)
"""


@pytest.mark.slow
def test_a_record_names_the_code_that_was_imported_and_a_key_names_none(tmp_path):
    shutil.copytree(Path(labkit.__file__).parent, tmp_path / "labkit")
    shutil.copytree(Path(__file__).parent, tmp_path / "tests")
    program = [sys.executable, "-c", EDITED]
    for _ in range(2):  # the second time with the code that the first has edited
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{TINY.key()}\n", "other code, the same run"


def test_the_store_returns_what_was_put():
    run, record = TINY, Record(losses=[1.0, 0.5], steps=2, probes={"test": {"loss": 0.25}})
    store = Store(Path.cwd())
    assert store.read_record(run) is None
    store.write_record(run, record)
    assert store.read_record(run) == replace(record, provenance={"code": CODE})
    assert [p.name for p in store.folder.iterdir()] == [f"{run.key()}.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("0.5", "0.4"),
        lambda text: "[]",
        lambda text: "[" * 100_000,
    ],
)
def test_a_damaged_record_is_noticed_and_said(damage):
    store = Store(Path.cwd())
    store.write_record(TINY, Record(losses=[1.0, 0.5], steps=2))
    path = store.build_path(TINY)
    path.write_text(damage(path.read_text()))
    with pytest.warns(UserWarning, match=r"is damaged .*; its run trains again"):
        assert store.read_record(TINY) is None


def test_a_record_under_another_run_s_name_is_refused():
    store, other = Store(Path.cwd()), replace(TINY, seed=1)
    store.write_record(TINY, Record(losses=[1.0], steps=1))
    store.build_path(TINY).rename(store.build_path(other))
    with pytest.warns(UserWarning, match="this record belongs to a different run"):
        assert store.read_record(other) is None


def test_a_run_of_what_labkit_cannot_write_down_is_refused():
    with pytest.raises(
        TypeError, match=r"a run's model must be one of ModelConfig, Dep.*, ViTConfig; got Linear"
    ):
        Run(torch.nn.Linear(2, 2), Digits(), TrainConfig())
    mine = type("Mine", (Digits,), {})()
    with pytest.raises(
        TypeError, match="data must be one of Text, Digits, FewDigits, Points; got Mine; train a"
    ):
        Run(MLPConfig(), mine, TrainConfig())
    with pytest.raises(ValueError, match="unknown probe 'tset'; did you mean 'test'"):
        Run(MLPConfig(), Digits(), TrainConfig(), probes=("tset",))
    with pytest.raises(TypeError, match="seed must be a whole number, got 'a'"):
        Run(MLPConfig(), Digits(), TrainConfig(), seed="a")
    assert str(Run(MLPConfig(width=8), Digits(), TrainConfig(steps=3))) == (
        "Run(model=MLPConfig(width=8), data=Digits(), train=TrainConfig(steps=3), seed=0)"
    )


def test_a_kill_while_writing_leaves_the_old_record():
    store = Store(Path.cwd())
    store.write_record(TINY, Record(losses=[1.0], steps=1))
    program = (
        "import os, signal\nfrom pathlib import Path\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from labkit import Record\nfrom labkit.experiments.store import Store\n"
        "from tests.test_experiments import TINY\n"
        "Store(Path.cwd()).write_record(TINY, Record(losses=[9.0], steps=9))\n"
    )
    home = Path(labkit.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(home)}, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert store.read_record(TINY).losses == [1.0]


def test_no_more_processes_hold_a_slot_than_there_are_and_a_killed_one_gives_its_own_back(tmp_path):
    log = tmp_path / "log"
    spawn = multiprocessing.get_context("spawn")
    killed = spawn.Process(target=hold, args=(tmp_path, log, 600))
    killed.start()
    while not log.exists():
        time.sleep(0.01)
    waiting = [spawn.Process(target=hold, args=(tmp_path, log, 0.1)) for _ in range(2)]
    for holder in waiting:
        holder.start()
    time.sleep(0.3)
    assert log.read_text() == "+"
    killed.kill()
    for holder in waiting:
        holder.join()
    assert log.read_text() == "++-+-"


def test_nobody_waits_for_a_slot_that_is_held_at_low_priority(tmp_path):
    log = tmp_path / "log"
    spawn = multiprocessing.get_context("spawn")
    low = spawn.Process(target=hold, args=(tmp_path, log, 600, 19))
    low.start()
    try:
        while not log.exists():
            time.sleep(0.05)
        end = time.monotonic() + 10
        with Pool(tmp_path).slot(give_up=lambda: time.monotonic() > end):
            pass
        another = spawn.Process(target=hold, args=(tmp_path, log, 0, 19))
        another.start()
        another.join(2)
        assert another.is_alive() and log.read_text() == "+", "those at low priority share theirs"
        another.kill()
    finally:
        low.kill()


def test_slots_must_be_a_number(monkeypatch):
    monkeypatch.setenv("LABKIT_SLOTS", "none")
    with pytest.raises(ValueError, match="LABKIT_SLOTS must be a whole number"):
        Pool(Path.cwd())


def test_a_lab_trains_only_what_is_missing():
    lab = Lab("x", size="book", seed=0)
    experiment = Experiment(TINY, {"model.norm": ["batch", "layer"], "seed": [0, 1]})
    results = lab.run(experiment)
    stamps = {p: p.stat().st_mtime_ns for p in lab.store.folder.iterdir()}
    assert len(results) == len(stamps) == 4
    lab.close()
    again = lab.run(experiment)  # everything is stored: no worker is needed
    assert {p: p.stat().st_mtime_ns for p in lab.store.folder.iterdir()} == stamps
    assert again.values("test.loss") == results.values("test.loss")
    origin = lab.provenance(results)
    assert origin["seeds"] == [0, 1] and origin["runs"] == 4


def test_a_figure_names_every_processor_that_its_runs_were_trained_on():
    def made(*cpus):
        return Results(tuple(
            ({}, Record([], 1, provenance={"cpu": cpu, "commit": str(i), "threads": 1, "seed": i}))
            for i, cpu in enumerate(cpus)
        ))  # fmt: skip

    origin = Lab("x", size="book", seed=0).provenance(made("abacus", "loom", "abacus"))
    assert (origin["cpu"], origin["commit"]) == ("abacus and loom", "0 and 2 more")
    assert origin["threads"] == 1 and origin["seeds"] == [0, 1, 2]
    assert Lab("x", size="book", seed=0).provenance(made("loom"))["cpu"] == "loom"


def test_a_run_that_two_experiments_share_is_counted_once(capsys):
    lab = Lab("x", size="book", seed=0)
    for seed in (0, 1):
        record = Record(losses=[], steps=3, cpu_seconds=5.0, provenance={"seed": seed})
        lab.store.write_record(replace(TINY, seed=seed), record)
    for seeds, expected in (([0], "; 5 CPU-seconds"), ([0, 1], "; 5 CPU-seconds"), ([1], "; 0 ")):
        lab.run(Experiment(TINY, {"seed": seeds}))
        assert expected in capsys.readouterr().out


def test_a_run_trained_live_repeats_its_record_and_a_build_trains_none(monkeypatch):
    lab = Lab("x", size="book", seed=0)
    figure = lab.train_live(Experiment(TINY, {"seed": [2, 3]}), steps=3)
    recorded = lab.store.read_record(replace(TINY, seed=2)).losses[:3]
    assert figure.data == pytest.approx(recorded * 2, rel=1e-5)
    assert "first 3 steps" in figure.caption
    monkeypatch.setenv("LABKIT_TRAIN", "never")  # as a build does
    assert Lab("x", size="book", seed=0).train_live(Experiment(TINY, {"seed": [4]})) is None
    assert lab.store.read_record(replace(TINY, seed=4)) is None


def test_a_lab_picks_by_its_size(monkeypatch):
    monkeypatch.setenv("LABKIT_DEVICE", "A GPU")
    labs = [Lab("x", size=size, seed=3) for size in ("book", "gpu")]
    sizes = [lab.sizes(steps=(1, 2), few=1, ends=[6, 48]) for lab in labs]
    assert [(of.steps, of.few, of.ends) for of in sizes] == [(1, 1, [6, 48]), (2, 1, [6, 48])]
    assert labs[0].seeds(2) == [3, 4]
    for wrong in ((), (1,), (1, 2, 3)):
        with pytest.raises(ValueError, match=r"a pair, for book and gpu, but steps has \("):
            labs[0].sizes(steps=wrong)
    assert [lab.store.folder.name for lab in labs] == ["runs", "a-gpu"]
    with pytest.raises(ValueError, match="choose one of book, gpu"):
        Lab("x", size="quick", seed=0)


def test_a_lab_that_may_not_train_says_what_lacks_a_record(monkeypatch):
    monkeypatch.setenv("LABKIT_TRAIN", "never")
    lab = Lab("07_toy", size="book", seed=0)
    lab.store.write_record(TINY, Record(losses=[1.0], steps=1, provenance={"seed": 0}))
    assert len(lab.run(Experiment(TINY, {"seed": [0]}))) == 1, "what is there is read"
    said = r"chapter 07_toy .* 2 of 3 runs have none; train them with: make runs ONLY=07$"
    with pytest.raises(MissingRuns, match=said):
        lab.run(Experiment(TINY, {"seed": [0, 1, 2]}))
    assert [p.name for p in lab.store.folder.iterdir()] == [f"{TINY.key()}.json"]


def test_a_grid_has_every_combination_in_order():
    grid = Experiment(
        TINY,
        {
            "arm": {"plain": {}, "warm": {"train.warmup": 2, "model.norm": "layer"}},
            "train.lr": [0.1, 0.2],
        },
    ).runs()
    assert [labels for labels, _ in grid] == [
        {"arm": "plain", "lr": 0.1},
        {"arm": "plain", "lr": 0.2},
        {"arm": "warm", "lr": 0.1},
        {"arm": "warm", "lr": 0.2},
    ]
    last = grid[-1][1]
    assert (last.train.warmup, last.train.lr, last.model.norm) == (2, 0.2, "layer")


def test_a_grid_names_the_field_it_does_not_know():
    with pytest.raises(ValueError, match=r"no field 'train.rate'"):
        Experiment(TINY, {"train.rate": [1]}).runs()
    with pytest.raises(ValueError, match="at least one value, but 'seed' has none"):
        Experiment(TINY, {"seed": []}).runs()
    for value in ("pre", 0.1):
        with pytest.raises(TypeError, match=f"must be a list of values, .*write .{value!r}."):
            Experiment(TINY, {"model.recipe": value}).runs()


def record(loss: float | None) -> Record:
    probes = {"validation": {"loss": loss}}
    return Record(losses=[], steps=1, probes=probes, provenance={"seed": 0})


def test_results_select_and_choose():
    results = Results(
        tuple(
            ({"arm": arm, "lr": lr}, record(loss))
            for arm, lr, loss in [("a", 1, 0.5), ("a", 2, 0.4), ("b", 1, None), ("b", 2, 9.0)]
        )
    )
    assert repr(results) == "Results of 4 runs (arm: a, b; lr: 1, 2)", "and none of the losses"
    many = Results(tuple(({"seed": seed}, record(1.0)) for seed in range(9)))
    assert repr(many) == "Results of 9 runs (seed: 0, 1, 2, 3, … (9))"
    assert results.where(arm="a").best("lr") == 2
    assert results.where(arm="b").best("lr") == 2, "a diverged run loses"
    assert list(results.by("arm")) == ["a", "b"]
    assert Results(()).by("arm") == {}, "as a ladder without records is read"
    assert results.by("lr")[2].values("validation.loss") == [0.4, 9.0], "in their order"
    assert results.where(lr=[1]).values("validation.loss") == [0.5, None]
    at_two = results.where(lr=2).measure_by("validation.loss", "lr", "arm")[2]
    assert {arm: sample.values for arm, sample in at_two.items()} == {"a": (0.4,), "b": (9.0,)}
    assert results.where(lr=2, arm=["a", "b"]).by("arm")["b"].values("validation.loss") == [9.0]
    with pytest.raises(ValueError, match=r"no label \['depth'\]; choose from \['arm', 'lr'\]"):
        results.where(depth=1)
    with pytest.raises(ValueError, match=r"no label \['depth'\]; choose from \['arm', 'lr'\]"):
        results.measure_by("validation.loss", "arm", "depth")
    with pytest.raises(ValueError, match=r"must have the labels .*from .*arm: a, b; lr: 1"):
        results.where(arm="c")
    with pytest.raises(ValueError, match=r"has no 'test\.loss'"):
        results.values("test.loss")


@pytest.mark.parametrize(
    "fields",
    [
        {"model.norm_kw": (("p", 0.5),), "model.norm": "partial-rms"},
        {"model.heads": 3, "model.dim": 48},
    ],
)
def test_the_fields_of_an_arm_change_together(fields):
    base = replace(LANGUAGE, model=ModelConfig(dim=32))
    ((_, run),) = Experiment(base, {"arm": {"one": fields}}).runs()
    for field, value in fields.items():
        assert getattr(run.model, field.removeprefix("model.")) == value
