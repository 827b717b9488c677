"""The block explorer's data agree with the records; a chapter shows an excerpt of them."""

import json
import math
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from scipy import stats

from labkit.experiments import ladder
from labkit.experiments.store import Store
from labkit.leaderboard import show_explorer as shown
from labkit.leaderboard.explorer import describe_rung, list_recipes
from labkit.placements import RECIPES
from labkit.plots.looks import choose_look
from press.lint.budgets import count_explorers
from press.site import explorer
from press.site.figures import Place
from press.site.page import draw_figure
from press.site.sphinx_sources import script_files

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / explorer.FOLDER
STYLE = (ROOT / "chapters" / "_static" / "book.css").read_text(encoding="utf-8")


def load(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    """Read the rows of the ladder, without labkit."""
    text = (ROOT / "data" / "records" / "ladder.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def of_recipe(rows: list[dict], name: str, **asked) -> list[dict]:
    """Select the unmodified runs of a recipe on rung S."""
    plain = {"embedding_size": 1.0, "init": None, "softcap": None, "experts": None}
    plain |= {"type": "ModelConfig", "dim": 32, "depth": 6, "recipe": name}
    return [
        row
        for row in rows
        if all(row["run"]["model"].get(field, value) == value for field, value in plain.items())
        and row["run"]["model"]["norm"] == "rms"
        and row["run"]["train"]["weight_decay"] == 0
        and row["run"]["data"].get("source", "speeches") == "speeches"
        and all(row["run"]["train"].get(k, row["run"].get(k)) == v for k, v in asked.items())
    ]


@pytest.mark.parametrize("name", ["pre", "qk", "post", "none", "hybrid"])
def test_what_the_explorer_says_of_a_recipe_stands_in_the_records(rows, name):
    told = load("S")["recipes"][name]
    assert told["report"] in ("strict", "first look")
    seeds = range(5, 25) if told["report"] == "strict" else range(5)
    final = [row for seed in seeds for row in of_recipe(rows, name, lr=told["rate"], seed=seed)]
    losses = [row["probes"]["test"]["loss"] for row in final]
    assert len(losses) == len(seeds)
    assert told["seeds"] == pytest.approx(losses, abs=6e-5)
    assert told["mean"] == pytest.approx(fmean(losses), abs=6e-5)
    half = stats.t.interval(0.95, len(losses) - 1, fmean(losses), stats.sem(losses))
    assert told["interval"] == pytest.approx(half, abs=6e-5)
    for rate, mean, every, ends in told["tried"]:
        tried = [row for row in of_recipe(rows, name, lr=rate) if row["run"]["seed"] >= 1000]
        lost = sorted(row["diverged_at"] for row in tried if row["diverged_at"] is not None)
        kept = [row["probes"]["validation"]["loss"] for row in tried if row["diverged_at"] is None]
        assert (ends, len(every)) == (lost, len(kept))
        assert every == pytest.approx(sorted(kept), abs=6e-4)
        assert mean is None if lost else mean == pytest.approx(fmean(kept), abs=6e-4)
    stream = np.mean([row["probes"]["residual-rms"] for row in final], axis=0)
    assert told["by block"]["stream"] == pytest.approx(stream, rel=6e-3)
    entropy = np.mean([row["probes"]["attention"]["entropy"] for row in final], axis=0)
    assert told["by block"]["entropy"] == pytest.approx(entropy, rel=6e-3)
    first = min(of_recipe(rows, name, lr=0.001), key=lambda row: row["run"]["seed"])
    every, curve = told["curves"]["0.001"]
    per_point = every // first["every"]
    assert curve[-1] == pytest.approx(fmean(first["losses"][-per_point:]), rel=6e-3)
    assert len(curve) == math.ceil(len(first["losses"]) / per_point)


def test_every_recipe_and_rung_of_the_records_is_in_the_explorer(rows):
    names = {row["run"]["model"]["recipe"] for row in rows}
    found = {name for name in names if of_recipe(rows, name)} | {"ngpt"}  # a model of its own type
    assert set(load("S")["recipes"]) == found
    index = load("index")
    assert {path.stem for path in FOLDER.glob("*.json")} == {"index", *index["rungs"]}
    assert set(index["recipes"]) == {name for name in RECIPES if name in ladder.ARMS}
    for rung in index["rungs"]:
        assert set(load(rung)["recipes"]) <= set(index["recipes"])
        assert load(rung)["size"] == index["rungs"][rung]
        assert load(rung)["steps"] == ladder.RUNGS[rung].steps
    assert index["rungs"]["S"] == "6 blocks of width 32"
    assert index["rungs"]["D"] == ladder.RUNGS["D"].changes


@pytest.mark.slow
@pytest.mark.parametrize("pair", [("qk", "pre"), ("pre", "dyt")], ids="-".join)
def test_a_pair_has_the_difference_that_the_ladder_gives_it(pair):
    told = load("S")
    order, pairs = told["order"], told["pairs"]
    assert len(pairs) == len(order) * (len(order) - 1) // 2
    i, j = sorted(map(order.index, pair))
    found = ladder.read_ladder(["S"], [order[i], order[j]], Store(ROOT).read_recorded)
    lead = ladder.improvement(found, order[i], order[j])["S"]
    mean, low, high, apart = pairs[i * len(order) - i * (i + 1) // 2 + j - i - 1]
    assert (mean, low, high) == pytest.approx((lead.mean, *lead.compute_interval()), rel=6e-3)
    means = {arm: told["recipes"][arm]["mean"] for arm in order}
    assert mean == pytest.approx(means[order[j]] - means[order[i]], abs=2e-4)
    assert low * high > 0 or not apart, "after Holm's correction fewer are told apart, not more"
    assert apart or "dyt" not in pair


def test_a_recipe_has_one_colour_everywhere():
    index = load("index")
    for name, told in index["recipes"].items():
        assert index["colours"][told["colour"]] == choose_look(name).colour
        # a page has it under this name, in the dark another one; light has the value itself
        assert told["colour"] == "ink" or f"--figure-{told['colour']}: #" in STYLE


def test_what_is_more_than_norms_in_slots_says_what():
    for name, told in list_recipes().items():
        assert bool(told["also"]) is not told["alone"], name


def test_the_site_has_each_file_as_a_script():
    files = {"_static/blocks/S.json": b'{"a":1}\n', "_static/book.css": b"", "x.json": b"{}"}
    assert list(script_files(files)) == [
        ("_static/blocks/S.json", "_static/blocks/S.js", b'labkitBlocks("S",{"a":1});\n')
    ]


# -- in a chapter -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def small():
    """Read rung `smoke` of a ladder with artificial records."""
    rows = []
    for arm, shift in (("pre", 0.0), ("post", 0.3), ("pre, layer", 0.1)):
        for rate in (0.001, 0.01):
            loss = 2.0 + shift + rate
            labels = {"arm": arm, "rung": "smoke", "lr": rate, "seed": 1000, "stage": "tuning"}
            rows.append((labels, made_up(loss)))
    return ladder.Ladder(tuple(rows))


def made_up(loss):
    from labkit.training import Record

    return Record([], 4, probes={"validation": {"loss": loss}}, provenance={"seed": 1000})


class Lab:
    """The part of a lab that show_explorer uses."""

    @staticmethod
    def provenance(*results):
        return {"runs": sum(map(len, results)), "seeds": [1000]}


def test_a_chapter_s_picture_has_both_blocks_and_tells_the_page_how_the_explorer_begins(small):
    figure = shown.show_explorer(Lab, small, "pre", beside="post", caption="Two blocks.")
    assert "Post-Norm: norms on the residual stream" in figure.alt
    assert figure.alt.index("Post-Norm:") < figure.alt.index("Pre-Norm:")
    assert "Pre-Norm rises from 2 at 0.001 to 2.01 at 0.01" in figure.alt
    assert figure.metadata()["explorer"] == "r=pre&a=post"
    assert figure.metadata()["provenance"]["runs"] == 4
    output = {
        "metadata": {"labkit": {"kind": "figure", **figure.metadata()}},
        "data": {"image/png": figure.base64(), "text/plain": figure.alt},
        "output_type": "display_data",
    }
    drawn = draw_figure(output, {}, Place("2.1", "figure-two", ""))
    start = '<figure class="labkit-figure" id="figure-two" data-explorer="r=pre&amp;a=post">'
    assert start in drawn
    assert count_explorers({"cells": [{"outputs": [output, {"metadata": {}}]}]}) == 1


def outputs_of(figure):
    InteractiveShell.instance()
    with capture_output() as captured:
        figure._ipython_display_()
    return [(out.metadata["labkit"]["kind"], out.data) for out in captured.outputs]


def test_the_explorer_is_live_where_a_notebook_runs_and_a_build_keeps_the_picture(
    small, monkeypatch
):
    figure = shown.show_explorer(Lab, small, "pre", caption="One block.")
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("LABKIT_POOL", raising=False)
    kinds = [kind for kind, _ in outputs_of(figure)]
    assert kinds == ["figure", "caption", "volatile"]
    frame = outputs_of(figure)[-1][1]["text/html"]
    assert frame.startswith('<iframe title="The block explorer" srcdoc="')
    assert "labkitBlocks(&quot;S&quot;" in frame and "</script" not in frame
    assert len(re.findall("&lt;/script&gt;", frame)) == 1
    monkeypatch.setenv("LABKIT_POOL", "1")
    assert [kind for kind, _ in outputs_of(figure)] == ["figure", "caption"]


def test_without_the_book_s_folder_there_is_the_picture_alone(tmp_path):
    assert shown.draw_live("r=pre", tmp_path) == ""


def test_a_rung_that_nobody_reported_on_has_no_pairs():
    found = ladder.Ladder(
        ((
            {"arm": "pre", "rung": "S", "lr": 0.01, "seed": 1000, "stage": "tuning"},
            made_up(1.5),
        ),)
    )  # fmt: skip
    told = describe_rung(found, "S", lambda run: None)
    assert (told["order"], told["pairs"], told["minutes"]) == ([], [], None)
    assert told["recipes"]["pre"]["tried"] == [(0.01, 1.5, [1.5], [])]
    assert "mean" not in told["recipes"]["pre"]
