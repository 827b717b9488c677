"""Runs of a chapter found and trained without Jupyter; the device that a run's key names."""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

from labkit import TrainConfig
from labkit.book import chapters, ledger
from labkit.book.alone import execute as execute_slices
from labkit.book.grids import BARE, look, runs_cells
from labkit.book.percent import cells_of
from labkit.book.slices import book_chapter, code_cells, slice_of
from labkit.corpora import Digits, Markov
from labkit.experiments import Lab, Run, execute
from labkit.experiments.engines.processes import Processes
from labkit.experiments.run import gpu
from labkit.experiments.store import Store
from labkit.model import ModelConfig
from labkit.stacks import StackConfig
from labkit.vision import MLPConfig
from tests.toy_book import REPOSITORY, make_book, run

TINY = Run(MLPConfig(width=8, depth=1), Digits(batch=16), TrainConfig(steps=3, lr=0.01))
SECONDS = {"smoke": 1.0, "cpu": 1.0, "full": 7.0}
FAR = "NVIDIA H200"
TEXT = """# %% tags=["parameters"]
profile = "cpu"
seed = 0

# %%
from labkit import TrainConfig, plots
from labkit.corpora import Markov
from labkit.experiments import Experiment, Lab, Run, claim
from labkit.model import ModelConfig

lab = Lab("01_toy", profile=profile, seed=seed, cpu_seconds=dict(smoke=9, cpu=9, full=9))
base = Run(
    ModelConfig(dim=16, depth=1, heads=2, context=8, vocab=16),
    Markov(batch=2, time=8),
    TrainConfig(lab.pick(smoke=1, cpu=2, full=3, gpu=4)),
)

# %%
seeds = lab.seeds(smoke=1, cpu=2, full=3)
grid = lab.run(Experiment(base, {"train.lr": [1e-3, 1e-2], "seed": seeds}))

# %%
plots.curves({"a": grid.values("test.loss")})
undefined_name_in_a_figure_cell

# %%
best = grid.best("lr")
final = lab.run(Experiment(base, {"train.lr": [best], "model.norm": ["layer"]}))
claim("01-loss", "{mean}", final.values("test.loss"), source="s", criterion="> 0", kind="at")
"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    root = make_book(tmp_path / "book", c01_toy=TEXT)
    monkeypatch.setenv("LABKIT_ROOT", str(root))
    monkeypatch.setenv("LABKIT_SLOTS", "1")  # each worker imports PyTorch anew
    monkeypatch.delenv("LABKIT_DEVICE", raising=False)
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(sys, "path", [*sys.path])
    return root


def test_cells_are_those_that_jupytext_reads():
    for chapter in chapters.find(REPOSITORY):
        ours = cells_of(chapter.source.read_text(encoding="utf-8"))
        theirs = chapters.read(chapter).cells
        assert [(c.kind, c.source, sorted(c.tags)) for c in ours] == [
            (c.cell_type, c.source, sorted(c.metadata.get("tags", []))) for c in theirs
        ]


def test_a_look_finds_what_is_missing_and_trains_nothing(book):
    chapter = book_chapter(book, "01")
    assert len(runs_cells(chapter)) == 2
    for profile, count, steps in (("smoke", 2, 1), ("full", 6, 3), ("gpu", 6, 4)):
        found = look(chapter, profile)
        assert found.wanted == len(found.missing) == count, "the second grid waits for the first"
        assert {run.train.steps for run in found.missing} == {steps}
        assert found.faults == (), "no figure is drawn, and what waits is no fault"
    assert not (book / ".labkit" / "runs").exists()


def test_training_and_looking_take_turns_until_nothing_is_missing(book):
    status, said = run(book, "book", "runs", "--profile", "smoke", "--list")
    assert status == 0 and "0 of 2 runs are there" in said and "2 missing" in said
    status, said = run(book, "book", "runs", "--profile", "smoke")
    assert status == 0 and "3 of 3 runs are there" in said and "nothing is missing" in said
    records = book / ".labkit" / "runs"
    stamps = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert len(stamps) == 3
    chapter = book_chapter(book, "01")
    (outcome,) = execute_slices([slice_of(chapter, code_cells(chapter)[-1])], book, profile="smoke")
    assert outcome.claims["01-loss"]["verdict"] == "holds"
    after = {p.name: p.stat().st_mtime_ns for p in records.glob("*.json")}
    assert after == stamps, "the chapter itself trains nothing any more"


def test_a_cell_that_fails_by_itself_is_red(book):
    path = book / "chapters" / "01_toy.py"
    path.write_text(TEXT.replace('best = grid.best("lr")', 'best = grid.best("rate")'))
    status, said = run(book, "book", "runs", "--profile", "smoke")
    assert status == 1 and "red     01_toy, cell 4: KeyError" in said


def test_a_chapter_whose_runs_fail_stops_no_other(book, monkeypatch):
    monkeypatch.setenv("LABKIT_ENGINE", "serial")
    # Found out only when the run trains.
    bad = TEXT.replace('"model.norm": ["layer"]', '"probes": [("residual-rms", "no-such-probe")]')
    (book / "chapters" / "01_toy.py").write_text(bad)
    (book / "chapters" / "02_good.py").write_text(TEXT.replace("01", "02"))
    status, said = run(book, "book", "runs", "--profile", "smoke")
    assert status == 1 and "red     01_toy: 1 of 1 tasks failed" in said
    assert "01_toy: 2 of 3 runs are there" in said and "1 missing" in said
    assert "02_good: 3 of 3 runs are there" in said


def test_no_time_no_run(book):
    engine = Processes(book)
    try:
        engine.train([(TINY,)], until=time.monotonic() - 1)
        assert Store(book).get(TINY) is None
        engine.train([(TINY,), (replace(TINY, seed=1),)], until=time.monotonic() + 0.01)
        trained = [Store(book).get(replace(TINY, seed=seed)) for seed in (0, 1)]
        assert trained[0] is not None, "what is begun is finished"
    finally:
        engine.close()


def test_bare_packages_are_enough(book):
    """A server has torch and numpy: the stand-ins first, and nothing of Jupyter is imported."""
    program = (
        "import sys; from labkit.cli import main; code = main(sys.argv[1:]); import jaxtyping; "
        f"assert jaxtyping.__file__.startswith({str(BARE)!r}); "
        "print([n for n in ('IPython', 'jupytext', 'matplotlib', 'nbformat', 'papermill', 'scipy',"
        " 'ipykernel') if n in sys.modules]); sys.exit(code)"
    )
    paths = os.pathsep.join([str(BARE), str(REPOSITORY)])
    done = subprocess.run(
        [sys.executable, "-c", program, "book", "runs", "--profile", "smoke"],
        cwd=book,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is missing" in done.stdout and done.stdout.splitlines()[-1] == "[]"


# -- devices ----------------------------------------------------------------------------------
def test_a_key_names_the_device():
    assert TINY.key() == TINY.key("cpu") != TINY.key(FAR)


def test_a_device_has_records_of_its_own(book):
    record = execute(TINY)
    Store(book).put(TINY, record)
    assert Store(book, FAR).get(TINY) is None
    Store(book, FAR).put(TINY, replace(record, steps=99))
    ours, theirs = Store(book).get(TINY), Store(book, FAR).get(TINY)
    assert ours and theirs and (ours.steps, theirs.steps) == (3, 99)


def test_a_lab_of_profile_gpu(book, monkeypatch):
    lab = Lab("x", profile="gpu", seed=0, cpu_seconds=SECONDS)
    assert lab.declared == 7 and lab.device == gpu()
    assert lab.pick(smoke=1, cpu=2, full=3) == 3 and lab.pick(smoke=1, cpu=2, full=3, gpu=4) == 4
    assert Lab("x", profile="gpu", seed=0, cpu_seconds=SECONDS | {"gpu": 9}).declared == 9
    assert Lab("x", profile="full", seed=0, cpu_seconds=SECONDS).device == "cpu"
    monkeypatch.setenv("LABKIT_DEVICE", FAR)
    assert Lab("x", profile="gpu", seed=0, cpu_seconds=SECONDS).device == FAR
    assert Lab("x", profile="cpu", seed=0, cpu_seconds=SECONDS).device == "cpu"


def test_a_gpu_that_is_not_here_trains_nothing():
    with pytest.raises(ValueError, match=r"trains on 'Another GPU', but torch sees"):
        execute(TINY, device="Another GPU")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_run_trains_on_the_gpu_that_is_here():
    record, same = execute(TINY, device=gpu()), execute(TINY)
    assert record.provenance["device"] == gpu()
    assert record.losses[0] == pytest.approx(same.losses[0], rel=1e-4), "the same start"


def test_batches_move_with_their_corpus():
    corpus = Markov(batch=2, time=4).load()
    moved = corpus.to("meta")
    inputs, targets = next(iter(moved.train(0)))
    assert inputs.device.type == targets.device.type == "meta"
    assert {part[0].device.type for b in moved.held_out.values() for part in b} == {"meta"}
    assert moved.floor == corpus.floor and next(corpus.train(0))[0].device.type == "cpu"


def test_a_look_trains_no_model_of_a_cell_either(book):
    chapter = chapters.find(book)[0]
    trains = "# %%\nfrom labkit import train\n\ntrain(...)\nbase = base\n\n# %%\nseeds ="
    chapter.source.write_text(TEXT.replace("# %%\nseeds =", trains, 1))
    found = look(chapter, "cpu")
    assert found.faults == () and found.wanted == 4


def test_each_gpu_has_a_ledger(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DEVICE", "NVIDIA H200 (80 GB)")
    path = ledger.recorded_path(tmp_path, "gpu")
    assert path == tmp_path / "data" / "ledger" / "gpu-nvidia-h200-80-gb.json"
    ledger.provenance.cache_clear()
    ledger.gather(tmp_path, "gpu", {}, 0)
    about = json.loads((tmp_path / "build/claims/gpu.json").read_text())["provenance"]
    ledger.provenance.cache_clear()
    assert about["device"] == "NVIDIA H200 (80 GB)" and about["date"]


@pytest.mark.slow
@pytest.mark.parametrize("chapter", chapters.find(REPOSITORY), ids=lambda c: c.name)
def test_what_every_chapter_wants_on_a_gpu_is_found(chapter, book, monkeypatch):
    """Models that cells make for themselves get a few blocks: what they compute decides no run."""

    def shallow(build):
        return lambda config: build(replace(config, depth=min(config.depth, 4)))

    for kind in (ModelConfig, StackConfig):
        monkeypatch.setattr(kind, "build", shallow(kind.build))
    found = look(chapter, "gpu")
    assert found.faults == () and found.wanted > 0


def test_a_build_over_its_budget_trains_nothing_and_says_what_it_needs(book):
    status, said = run(book, "book", "build", "--profile", "smoke", "--budget", "0.001")
    assert status == 1 and "this sweep needs about" in said and "nothing was trained" in said
    assert not list((book / ".labkit" / "runs").glob("*.json"))
    status, said = run(book, "book", "build", "--profile", "smoke", "--budget", "soon")
    assert status == 2 and "10m or 1h30m" in said
    _, said = run(book, "book", "build", "--profile", "smoke", "--budget", "1h")
    assert "budget 1 h: about" in said and "01_toy: starts" in said


def test_a_budget_counts_the_slots_of_the_engine_and_shows_cells_that_fail(book, monkeypatch):
    monkeypatch.setenv("LABKIT_SLOTS", "3")
    monkeypatch.setenv("LABKIT_ENGINE", "processes")  # so that it is taken back
    monkeypatch.setenv("LABKIT_ENGINE_ADDRESS", "")
    record = execute(replace(TINY, probes=()))
    (first, _) = look(book_chapter(book, "01"), "smoke").missing
    Store(book).put(replace(first, seed=9), record)  # so that nothing need be timed
    path = book / "chapters" / "01_toy.py"
    fails = TEXT.replace("# %%\nbest", "# %%\nother = lab.seeds(1)\n\n# %%\nbest")
    path.write_text(fails.replace("[best],", '[best], "seed": other,'))
    words = ("book", "build", "--profile", "smoke", "--budget", "0")
    for engine, slots in (("serial", "1 idle slot:"), ("processes", "3 idle slots:")):
        status, said = run(book, *words, "--engine", engine)
        assert status == 1 and f"on {slots}" in said
        assert "red     01_toy, cell " in said and "its runs are not counted" in said
    down = ("--engine", "ray", "--address", "127.0.0.1:1")
    status, said = run(book, *words, *down)
    assert status == 1 and "none answers" in said and "Traceback" not in said
