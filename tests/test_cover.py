"""The cover's texts and map agree with the records, and the page contains all of them as HTML."""

import html
import json
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.experiments.records import Records
from labkit.experiments.run import Run
from labkit.leaderboard import voices
from labkit.probes.voice import CHARACTERS
from press.site import cover

ROOT = Path(__file__).parents[1]
LINES = {"letter frequencies": 3.0, "trigram counts": 1.9}


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, float], dict]:
    """Read the rows of every run shown on the cover, without labkit."""
    found = {}
    for path in sorted((ROOT / "data" / "records").glob("[0-9]*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if '"voice"' in line and "voice" in (row := json.loads(line))["probes"]:
                run = row["run"]
                found[run["model"]["recipe"], run["train"]["lr"]] = row
    return found


def test_every_text_of_the_cover_is_a_record_s_and_its_training_the_ladder_s(rows):
    data = cover.read_data(ROOT)
    assert [*data["voices"]] == [*voices.SPEAKERS] and {*cover.CHOICES} >= {*voices.SPEAKERS}
    records = Records(ROOT)
    for name, (recipe, rate) in voices.SPEAKERS.items():
        row, told = rows[recipe, rate], data["voices"][name]
        assert told["said"] == [*row["probes"]["voice"].values()]
        assert len(told["said"]) == len(data["steps"]) == 8
        assert {len(text) for text in told["said"]} == {CHARACTERS}
        assert told["loss"] == row["probes"]["validation"]["loss"]
        # The same run without the probe; another processor may round otherwise.
        run = replace(Run.from_dict(row["run"]), probes=("validation", "test"))
        alone = records.find_row(run.key())
        assert alone and alone["first"] == pytest.approx(row["first"], rel=1e-5)


def test_the_map_has_the_explorer_s_losses():
    data = cover.read_data(ROOT)
    blocks = ROOT / "chapters" / "_static" / "blocks" / "S.json"
    known = json.loads(blocks.read_text(encoding="utf-8"))["recipes"]
    assert {*data["recipes"]} == {*known} and data["rates"] == [*voices.RATES]
    for recipe, row in data["recipes"].items():
        tried = {str(rate): loss for rate, loss, *_ in known[recipe]["tried"]}
        assert row["losses"] == {rate: tried[rate] for rate in row["losses"]}
        assert {*tried} - {*row["losses"]} <= {"0.00178"}
    last = [row["losses"]["0.1"] for row in data["recipes"].values()]
    assert last == sorted(last, key=lambda loss: loss or 9)
    on = {recipe for recipe, row in data["recipes"].items() if row["stream"]}
    assert {"post", "hybrid", "mix-ln", "ngpt"} <= on and not on & {"pre", "qk", "none", "peri"}
    held = {recipe for recipe, row in data["recipes"].items() if row["held"]}
    assert {"qk", "gemma2", "olmo2", "ngpt"} <= held and not held & {"pre", "kv-post", "sandwich"}


def test_what_the_map_says_is_counted_in_it():
    def row(stream, held, best, high):
        return {"name": "x", "stream": stream, "held": held, "losses": {"0.01": best, "0.1": high}}

    recipes = [
        row(False, True, 1.4, 1.5), row(True, True, 1.4, 1.8), row(False, False, 1.4, 1.8),
        row(False, True, 1.4, 2.0), row(True, False, 2.0, None),
    ]  # fmt: skip
    data = {"rates": [0.01, 0.1], "lines": LINES, "recipes": dict(enumerate(recipes))}
    said = cover.say_map(data)
    assert "At 0.01, 4 of 5 recipes are blue. At ten times that rate, 3 are: 2 of the 3" in said
    assert "and 1 of the 2 with one. In that column, the 2 lowest losses" in said


@pytest.mark.parametrize(
    ("loss", "kind"),
    [(1.4, "speaks"), (1.9, "mumbles"), (2.89, "mumbles"), (2.91, "lost"), (None, "lost")],
)
def test_a_loss_is_judged_by_what_a_table_reaches(loss, kind):
    assert cover.judge_loss(loss, LINES) == kind
    assert f'class="{kind}"' in cover.draw_cell({"0.1": loss}, "0.1", LINES)
    assert 'class="untried"' in cover.draw_cell({"0.1": loss}, "0.01", LINES)


def test_the_page_has_texts_answers_and_map():
    data, drawn = cover.read_data(ROOT), cover.draw_voices(ROOT)
    for voice in data["voices"].values():
        assert html.escape(voice["said"][-1]) in drawn
        assert html.escape(json.dumps(voice["said"], ensure_ascii=False)) in drawn
    assert drawn.count('<p class="told">') == drawn.count("<select>") == len(data["voices"])
    assert '<a href="04_qk_norm.html">chapter 04</a>' in drawn
    assert cover.draw_map(ROOT).count("<tr>") == 1 + len(data["recipes"])
    assert f"{data['parameters']:,} parameters" in cover.describe_models(ROOT)


def test_the_file_has_a_voice_in_each_line_and_reads_as_it_was_written():
    described = {"beginning": "It is", "voices": {"a": {"said": ["„so“"]}}, "recipes": {}}
    text = cover.format_data(described)
    assert json.loads(text) == described and '\n"a":{"said":["„so“"]}' in text


def test_a_text_in_a_table_keeps_every_character():
    quoted = voices.quote_text(" a*b* $5_ |<x> `y`, it's 3.")
    assert html.unescape(quoted) == " a*b* $5_ |<x> `y`, it's 3."
    assert not {*"*$_|<>`"} & {*quoted}
