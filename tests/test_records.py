"""The book's records: what a file keeps of a run, what damage does, which of two records counts."""

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
    "ec646a9ced18c3bc41ffeb61": LANGUAGE,
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
    assert found == {"07.jsonl", "07.nvidia-h200.jsonl"}
    assert here.list_names() == ["07"] and len(here.load_rows("07")) == 9


def test_a_file_that_is_new_or_written_again_is_seen_at_once(tmp_path):
    records = Records(tmp_path)
    assert records.list_names() == []
    records.write_rows("07", rows(TINY))
    assert records.list_names() == ["07"] and records.find_row(LANGUAGE.key()) is None
    records.write_rows("ladder", rows(LANGUAGE))
    assert records.list_names() == ["ladder", "07"] and records.find_row(LANGUAGE.key())
    assert records.write_rows("ladder", []) == 0 and records.list_names() == ["07"]
    assert records.find_row(LANGUAGE.key()) is None


def test_any_reader_of_json_lines_reads_a_file(tmp_path):
    records = Records(tmp_path)
    bad = replace(record(), probes={"p": math.nan})
    records.write_rows("07", [*rows(LANGUAGE), to_row(TINY, bad, EARLY)])
    text = records.build_path("07").read_text(encoding="utf-8")
    assert "NaN" not in text
    table = [json.loads(line) for line in text.splitlines()]
    assert [row["key"] for row in table] == sorted([LANGUAGE.key(), TINY.key()])
    assert len({tuple(row) for row in table}) == 1, "every line has the same columns"


def edit_line(content: bytes) -> bytes:
    return content.replace(b'"steps": 3,', b'"steps": 4,', 1)


def of_the_future(content: bytes) -> bytes:
    first, *others = content.splitlines(keepends=True)
    row = json.loads(first) | {"format": 2}
    row["sum"] = compute_checksum(row)
    return b"".join([f"{json.dumps(row)}\n".encode(), *others])


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda content: content[:-100], "line 9 of the records 07.jsonl is damaged"),
        (lambda content: b"[" * 100_000 + b"\n" + content, "line 1 of the records 07.jsonl"),
        (lambda content: b"[]\n" + content, "line 1 .* format 1, got 'list'"),
        (edit_line, r"line 1 .* is damaged \(a record's checksum must match"),
        (of_the_future, r"line 1 .* must have format 1, got 2; read it with the labkit"),
    ],
    ids=["truncated", "deep", "a list", "edited", "future"],
)
def test_a_damaged_line_is_left_out_by_name_and_all_others_are_read(tmp_path, damage, why):
    records, store = Records(tmp_path), Store(tmp_path)
    records.write_rows("07", rows())
    path, before = records.build_path("07"), list(records.load_rows("07"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=why) as caught:
        found = [key for key in before if records.find_row(key)]
    assert len(caught) == 1 and "git checkout" in str(caught[0].message)
    lost = set(before) - set(found)
    assert lost <= {before[0], before[-1]} and len(lost) == (path.read_bytes()[:1] == b"{")
    with pytest.raises(RecordError, match=why):
        records.load_rows("07")  # whoever writes the file again would lose the line
    for run in variants():
        if run.key() in lost:
            assert store.read_record(run) is None
            store.write_record(run, record(0.125))
            assert store.read_record(run).losses[-1] == 0.125, "it is the store's own"


@pytest.mark.parametrize("content", [b"", b"\n\n", random.Random(0).randbytes(500)])
def test_a_file_without_a_whole_line_is_an_error_and_the_others_still_read(tmp_path, content):
    records, store, other = Records(tmp_path), Store(tmp_path), replace(TINY, seed=5)
    records.write_rows("07", rows(other))
    records.build_path("08").write_bytes(content)
    for _ in range(2):
        with pytest.raises(
            RecordError, match=r"complete line, but 08.jsonl has none: .*git checkout"
        ):
            store.read_record(TINY)
    assert store.read_record(other) == from_row(records.load_rows("07")[other.key()])
    store.write_record(TINY, record(0.125))
    assert store.read_record(TINY).losses[-1] == 0.125, "it is the store's own"


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
