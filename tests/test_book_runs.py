"""make runs and make record: a chapter's runs are trained once, recorded, and read by builds."""

import os
import shutil
import subprocess
import tarfile
from dataclasses import replace
from unittest.mock import patch

import pytest
from stored_runs import LANGUAGE, record
from toy_book import chapter_text, make_book, run

from labkit import TrainConfig
from labkit.experiments.records import Records, compute_checksum, to_row
from labkit.experiments.store import Store
from press.book import asked, chapters
from press.book.files import Red
from press.book.gpu import pack_sources
from press.book.runs import build_estimate, find_gpu, format_duration

TRAINING = """# %%
from labkit import TrainConfig
from labkit.corpora import Digits
from labkit.experiments import Experiment, Lab, Run
from labkit.model.vision import MLPConfig

lab = Lab("01_one", size=size, seed=seed)
run = Run(MLPConfig(width=8, depth=1), Digits(batch=64), TrainConfig(steps=12))
rates = lab.run(Experiment(run, {"train.lr": [1e-3, 1e-2]}))

# %%
best = rates.best("lr")
final = lab.run(Experiment(run, {"train.lr": [best], "seed": [1, 2, 3]}))
claim("01-mean", final.values("test.accuracy"))

"""


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ENGINE", "serial")
    monkeypatch.setattr("press.book.runs.lower_priority", lambda: None)
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    return make_book(tmp_path, c01_one=chapter_text("01_one", cells=TRAINING))


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Train the runs once; return the book, and what the command said."""
    text = chapter_text("01_one", cells=TRAINING)
    root = make_book(tmp_path_factory.mktemp("once"), c01_one=text)
    with patch.dict(os.environ, LABKIT_ENGINE="serial", LABKIT_ROOT=str(root)):
        return root, run(root, "book", "runs", "--only", "01")


@pytest.fixture
def trained(once, book):
    return shutil.copytree(once[0], book, dirs_exist_ok=True)


@pytest.mark.slow
def test_runs_are_trained_and_moved_into_the_records(once, trained):
    book, (code, said) = trained, once[1]
    assert code == 0 and "2 runs, 2 to train" in said and "nothing is missing" in said
    stored = sorted(path.stem for path in (book / ".labkit" / "runs").glob("*.json"))
    assert len(stored) == 5, "the final runs were found once the rates were there"

    code, said = run(book, "book", "record")
    assert code == 0 and "01: 5 runs, 5 new" in said
    assert sorted(Records(book).load_rows("01")) == stored
    assert list((book / ".labkit" / "runs").glob("*.json")) == [], "moved, not copied"
    before = Records(book).build_path("01").read_bytes()
    assert run(book, "book", "record")[0] == 0
    assert Records(book).build_path("01").read_bytes() == before


@pytest.mark.slow
def test_a_gpu_trains_runs_as_one_model_and_their_records_stand_with_the_others(book, monkeypatch):
    monkeypatch.setattr("press.book.runs.get_gpu_name", lambda: "A GPU")
    for module in ("run", "replicates.together"):  # without a GPU it trains on the CPU
        monkeypatch.setattr(f"labkit.experiments.{module}.find_device", lambda device: "cpu")
    monkeypatch.setattr("labkit.experiments.replicates.groups.free_of_a_gpu", lambda: 2**30)
    code, said = run(book, "book", "runs", "--only", "01", "--device", "cuda")
    assert code == 0 and "2 to train on A GPU" in said and "nothing is missing" in said
    assert "01: 5 runs, 5 new" in run(book, "book", "record")[1]
    rows = Records(book).load_rows("01").values()
    assert sorted(row["provenance"]["together"] for row in rows) == [2, 2, 3, 3, 3]


def test_a_gpu_that_torch_does_not_see_is_one_sentence(book, monkeypatch):
    monkeypatch.setattr("press.book.runs.get_gpu_name", lambda: "cpu")
    code, said = run(book, "book", "runs", "--device", "cuda")
    assert code == 2 and "name of the GPU that torch finds, got 'cuda'" in said
    monkeypatch.setattr("press.book.runs.get_gpu_name", lambda: "A GPU")
    assert find_gpu("cuda") == find_gpu("A GPU") == "A GPU"
    with pytest.raises(ValueError, match=r"got .NVIDIA H200., but torch .* finds A GPU"):
        find_gpu("NVIDIA H200")


def test_the_folder_for_a_gpu_has_sources_records_packages_and_the_commit(tmp_path, monkeypatch):
    for name in ("labkit/one.py", "data/records/01.jsonl", "chapters/01_one.py", "tests/other.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setattr("press.book.gpu.CARRIED", ("cloudpickle",))
    with tarfile.open(pack_sources(tmp_path)) as archive:
        names = set(archive.getnames())
    assert {"labkit/one.py", "data/records/01.jsonl", "chapters/01_one.py", "COMMIT"} <= names
    assert "packages/cloudpickle/__init__.py" in names and "tests/other.py" not in names


@pytest.mark.slow
def test_a_build_reads_what_is_recorded_and_trains_nothing(trained):
    run(trained, "book", "record")
    said = run(trained, "book", "build")[1]
    assert "5 runs read" in said and "replays: done" in said and "stale" not in said
    assert list((trained / ".labkit" / "runs").glob("*.json")) == [], "a build trains nothing"
    again = run(trained, "book", "build")[1]
    assert "replays: neither code nor records changed since the last one" in again
    assert "nothing is missing" in run(trained, "book", "runs", "--only", "01")[1]


@pytest.mark.slow
def test_a_build_without_records_is_red_and_says_what_to_do(book):
    code, said = run(book, "book", "build")
    assert code == 1 and "make runs ONLY=01" in said
    assert not (book / ".labkit" / "runs").exists()


@pytest.mark.slow
def test_what_a_chapter_no_longer_asks_for_leaves_its_records(trained):
    run(trained, "book", "record")
    source = trained / "chapters" / "01_one.py"
    source.write_text(source.read_text().replace('"seed": [1, 2, 3]', '"seed": [1, 2]'))
    asked.find_asked_runs(trained, *chapters.find_chapters(trained), "book")
    code, said = run(trained, "book", "record")
    assert code == 0 and "01: 4 runs, 0 new, 1 that nobody asks for left out" in said


@pytest.mark.slow
def test_a_refuted_run_is_trained_again(trained):
    run(trained, "book", "record")
    records = Records(trained)
    rows = records.load_rows("01")
    wrong = [{**row, "first": [2 * loss for loss in row["first"]]} for row in rows.values()]
    records.write_rows("01", [{**row, "sum": compute_checksum(row)} for row in wrong])
    code, said = run(trained, "book", "build")
    assert code == 1 and "5 recorded runs are stale" in said and "01-mean" in said
    code, said = run(trained, "book", "runs", "--only", "01")
    assert code == 0 and "5 to train" in said
    assert len(list((trained / ".labkit" / "runs").glob("*.json"))) == 5
    run(trained, "book", "record")
    assert "stale" not in run(trained, "book", "build")[1]
    assert [row["first"] for row in Records(trained).load_rows("01").values()] == [
        row["first"] for row in rows.values()
    ]


@pytest.mark.slow
def test_a_list_trains_nothing_and_one_of_another_version_names_the_way_out(book):
    code, said = run(book, "book", "runs", "--only", "01", "--list")
    assert code == 0 and "2 runs, 2 to train" in said and "on " in said
    assert not (book / ".labkit" / "runs").exists()
    (path,) = (book / ".labkit" / "asked").glob("*.jsonl")
    path.write_text(path.read_text().replace('"width"', '"breadth"'))
    with pytest.raises(Red, match=r"another version of labkit wrote it .*breadth.*--list"):
        asked.read_runs(book, "book", "01_one")


def test_a_recipe_that_nobody_trained_costs_what_its_size_does(tmp_path):
    base = replace(LANGUAGE, train=TrainConfig(steps=3))
    wide = replace(base, model=replace(base.model, dim=32))
    seen = [
        *[(replace(base, seed=seed), seconds) for seed, seconds in enumerate((3.0, 6.0, 9.0))],
        (wide, 60.0),
        (replace(wide, seed=1), 90.0),
    ]
    rows = [to_row(run, record(cpu_seconds=seconds), "2026-01-01") for run, seconds in seen]
    assert build_estimate(Store(tmp_path))(base) is None
    Records(tmp_path).write_rows("ladder", rows)
    estimate = build_estimate(Store(tmp_path))
    other = replace(base, model=replace(base.model, recipe="post"), train=TrainConfig(steps=5))
    assert estimate(other) == 5 * 2.0  # the median of 1, 2 and 3 seconds a step
    assert estimate(replace(other, model=replace(base.model, dim=32))) == 5 * 25.0
    # A size of its own: the median of all.
    assert estimate(replace(other, model=replace(base.model, depth=2))) == 5 * 3.0


@pytest.mark.parametrize(
    ("seconds", "words"), [(30, "1 min"), (60, "1 min"), (8341, "2 h 20 min"), (7200, "2 h 0 min")]
)
def test_a_duration_is_said_in_hours_and_minutes(seconds, words):
    assert format_duration(seconds) == words
