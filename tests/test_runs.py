"""`labkit runs`: what a store holds, found, compared and written out; nothing of value removed."""

import csv
import json
import operator
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stored_runs import TINY, filled, make_older, make_stale, record, rewrite, said, variants

from labkit.experiments.queries import where
from labkit.experiments.queries.entries import Unreadable, find, scan
from labkit.experiments.queries.table import COLUMNS
from labkit.experiments.store import SCHEMA

DAMAGE = {
    "truncated": lambda text: text[: len(text) // 2],
    "edited": lambda text: text.replace("0.75", "0.74"),
    "empty": lambda text: "",
    "a list": lambda text: "[]",
    "no JSON": lambda text: "\x00\xff",
    "deep": lambda text: "[" * 100_000,
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def listed(capsys, *words: str) -> list[dict]:
    return json.loads(said(capsys, "list", "--json", *words))


def key(store, run) -> str:
    return store.path(run).stem


def test_runs_alone_lists_and_so_does_list(store, capsys):
    lines = said(capsys).splitlines()
    assert tuple(lines[0].split()) == COLUMNS
    assert len(lines) == 1 + 9 + 1 and lines[-1] == "9 of 9 runs"
    tiny = next(line for line in lines if "MLP on Digits" in line)
    assert (
        " ".join(tiny.split()[:11]) == f"{key(store, TINY)[:8]} MLP on Digits – batch 8 1 0.01 0 3"
    )
    assert "diverged at 3" in said(capsys, "list", "--where", "test.loss=none")


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        (["model.recipe=post"], 4),
        (["recipe=post", "lr>=1e-2"], 2),
        (["train.lr>=0.01"], 5),
        (["train.lr < 0.01", "seed != 0"], 2),
        (["seed=0"], 5),
        (["model.recipe!=post"], 4),  # a perceptron has no recipe
        (["what=MLP on Digits"], 1),
        (["probes=test"], 9),
        (["probes!=test"], 0),
        (["model.tie=false"], 8),
        (["model.kv_heads=none"], 8),
        (["model.kv_heads!=3"], 8),
        (["test.loss=none"], 1),
        (["test.loss!=none"], 8),
        (["test.loss<=0.35"], 3),
        (["age<1h"], 9),
        (["peak>=5e6"], 5),
    ],
)
def test_filters_compare_by_type(store, capsys, filters, count):
    assert len(listed(capsys, *(w for f in filters for w in ("--where", f)))) == count


@pytest.mark.parametrize(
    ("filter", "rule"),
    [
        ("model.recip=post", r"no run here has a field 'model.recip' (perhaps model.recipe?)"),
        ("seed=one", "seed is a number, got 'one'"),
        ("model.recipe>post", "model.recipe is a name: compare it with = or !=, not with >"),
        ("model.tie=maybe", "model.tie is true or false, got 'maybe'"),
        ("model.tie>false", "compare it with = or !="),
        ("probes<test", "probes is a list"),
        ("age>soon", "a duration is a number of seconds"),
        ("seed", "a filter is a field, one of = != < <= > >=, and a value"),
        ("seed=>1", "a filter is"),
        ("=1", "a filter is"),
    ],
)
def test_a_filter_that_makes_no_sense_is_misuse(store, capsys, filter, rule):
    assert rule in said(capsys, "list", "--where", filter, status=2)


@pytest.mark.parametrize("words", [["--sort", "lrr"], ["--columns", "key,lrr"], ["--limit", "-1"]])
def test_an_option_that_makes_no_sense_is_misuse(store, capsys, words):
    assert words[-1].split(",")[-1] in said(capsys, *words, status=2)


numbers = st.none() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)


@settings(deadline=None, derandomize=True)  # a busy machine
@given(
    st.lists(numbers),
    numbers.filter(lambda x: x is not None),
    st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
)
def test_a_number_is_compared_as_python_does(values, limit, sign):
    rows = [{"x": value} for value in values]
    compare = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le}
    compare |= {">": operator.gt, ">=": operator.ge}
    expected = [
        row
        for row in rows
        if (sign == "!=" if row["x"] is None else compare[sign](row["x"], limit))
    ]
    assert where.select(rows, [f"x{sign}{limit!r}"]) == expected


@settings(deadline=None, derandomize=True)
@given(st.lists(numbers), st.booleans())
def test_sorting_keeps_every_row_and_puts_nulls_last(values, descending):
    rows = where.order([{"x": value} for value in values], "x", descending)
    found = [row["x"] for row in rows]
    there = [x for x in found if x is not None]
    assert there == sorted(there, reverse=descending)
    assert found[len(there) :] == [None] * values.count(None) and len(found) == len(values)


def test_sort_limit_columns(store, capsys):
    rows = listed(
        capsys, "--sort", "test.loss", "--descending", "--limit", "2", "--columns", "seed,test"
    )
    assert rows == [{"seed": 0, "test": 0.9}, {"seed": 1, "test": 0.8}]
    text = said(capsys, "--columns", "key,peak", "--limit", "3", "--sort", "peak")
    assert [line.split()[1:] for line in text.splitlines()[:4]] == [
        ["peak"],
        ["1", "MiB"],
        ["2", "MiB"],
        ["3", "MiB"],
    ]
    assert "3 of 9 runs; --limit 0 shows all" in text


def test_an_empty_store_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    assert "no runs are stored here yet" in said(capsys)
    assert listed(capsys, "--where", "seed=0") == []
    assert "removed 0 files" in said(capsys, "gc")
    assert "0 begin with 'ab'" in said(capsys, "show", "ab", status=2)


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_no_entry_is_skipped_and_counted(store, capsys, damage):
    path = store.path(TINY)
    path.write_text(DAMAGE[damage](path.read_text()), encoding="latin-1")
    for name in ("notes.txt", "0123.json", ".writing-1", ".ray-1", f".{'c' * 64}.lock"):
        (store.folder / name).write_text("{}")
    (store.folder / ("a" * 64 + ".json")).mkdir()
    (store.folder / ("b" * 64 + ".json")).symlink_to("nowhere")
    text = said(capsys)
    assert "8 of 8 runs" in text
    assert (
        "besides: 1 damaged, 1 not finished writing, 2 locked by somebody at work, or killed, "
        "4 no entries of a store"
    ) in text
    assert "cannot be read" in said(capsys, "show", path.stem, status=1)


def test_a_copy_under_another_run_s_name_is_damaged(store):
    other = replace(TINY, seed=7)
    store.path(other).write_text(store.path(TINY).read_text())
    assert [file.path for file in scan(store.folder).damaged] == [store.path(other)]
    with pytest.raises(Unreadable, match="it belongs to another run"):
        find(store.folder, key(store, other))


def test_an_entry_of_a_later_schema_is_left_alone(store, capsys):
    path = store.path(TINY)
    path.write_text(path.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'))
    assert "1 no entries of a store" in said(capsys)
    said(capsys, "gc", "--damaged")
    assert path.exists()
    assert "a later labkit wrote it" in said(capsys, "show", path.stem, status=1)


def test_an_entry_is_current_recorded_or_stale(store, capsys):
    runs = variants()
    make_stale(store, runs[0])
    make_older(store.path(runs[1]))
    # Another code or torch made it: the key is of the run alone, and a replay tells the rest.
    rewrite(store.path(runs[2]), made={"code": "0" * 16, "torch": "1.0"})
    store.records.write("07", [store.row(runs[3])])
    store.path(runs[3]).unlink()
    shelf = scan(store.folder)
    assert [entry.why for entry in shelf.of("stale")] == ["an older schema"] * 2
    assert [entry.key for entry in shelf.of("recorded")] == [runs[3].key()]
    assert {entry.key for entry in shelf.of("current")} == {
        run.key() for run in (runs[2], *runs[4:])
    }
    assert "7 of 7 runs" in said(capsys)
    assert "9 of 9 runs" in said(capsys, "--all")
    text = said(capsys, "show", runs[3].key()[:10])
    assert "recorded" in text and "where=07.jsonl.gz" in text and "diverged_at=3" in text


def test_a_current_entry_is_one_that_the_store_would_give(store):
    keys = {run.key() for run in variants()}
    assert {entry.key for entry in scan(store.folder).of("current")} == keys
    assert all(store.get(run) is not None for run in variants())


def test_show_says_everything(store, capsys):
    text = said(capsys, "show", key(store, TINY)[:10])
    for part in ("MLP on Digits; current", "width=8", "batch=16", "lr=0.01", "steps=3 of 3",
                 "first=1", "last=0.9", "test.loss=0.9", "residual-rms=[1, 2, 4]", "commit=abc",
                 f"torch={torch.__version__}", "peak_bytes="):  # fmt: skip
        assert part in text
    assert "begin with ''" in said(capsys, "show", "", status=2)


def test_a_prefix_that_several_have_names_them(store, capsys):
    (store.folder / ("ab" * 32 + ".json")).write_text("")
    (store.folder / ("ac" * 32 + ".json")).write_text("")
    assert "begin with 'a': " in (text := said(capsys, "show", "a", status=2))
    assert "abababababab" in text and "acacacacacac" in text


def test_compare_shows_only_what_differs(store, capsys):
    a, b = variants()[0], variants()[2]
    text = said(capsys, "compare", key(store, a), key(store, b))
    names = [line.split()[0] for line in text.splitlines() if line]
    assert "train.lr" in names and "test.loss" in names
    assert "model.recipe" not in names and "seed" not in names and "made.code" not in names
    row = next(line for line in text.splitlines() if line.startswith("train.lr"))
    assert row.split()[1:] == ["0.001", "0.01"]
    assert "two runs or more" in said(capsys, "compare", key(store, a), key(store, a), status=2)


def test_csv_has_a_row_a_run_and_its_numbers(store, capsys):
    out = Path("out.csv")
    assert "4 runs in out.csv" in said(capsys, "export", str(out), "--where", "recipe=post")
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["key"] for row in rows} == {key(store, run) for run in variants()[4:8]}
    assert {float(row["train.lr"]) for row in rows} == {1e-3, 1e-2}
    assert rows[0]["train.betas"] == "[0.9, 0.98]" and rows[0]["model.kv_heads"] == ""
    assert "residual-rms" not in rows[0] and float(rows[0]["test.accuracy"]) == 0.5


def test_parquet_has_the_loss_of_every_step(store, capsys):
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet")
    store.put(replace(TINY, seed=2**70), record())
    said(capsys, "export", "out.parquet")
    rows = pyarrow_parquet.read_table("out.parquet").to_pylist()
    assert len(rows) == 10
    found = {row["key"]: row for row in rows}[key(store, variants()[3])]
    assert found["losses"] == [1.0, 0.75, 0.5] and found["diverged_at"] == 3
    assert found["test.loss"] is None and found["train.lr"] == 0.01
    assert {type(row["seed"]) for row in rows} == {str}, "a seed that is no 64-bit integer"
    assert {type(row["model.tie"]) for row in rows} == {bool, type(None)}


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_an_export_that_fails_leaves_what_was_there(store, capsys, monkeypatch, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="the extra parquet")
    Path(name).write_text("as before")

    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "could not be written: [Errno 28]" in said(capsys, "export", name, status=2)
    assert Path(name).read_text() == "as before"
    assert sorted(p.name for p in Path.cwd().iterdir()) == [".labkit", name]


def test_export_says_what_it_needs(store, capsys, monkeypatch):
    assert ".csv or .parquet; got 'out.xls'" in said(capsys, "export", "out.xls", status=2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "extra `parquet`" in said(capsys, "export", "out.parquet", status=2)
    assert not Path("out.parquet").exists()
