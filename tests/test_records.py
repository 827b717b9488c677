"""The book's records: what a file keeps of a run, what damage does, which of two records counts."""

import gzip
import json
import math
import random
from dataclasses import asdict, make_dataclass, replace

import numpy as np
import pytest
from stored_runs import LANGUAGE, TINY, record, variants

from labkit import ModelConfig, Record, TrainConfig
from labkit.corpora import Text
from labkit.experiments import Run
from labkit.experiments.records import RecordError, Records, compute_checksum, from_row, to_row
from labkit.experiments.store import Store
from labkit.placements import RECIPES

EARLY, LATE = "2001-01-01T00:00:00+00:00", "2999-01-01T00:00:00+00:00"
# Who changes a default, or how a key is made, leaves every record of the book behind.
GOLDEN = {
    "fe2b55b2b4d71fb214210b41": TINY,
    "3fdfcd00b9daf3f35920aba0": LANGUAGE,
    "bf4d47158db90408690af64a": Run(
        ModelConfig(recipe="deepnorm", dim=64, depth=4, heads=4, context=64),
        Text(batch=8, time=64),
        TrainConfig(steps=300, lr=3e-3, warmup=30),
        seed=7,
    ),
}


def rows(*runs: Run, at: str = EARLY) -> list[dict]:
    return [to_row(run, record(0.1 * i), at) for i, run in enumerate(runs or variants(), 1)]


def test_keys_are_what_they_were():
    assert [run.key() for run in GOLDEN.values()] == list(GOLDEN)


def test_a_recipe_is_its_equations_and_not_its_name(monkeypatch):
    monkeypatch.setitem(RECIPES, "renamed", RECIPES["sandwich"])
    run = replace(LANGUAGE, model=replace(LANGUAGE.model, recipe="sandwich"))
    renamed = replace(LANGUAGE, model=replace(LANGUAGE.model, recipe="renamed"))
    assert renamed != run and renamed.key() == run.key() != LANGUAGE.key()


@pytest.mark.parametrize("part", ["model", "train"])
def test_a_new_field_changes_no_key_while_it_has_its_default(part):
    old = getattr(LANGUAGE, part)
    novel, kind = [("novel", float, 0.5)], type(old)
    wider = make_dataclass(kind.__name__, novel, bases=(kind,), frozen=True)
    assert replace(LANGUAGE, **{part: wider(**asdict(old))}).key() == LANGUAGE.key()
    assert replace(LANGUAGE, **{part: wider(**asdict(old), novel=0.7)}).key() != LANGUAGE.key()


def test_equal_values_are_one_key():
    def key(lr: float, probes: tuple[str, ...] = ("test", "validation")) -> str:
        return replace(TINY, train=replace(TINY.train, lr=lr), probes=probes).key()

    assert key(1) == key(1.0) == key(1.0, ("validation", "test", "test"))
    assert len({key(1.0), key(1.5), key(1.0, ("test",))}) == 3


def test_a_row_keeps_the_first_losses_exactly_and_the_curve_in_few_points():
    draw = random.Random(0)
    losses = [float(np.float32(draw.uniform(1e-3, 12))) for _ in range(1003)]
    probes = {"test": {"loss": math.pi, "bad": math.nan, "count": 3}, "rms": [1 / 3, math.inf]}
    whole = Record(losses, 2000, 1004, 1.23456, 7.89123, 1234.5, probes, {"cpu": "abacus"})
    row = to_row(TINY, whole, EARLY, engine="toy")
    assert row["key"] == TINY.key() and Run.from_dict(row["run"]) == TINY
    assert row["every"] == 6 and len(row["losses"]) == 168 <= 200
    back = from_row(json.loads(json.dumps(row, allow_nan=False)))
    assert back.losses[:8] == losses[:8] and len(back.losses) == 1003
    assert back.losses[12:18] == pytest.approx([math.fsum(losses[12:18]) / 6] * 6, rel=1e-6)
    assert back.losses[-1] == pytest.approx(losses[-1], rel=1e-6), "the last stretch is one step"
    assert (back.steps, back.diverged_at, back.seconds) == (2000, 1004, 1.235)
    test = {"loss": 3.141593, "bad": None, "count": 3}
    assert back.probes == {"test": test, "rms": [0.3333333, None]}
    assert back.provenance == {"cpu": "abacus", "engine": "toy"}
    again = to_row(TINY, back, EARLY)
    assert again["losses"][2:] == row["losses"][2:] and again["first"] == row["first"]


@pytest.mark.parametrize("count", [0, 8, 9, 200, 201])
def test_a_curve_keeps_its_length(count):
    losses = [float(np.float32(5 / (step + 1))) for step in range(count)]
    row = to_row(TINY, Record(losses=losses, steps=500), EARLY)
    back = from_row(row).losses
    assert len(back) == count and len(row["losses"]) <= 200 and back[:8] == losses[:8]
    assert count > 200 or back == pytest.approx(losses, rel=1e-6)


def test_the_same_records_are_the_same_bytes(tmp_path):
    here, there = Records(tmp_path / "a"), Records(tmp_path / "b")
    assert here.write_rows("07", rows()) == here.build_path("07").stat().st_size
    there.write_rows("07", rows()[::-1])
    assert here.build_path("07").read_bytes() == there.build_path("07").read_bytes()
    assert list(here.load_rows("07")) == sorted(run.key() for run in variants())
    assert here.load_rows("08") == {} and here.find_row("f" * 24) is None
    Records(tmp_path / "a", "NVIDIA H200").write_rows("07", rows(TINY))
    found = {path.name for path in here.folder.iterdir()}
    assert found == {"07.jsonl.gz", "07.nvidia-h200.jsonl.gz"}
    assert here.list_names() == ["07"] and len(here.load_rows("07")) == 9


def test_a_file_that_is_new_or_written_again_is_seen_at_once(tmp_path):
    records = Records(tmp_path)
    assert records.list_names() == []
    records.write_rows("07", rows(TINY))
    assert records.list_names() == ["07"] and records.find_row(LANGUAGE.key()) is None
    records.write_rows("ladder", rows(LANGUAGE))
    assert records.list_names() == ["ladder", "07"] and records.find_row(LANGUAGE.key())
    records.write_rows("ladder", [])
    assert records.find_row(LANGUAGE.key()) is None


def test_any_reader_of_json_lines_reads_a_file(tmp_path):
    records = Records(tmp_path)
    bad = replace(record(), probes={"p": math.nan})
    records.write_rows("07", [*rows(LANGUAGE), to_row(TINY, bad, EARLY)])
    text = gzip.decompress(records.build_path("07").read_bytes()).decode()
    assert "NaN" not in text
    table = [json.loads(line) for line in text.splitlines()]
    assert [row["key"] for row in table] == sorted([LANGUAGE.key(), TINY.key()])
    assert len({tuple(row) for row in table}) == 1, "every line has the same columns"


def edited(content: bytes) -> bytes:
    return gzip.compress(gzip.decompress(content).replace(b'"steps": 3,', b'"steps": 4,', 1))


def of_the_future(content: bytes) -> bytes:
    found = [json.loads(line) for line in gzip.decompress(content).splitlines()]
    found[-1]["format"] = 2
    found[-1]["sum"] = compute_checksum(found[-1])
    return gzip.compress("".join(f"{json.dumps(row)}\n" for row in found).encode())


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: content[: len(content) // 2], "are damaged"),
        (lambda content: random.Random(0).randbytes(500), "are damaged"),
        (lambda content: gzip.compress(b"[" * 100_000), "line 1 .* is damaged"),
        (lambda content: gzip.compress(b"[]\n"), "format 1, got 'list'"),
        (edited, r"line \d of the records 07.jsonl.gz is damaged \(it was edited"),
        (of_the_future, r"line 9 .* must have format 1, got 2: take the labkit that wrote"),
    ],
    ids=["truncated", "foreign", "deep", "a list", "edited", "future"],
)
def test_a_damaged_file_is_named_once_and_the_others_still_read(tmp_path, damage, why):
    records, store, other = Records(tmp_path), Store(tmp_path), replace(TINY, seed=5)
    records.write_rows("07", rows())
    records.write_rows("08", rows(other))
    path = records.build_path("07")
    path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        with pytest.raises(RecordError, match=why) as caught:
            store.read_record(TINY)
        assert "07.jsonl.gz" in str(caught.value) and "git checkout" in str(caught.value)
    assert store.read_record(other) == from_row(records.load_rows("08")[other.key()])
    store.write_record(TINY, record(0.125))
    found = store.read_record(TINY)
    assert found is not None and found.losses[-1] == 0.125, "it is the store's own"


def test_of_a_stored_and_a_recorded_run_the_newer_counts(tmp_path):
    store = Store(tmp_path)
    store.write_record(TINY, record(0.25))
    for at, loss in ((EARLY, 0.25), (LATE, 0.125)):
        store.records.write_rows("07", [to_row(TINY, record(0.125), at)])
        found = store.read_record(TINY)
        assert found is not None and found.losses[-1] == loss
    store.build_path(TINY).unlink()
    assert store.read_record(TINY) == from_row(store.records.load_rows("07")[TINY.key()])
    assert Store(tmp_path, "a GPU").read_record(TINY) is None, (
        "what a GPU computed is another record"
    )
