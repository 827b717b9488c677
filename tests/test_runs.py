"""`labkit runs`: what a store holds, found, compared and written out."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from stored_runs import TINY, filled, make_older, record, rewrite, said, variants


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def listed(capsys, *words: str) -> list[dict]:
    return json.loads(said(capsys, "list", "--json", *words))


def test_runs_alone_lists_and_so_does_list(store, capsys):
    text = said(capsys)
    assert said(capsys, "list") == text
    assert said(capsys, "--limit", "1", "list") == said(capsys, "list", "--limit", "1") != text
    lines = text.splitlines()
    assert len(lines) == 1 + 9 + 1 and lines[-1] == "9 of 9 runs"
    assert "model.norm" in lines[0] and "made.engine" not in lines[0]
    tiny = next(line for line in lines if "MLPConfig" in line)
    assert tiny.split()[:2] == [TINY.key()[:8], "MLPConfig"] and "<NA>" not in text


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        (["model.recipe=post"], 4),
        (["model.recipe == 'post' and train.lr < 0.01"], 2),
        (["model.recipe != 'post'"], 5),  # to pandas, a perceptron has another
        (["model.recipe.str.startswith('p')"], 8),
        (["model.tie=false"], 8),
        (["model.kv_heads.isna() and model.dim > 0"], 8),
        (["`test.loss` <= 0.35"], 3),
        (["diverged_at == 3"], 1),
        (["made.peak_bytes>=5e6"], 5),
        (["model.recipe=and"], 0),
    ],
)
def test_conditions_are_values_or_expressions(store, capsys, conditions, count):
    assert len(listed(capsys, *(w for c in conditions for w in ("--where", c)))) == count


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--where", "model.recip == 'post'"], "perhaps model.recipe"),
        (["--where", "model.recipe > 3"], "got 'model.recipe > 3' ("),
        (["--where", "seed"], "it is neither true nor false"),
        (["--where", "(" * 500], "a condition is"),
        (["--sort", "lrr"], "no run has a field 'lrr'"),
        (["--columns", "key,train.lrr"], "'train.lrr'; perhaps train.lr"),
        (["--limit", "-1"], "'--limit': Input should be greater than or equal to 0, got '-1'"),
        (["--sort", "made.mixed"], "values of made.mixed have no order"),
    ],
)
def test_what_makes_no_sense_is_misuse_in_one_line(store, capsys, words, rule):
    store.write_record(TINY, record(), mixed=[1])
    store.write_record(variants()[0], record(), mixed=1)
    text = said(capsys, "list", *words, status=2)
    assert rule in text and text.count("\n") == 1


def test_sort_limit_columns(store, capsys):
    rows = listed(
        capsys, *("--sort", "test.loss", "--descending", "--limit", "2"), "--columns", "seed,loss"
    )
    assert rows == [{"seed": 0, "loss": 0.9}, {"seed": 1, "loss": 0.8}]
    text = said(capsys, "--columns", "made.peak_bytes", "--sort", "made.peak_bytes", "--limit", "2")
    assert [line.strip() for line in text.splitlines()] == [
        "made.peak_bytes",
        str(2**20),
        str(2**21),
        "2 of 9 runs; --limit 0 shows all",
    ]


def test_an_empty_store_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    assert "0 of 0 runs; `make runs` trains those of the book" in said(capsys)
    assert listed(capsys, "--where", "seed=0", "--sort", "seed") == []
    assert "removed 0 files" in said(capsys, "gc")
    assert "0 begin with 'ab'" in said(capsys, "show", "ab", status=2)
    filled(tmp_path)
    assert said(capsys, "--where", "seed=9") == "0 of 0 runs\n"


def test_what_is_no_entry_is_skipped_and_counted(store, capsys):
    path = store.build_path(TINY)
    path.write_text(path.read_text().replace("0.75", "0.74"))
    store.build_path(replace(TINY, seed=7)).write_text(store.build_path(variants()[0]).read_text())
    make_older(store.build_path(variants()[1]))
    rewrite(store.build_path(variants()[2]), record={"of another labkit": 1})
    for name in ("notes.txt", "0123.json", ".writing-1", f".{'d' * 64}.lock", f".{'c' * 64}.lock"):
        (store.folder / name).write_text("{}")
    store.mark_stale(TINY.key())
    (store.folder / ("a" * 24 + ".json")).mkdir()
    (store.folder / ("b" * 64 + ".json")).symlink_to("nowhere")
    text = said(capsys)
    assert "6 of 6 runs" in text
    for others in ("3 damaged", "1 left half written", "2 locks", "4 no entries of a store",
                   "1 of an older version"):  # fmt: skip
        assert others in text


def test_a_run_is_the_newer_of_the_store_s_and_the_book_s(store, capsys):
    runs = variants()
    store.records.write_rows("07", [store.read_row(run) for run in runs[:2]])
    store.build_path(runs[0]).unlink()
    files = {row["key"]: row["file"] for row in listed(capsys)}
    assert len(files) == 9 and files[runs[0].key()] == "07.jsonl.gz"
    row = listed(capsys, "--where", f"key={runs[0].key()}")[0]
    assert row["test.loss"] == 0.1 and row["loss"] == pytest.approx(0.1)


def test_show_says_everything(store, capsys):
    text = said(capsys, "show", TINY.key()[:10])
    fields = dict(line.split(None, 1) for line in text.splitlines())
    assert fields["key"] == TINY.key() and fields["provenance.commit"] == "abc"
    assert fields["model.width"] == "8" and fields["train.lr"] == "0.01"
    assert fields["residual-rms"] == "[1.0, 2.0, 4.0]" and fields["made.torch"] == torch.__version__
    assert "model.recipe" not in fields
    assert "9 begin with ''" in said(capsys, "show", "", status=2)


def test_compare_shows_only_what_differs(store, capsys):
    a, b = variants()[1], variants()[3]  # the second diverged
    text = said(capsys, "compare", a.key(), b.key()[:12])
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["train.lr"] == ["0.001", "0.01"] and rows["diverged_at"] == ["–", "3"]
    assert rows["test.loss"] == ["0.2", "–"] and not {"model.recipe", "seed"} & set(rows)
    assert "two runs or more" in said(capsys, "compare", a.key(), a.key(), status=2)


def test_csv_has_a_row_a_run_and_its_numbers(store, capsys):
    assert ".csv or .jsonl; got 'out.xls'" in said(capsys, "export", "out.xls", status=2)
    assert "4 runs in out.csv" in said(capsys, "export", "out.csv", "--where", "model.recipe=post")
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["key"] for row in rows} == {run.key() for run in variants()[4:8]}
    assert {float(row["train.lr"]) for row in rows} == {1e-3, 1e-2}
    assert rows[0]["train.betas"] == "[0.9, 0.98]" and rows[0]["model.kv_heads"] == ""
    assert "losses" not in rows[0] and float(rows[0]["test.accuracy"]) == 0.5


def test_json_lines_have_the_loss_of_every_step(store, capsys):
    store.write_record(replace(TINY, seed=2**70), record())
    said(capsys, "export", "out.jsonl")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    found = {row["key"]: row for row in rows}[variants()[3].key()]
    assert len(rows) == 10 and max(row["seed"] for row in rows) == 2**70
    assert found["losses"] == [1.0, 0.75, 0.5] and found["diverged_at"] == 3
    assert found["test.loss"] is None and found["train.lr"] == 0.01 and found["model.tie"] is False
