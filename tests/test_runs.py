"""`labkit runs`: what a store holds, found and written out."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from stored_runs import TINY, filled, record, said, variants


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return filled(tmp_path)


def exported(capsys, *words: str) -> list[dict]:
    said(capsys, "export", "out.jsonl", *words)
    return [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]


def test_list_has_a_line_a_run(store, capsys):
    lines = said(capsys, "list").splitlines()
    assert len(lines) == 1 + 9 + 1 and lines[-1] == "9 of 9 runs"
    assert "model.norm" in lines[0] and "peak_bytes" not in lines[0]
    tiny = next(line for line in lines if "MLPConfig" in line)
    assert tiny.split()[:2] == [TINY.key()[:8], "MLPConfig"] and "<NA>" not in tiny


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("model.recipe == 'post' and train.lr < 0.01", 2),
        ("model.recipe != 'post'", 5),  # to pandas, a perceptron has another
        ("model.recipe.str.startswith('p')", 8),
        ("model.tie == False", 8),
        ("model.kv_heads.isna() and model.dim > 0", 8),
        ("`test.loss` <= 0.35", 3),
        ("diverged_at == 3", 1),
        ("peak_bytes >= 5e6", 5),
        ("model.recipe in ['post', 'a = b']", 4),
    ],
)
def test_a_condition_is_an_expression(store, capsys, condition, count):
    assert len(exported(capsys, "--where", condition)) == count


def test_several_conditions_must_all_hold(store, capsys):
    words = ("--where", "model.recipe == 'post'", "--where", "seed == 1")
    assert len(exported(capsys, *words)) == 2


@pytest.mark.parametrize(
    ("condition", "rule"),
    [
        ("model.recipe = post", "compares with ==; got 'model.recipe = post', "
         "write \"model.recipe == 'post'\""),
        ("model.recipe=post", "write \"model.recipe == 'post'\""),
        ("seed=1 and model.tie = True", 'write "seed == 1 and model.tie == True"'),
        ("model.recipe == post", "KEY` lists them); a text stands in quotes"),
        ("model.recip == 'post'", "no run has a column 'model.recip' (perhaps model.recipe?)"),
        ("recipe == 'post'", "'recipe' (perhaps model.recipe?)"),
        ("model.recipe > 3", "got 'model.recipe > 3' (it compares a number with a text"),
        ("seed > 'a'", "got \"seed > 'a'\" (it compares a number with a text"),
        ("seed", "it is neither true nor false"),
        ("(" * 500, "a condition is"),
    ],
)  # fmt: skip
def test_a_condition_that_makes_no_sense_is_misuse_in_one_line(store, capsys, condition, rule):
    text = said(capsys, "list", "--where", condition, status=2)
    assert rule in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["--sort", "lrr"], "no run has a column 'lrr'"),
        (["--sort", "lr"], "'lr' (perhaps train.lr?)"),
        (["--columns", "key,train.lrr"], "'train.lrr' (perhaps train.lr?)"),
        (["--columns", "zzz"], "`labkit runs show KEY` lists them"),
        (["--limit", "-1"], "'--limit': Input should be greater than or equal to 0, got '-1'"),
        (["--sort", "provenance.mixed"], "values of provenance.mixed have no order"),
    ],
)
def test_a_column_that_is_unknown_or_has_no_order_is_misuse_in_one_line(store, capsys, words, rule):
    store.write_record(TINY, record(), mixed=[1])
    store.write_record(variants()[0], record(), mixed=1)
    text = said(capsys, "list", *words, status=2)
    assert rule in text and text.count("\n") == 1


def test_sort_limit_columns(store, capsys):
    words = ("--sort", "test.loss", "--descending", "--limit", "2", "--columns", "seed,loss")
    assert said(capsys, "list", *words).split()[:6] == ["seed", "loss", "0", "0.9", "1", "0.8"]
    words = ("--columns", "peak_bytes", "--sort", "peak_bytes", "--limit", "2")
    assert [line.strip() for line in said(capsys, "list", *words).splitlines()] == [
        "peak_bytes",
        str(2**20),
        str(2**21),
        "2 of 9 runs; --limit 0 shows all",
    ]


def test_an_empty_store_is_fine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    words = ("--where", "seed == 0", "--sort", "seed")
    assert said(capsys, "list", *words) == "0 of 0 runs; `make runs` trains those of the book\n"
    assert said(capsys, "gc") == "removed nothing\n"
    assert "0 begin with 'ab'" in said(capsys, "show", "ab", status=2)
    filled(tmp_path)
    assert said(capsys, "list", "--where", "seed == 9") == "0 of 0 runs\n"


def test_what_is_no_record_is_left_out_and_a_damaged_one_is_named(store, capsys):
    path = store.build_path(TINY)
    path.write_text(path.read_text().replace("0.75", "0.74"))
    for name in ("notes.txt", "0123.json", ".writing-1", f".{'c' * 24}.lock"):
        (store.folder / name).write_text("{}")
    store.mark_stale(variants()[0].key())
    with pytest.warns(UserWarning, match=f"{TINY.key()}.json is damaged"):
        assert "8 of 8 runs" in said(capsys, "list")
    with pytest.warns(UserWarning, match="is damaged"):
        assert "is damaged" in said(capsys, "show", TINY.key(), status=2)


def test_a_run_is_the_newer_of_the_store_s_and_the_book_s(store, capsys):
    keys = [run.key() for run in variants()[:2]]
    store.records.write_rows("07", [store.find_row(key) for key in keys])
    store.build_path(variants()[0]).unlink()
    store.write_record(variants()[1], record(0.7), at="2999-01-01T00:00:00+00:00")
    found = {row["key"]: row for row in exported(capsys)}
    assert len(found) == 9
    assert found[keys[0]]["file"] == "07.jsonl" and found[keys[0]]["test.loss"] == 0.1
    assert found[keys[1]]["file"] == f"{keys[1]}.json" and found[keys[1]]["test.loss"] == 0.7


def test_show_says_everything(store, capsys):
    text = said(capsys, "show", TINY.key()[:10])
    fields = dict(line.split(None, 1) for line in text.splitlines())
    assert fields["key"] == TINY.key() and fields["provenance.commit"] == "abc"
    assert fields["model.width"] == "8" and fields["train.lr"] == "0.01"
    assert fields["residual-rms"] == "[1.0, 2.0, 4.0]" and fields["peak_bytes"] == str(9 * 2**20)
    assert "model.recipe" not in fields
    assert "9 begin with ''" in said(capsys, "show", "", status=2)


def test_a_key_that_nothing_has_is_told_without_torch(store):
    program = (
        "import sys; from press import cli\n"
        "status = cli.main(['runs', 'show', 'zzz'])\n"
        "print(status, 'torch' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "2 False False\n" and "0 begin with 'zzz'" in done.stderr


def test_csv_has_a_row_a_run_and_its_numbers(store, capsys):
    assert ".csv or .jsonl; got 'out.xls'" in said(capsys, "export", "out.xls", status=2)
    words = ("export", "out.csv", "--where", "model.recipe == 'post'")
    assert "4 runs in out.csv" in said(capsys, *words)
    with open("out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["key"] for row in rows} == {run.key() for run in variants()[4:8]}
    assert {float(row["train.lr"]) for row in rows} == {1e-3, 1e-2}
    assert rows[0]["train.betas"] == "[0.9, 0.98]" and rows[0]["model.kv_heads"] == ""
    assert "losses" not in rows[0] and float(rows[0]["test.accuracy"]) == 0.5


def test_json_lines_have_the_loss_of_every_step(store, capsys):
    store.write_record(replace(TINY, seed=2**70), record())
    rows = exported(capsys)
    found = {row["key"]: row for row in rows}[variants()[3].key()]
    assert len(rows) == 10 and max(row["seed"] for row in rows) == 2**70
    assert found["losses"] == [1.0, 0.75, 0.5] and found["diverged_at"] == 3
    assert found["test.loss"] is None and found["train.lr"] == 0.01 and found["model.tie"] is False
