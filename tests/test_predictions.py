"""What a chapter asks: rows and axes as typed, what its page shows, what the linter finds."""

import html
import json
import re
from types import SimpleNamespace

import fake_book
import pytest

from labkit.experiments.locks import LOCKED, LOOKED, SEEN, WORDS
from labkit.statistics.criteria import parse_criterion
from press.book.forecasts import Forecast
from press.lint.predictions import find_told_ids, find_wrong_questions, judge_row, locate_claims
from press.site.all_predictions import draw_chapter, list_scores, tell_forecasts
from press.site.axis import Axis, read_axis
from press.site.outline import Outline, read_outline
from press.site.page import build_page
from press.site.predictions import draw_questions, list_questions, read_facts, read_row

HEAD = "## Predict\n\n| question | axis | ours |\n| --- | --- | --- |\n"
ROW = (
    "| Where $a\\|b$ ends? <!-- 01-cnn-hides-it 01-bn-fails-at-batch-2 --> | −0.1 to 0.2 nats "
    "| <details><summary>show</summary>It *ends* low.</details> |\n"
)
TABLE = f"{HEAD}{ROW}\nAfter."


# -- the axis ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("typed", "axis", "step", "labels"),
    [
        ("−0.5 to 1.5 nats", Axis(-0.5, 1.5, "nats"), 0.02, ["−0.5", "0", "1.5"]),
        ("-1 to 5", Axis(-1, 5), 0.1, ["−1", "0", "5"]),
        ("0 to 1", Axis(0, 1), 0.01, ["0", "0.5", "1"]),
        ("0 to 1,000 bytes", Axis(0, 1000, "bytes"), 10, ["0", "500", "1,000"]),
        ("0.1 to 100 times, log", Axis(0.1, 100, "times", "log"), 0.05, ["0.1", "1", "10", "100"]),
        ("0 to 5 models, whole", Axis(0, 5, "models", "whole"), 1, ["0", "5"]),
        ("−20 to 0 powers of ten", Axis(-20, 0, "powers of ten"), 0.2, ["−20", "−10", "0"]),
    ],
)  # fmt: skip
def test_an_axis_is_read_as_it_is_typed(typed, axis, step, labels):
    read = read_axis(typed)
    assert read == axis and read.step == pytest.approx(step)
    places, shown = zip(*read.list_ticks(), strict=True)
    assert list(shown) == labels
    assert places[0] == 0 and places[-1] == pytest.approx(1) and list(places) == sorted(places)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "an axis must look like"),
        ("0 and 1 nats", "an axis must look like"),
        ("0 to 1 nats, loud", "an axis must look like"),
        ("1 to 0 nats", "below its upper end, got 1 to 0"),
        ("0 to 10 times, log", "begin above 0, got 0"),
        ("0 to 2.5 models, whole", "the ends of a whole axis are, got 0 to 2.5"),
    ],
)
def test_an_axis_that_is_none_is_refused(typed, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        read_axis(typed)


def test_a_percentage_is_a_claim_s_share():
    axis = read_axis("0 to 100 %")
    assert axis.factor == 100 and axis.holds(0.33) and not axis.holds(1.5)
    assert axis.describe(parse_criterion("> 0.25")) == "more than 25 %"
    assert read_axis("0 to 2").factor == 1


def test_numbers_are_written_as_finely_as_the_grid():
    assert read_axis("−0.1 to 0.1 nats").format(-0.01316) == "−0.013"
    assert read_axis("−0.5 to 1.5 nats").format(-0.001) == "0.00", "no minus before a zero"
    assert read_axis("0.01 to 100 %, log").format(0.20273) == "0.2"
    assert read_axis("0.1 to 1000 times, log").format(962.4) == "960"


@pytest.mark.parametrize(
    ("criterion", "typed", "decides", "words"),
    [
        ("> 0", "−1 to 1 nats", True, "more than 0 nats"),
        ("> 0", "0 to 1 nats", True, "more than 0 nats"),  # 0 itself fails
        ("> 0", "0.1 to 1 nats", False, "more than 0 nats"),
        ("< 0.5", "1 to 2", False, "less than 0.5"),
        ("in [-0.02, 0.02]", "−0.1 to 0.1 nats", True, "−0.02 to 0.02 nats"),
        ("in [0, 1]", "0 to 1", False, "0 to 1"),
        ("in [1, 1]", "0 to 3 times", True, "1 times"),
        (">= 5", "0 to 5 models, whole", True, "at least 5 models"),
    ],
)
def test_a_criterion_divides_an_axis_or_does_not(criterion, typed, decides, words):
    axis, rule = read_axis(typed), parse_criterion(criterion)
    assert axis.decides(rule) == decides
    assert axis.describe(rule) == words


# -- rows ----------------------------------------------------------------------------------------
def test_a_row_has_a_question_an_axis_ours_and_claims():
    (row,) = list_questions(TABLE)
    assert row.asked == "Where $a|b$ ends?" and row.axis == "−0.1 to 0.2 nats"
    assert row.ours == "It *ends* low."
    assert row.claims == ("01-cnn-hides-it", "01-bn-fails-at-batch-2")
    assert (
        list(list_questions("| step | axis | ours |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n")) == []
    )


def test_another_question_or_axis_is_another_prediction():
    (row,) = list_questions(TABLE)
    changed = [TABLE.replace("ends?", "begins?"), TABLE.replace("0.2 nats", "0.3 nats")]
    assert len({row.mark, *(next(list_questions(one)).mark for one in changed)}) == 3
    same = next(list_questions(TABLE.replace("low.", "high.")))
    assert same.mark == row.mark, "what the authors say is no part of the question"


# -- the page --------------------------------------------------------------------------------------
def page() -> str:
    (cell,) = build_page("04_toy", fake_book.notebook(TABLE), claims=fake_book.CLAIMS)["cells"]
    return cell["source"]


def read_data(markup: str) -> dict:
    found = re.search(r'data-ask="([^"]+)"', markup)
    assert found
    return json.loads(html.unescape(found[1]))


def test_the_page_asks_and_folds_ours_and_what_was_measured():
    before, fold, answer = page().partition('<details class="labkit-answer"><summary>')
    assert fold and "\n\nWhere $a|b$ ends?\n\n" in before
    shown = re.sub(r'data-ask="[^"]*"', "", before)
    assert "0.031" not in shown and "01-cnn" not in shown, "nothing that is seen tells the answer"
    assert "**We say:** It *ends* low. (criterion: more than 0 nats)" in answer
    assert all(part in answer for part in ("▲", "−0.031", "&lt;b&gt;", 'href="#claim-01-cnn'))
    assert 'href="#claim-01-bn-fails' in answer and "Published" not in answer
    assert page().endswith("</ol>\n\nAfter.")


def test_what_a_source_published_stands_in_the_fold():
    swapped = TABLE.replace("01-cnn-hides-it 01-bn-fails-at-batch-2", "01-bn-fails-at-batch-2")
    answer = draw_questions(swapped, fake_book.CLAIMS).partition("<details")[2]
    assert "<b>Published:</b> 0.106 (Xiong et al. (2020), Figure 3)" in answer


def test_the_script_gets_the_axis_the_answer_and_the_criterion():
    facts = read_data(page())
    claim = fake_book.CLAIMS["01-cnn-hides-it"]
    assert facts["claims"] == ["01-cnn-hides-it", "01-bn-fails-at-batch-2"]
    assert (facts["low"], facts["high"], facts["unit"]) == (-0.1, 0.2, "nats")
    assert facts["measured"] == pytest.approx(-0.031) and facts["values"] == claim["values"]
    assert facts["interval"] == pytest.approx(claim["interval"], rel=1e-5)
    assert facts["region"] == [0, None] and facts["ours"] == "more than 0 nats"
    assert facts["found"].endswith("nats") and facts["found"].startswith("−0.031")


def test_a_share_stands_on_the_axis_in_per_cent_and_counts_have_no_dots():
    claim = fake_book.CLAIMS["02-post-needs-warm-up"] | {
        "counts": [[9, 10], [0, 10]],
        "values": [0.9],
    }
    row = read_row("| Share? <!-- 02-post-needs-warm-up --> | −100 to 100 % | |")
    facts = read_facts(row, {"02-post-needs-warm-up": claim})
    assert facts["measured"] == 90 and facts["values"] == [] and facts["region"][0] == 50
    assert -100 < facts["interval"][0] < 90 < facts["interval"][1] <= 100


def test_a_question_that_nobody_measured_yet_is_asked_all_the_same():
    markup = draw_questions(TABLE, {})
    assert "Where $a|b$ ends?" in markup and "data-ask" not in markup
    assert "**We say:** It *ends* low.\n" in markup and "Measured" not in markup


@pytest.mark.parametrize(
    ("word", "told"), [(LOCKED, "preregistered"), (None, "its preregistered runs are incomplete")]
)
def test_a_lock_is_told_with_its_probability_and_whether_its_runs_are_there(word, told):
    lock = {"at": "2026-01-01T00:00:00+00:00", "probability": 0.9, "sum": "x"}
    claims = fake_book.CLAIMS | {
        "01-cnn-hides-it": fake_book.CLAIMS["01-cnn-hides-it"] | {"lock": lock, "word": word}
    }
    assert f"(criterion: more than 0 nats; p = 0.9, {told})" in draw_questions(TABLE, claims)


# -- all of them ---------------------------------------------------------------------------------
def forecast(by: str, p: float, word: str = LOCKED, name: str = "01-cnn-hides-it") -> Forecast:
    return Forecast(name, p, by, "2026-01-01", "ranking", False, "contradicted", word)


def outline() -> Outline:
    return read_outline(fake_book.ONE, fake_book.notebook("# BatchNorm", TABLE, CARDS))


CARDS = (
    "claim()",
    [],
    [fake_book.card("01-cnn-hides-it"), fake_book.card("01-bn-fails-at-batch-2")],
)


def test_the_overview_has_each_question_and_where_it_is_asked():
    fold = draw_chapter(outline(), [forecast("authors", 0.8), forecast("paper", 0.9)])
    assert '<details class="labkit-chapter"><summary>1 · BatchNorm</summary>' in fold
    assert f'href="{fake_book.ONE}.html#predict-1"' in fold
    assert 'id="predict-1"' in page(), "and there it is"
    facts = read_data(fold)
    assert facts["forecasts"] == {"authors": 0.8, "paper": 0.9} and facts["held"] is False
    assert facts["asked"] == "Where $a|b$ ends?" and facts["mark"] == read_data(page())["mark"]
    assert "It *ends* low" not in fold
    quiet = read_outline(fake_book.TWO, fake_book.notebook("# Nothing is asked here"))
    assert draw_chapter(quiet, []) == ""


def test_only_what_was_locked_before_its_runs_and_judged_is_a_forecast():
    (row,) = list_questions(TABLE)
    waits = Forecast("01-cnn-hides-it", 0.7, "authors", "2026-01-01", "ranking", None, "", LOCKED)
    others = [forecast("you", 0.9), forecast("authors", 0.9, SEEN), waits,
              forecast("authors", 0.9, name="01-bn-fails-at-batch-2")]  # fmt: skip
    assert tell_forecasts(row, others) == {}
    assert tell_forecasts(row, [*others, forecast("authors", 0.3)]) == {
        "forecasts": {"authors": 0.3}, "held": False
    }  # fmt: skip


def test_scores_are_those_of_the_scoreboard_over_both_sorts():
    law = Forecast("a", 0.8, "authors", "2026-01-01", "law-like", True, "holds", LOCKED)
    (score,) = list_scores([forecast("authors", 0.4), law, forecast("you", 0.5)])
    assert score == ("the authors", WORDS[LOCKED], "2", "1", f"{(0.4**2 + 0.2**2) / 2:.3f}")


# -- the linter -----------------------------------------------------------------------------------
GOOD = {"01-cnn-hides-it": fake_book.CLAIMS["01-cnn-hides-it"]}
TYPED = ROW.replace("01-cnn-hides-it 01-bn-fails-at-batch-2", "01-cnn-hides-it")


def test_a_good_row_has_no_fault():
    assert list(judge_row(read_row(TYPED), GOOD)) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("ends?", "ends.", "does not ask"),
        ("<details><summary>show</summary>It *ends* low.</details>", "It ends low.",
         "lacks what we predict, in a fold"),
        ("<!-- 01-cnn-hides-it -->", "", "names no claim"),
        ("<!-- 01-cnn-hides-it -->", "`01-cnn-hides-it`", "names no claim"),
        ("01-cnn-hides-it", "01-gone", "names 01-gone, which is not recorded"),
        ("−0.1 to 0.2 nats", "nats", "has no axis: an axis must look like"),
        ("−0.1 to 0.2 nats", "", "has no axis"),
        ("−0.1 to 0.2", "0 to 0.2", "beside what was measured; widen it"),
        ("−0.1 to 0.2", "−0.035 to −0.028", "beside one of the seeds; widen it"),
        ("−0.1 to 0.2", "−0.1 to −0.01", "beside our criterion, > 0; widen it"),
        ("−0.1 to 0.2", "−0.1 to 0", "where > 0 holds or fails whatever comes"),
    ],
)  # fmt: skip
def test_a_fault_of_a_row_is_found(old, new, said):
    assert old in TYPED
    found = list(judge_row(read_row(TYPED.replace(old, new)), GOOD))
    assert [fault for fault in found if said in fault], found


def cells(*sources: str) -> list[SimpleNamespace]:
    return [
        SimpleNamespace(
            id=f"c{i}", cell_type="code" if one == "claim()" else "markdown", source=one
        )
        for i, one in enumerate(sources)
    ]


def find_faults(*sources: str, claims: dict = GOOD) -> list[str]:
    made = cells(*sources)
    cards = [{"id": "01-cnn-hides-it", "cell": c.id} for c in made if c.cell_type == "code"]
    where = locate_claims(made, cards)
    return [*find_wrong_questions(made, where, claims), *find_told_ids(made, where)]


def test_a_chapter_that_asks_before_it_measures_has_no_fault():
    told = "The card of `01-cnn-hides-it` says more."
    assert find_faults(HEAD + TYPED, "claim()", told) == []


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (("## Predict", "claim()"), "asks its reader nothing"),
        (("claim()", HEAD + TYPED), "stands below the card of 01-cnn-hides-it"),
        ((HEAD + TYPED,), "which this chapter does not make"),
        ((HEAD + TYPED + TYPED, "claim()"), "once is enough"),
        ((HEAD + TYPED, "See `01-cnn-hides-it`.", "claim()"), "is named above its card"),
        (("## 01-cnn-hides-it", HEAD + TYPED, "claim()"), "is named above its card"),
    ],
)
def test_a_fault_of_a_chapter_s_questions_is_found(sources, said):
    found = find_faults(*sources)
    assert [fault for fault in found if said in fault], found


def test_another_name_that_begins_alike_tells_nothing():
    assert find_faults(HEAD + TYPED, "`01-cnn-hides-it-not` holds.", "claim()") == []


@pytest.mark.parametrize(
    "probability, word, head",
    [
        (0.9, LOCKED, "We predicted"),
        (0.9, None, "We predicted"),  # its runs are incomplete
        (0.9, LOOKED, "We say"),
        (0.9, SEEN, "We say"),
        (0.5, LOCKED, "We left open"),
        (0.35, LOCKED, "We thought unlikely"),
    ],
)
def test_only_a_preregistered_sentence_is_called_a_prediction(probability, word, head):
    lock = {"at": "2026-01-01T00:00:00+00:00", "probability": probability, "sum": "x"}
    claims = fake_book.CLAIMS | {
        "01-cnn-hides-it": fake_book.CLAIMS["01-cnn-hides-it"] | {"lock": lock, "word": word}
    }
    assert f"**{head}:** It *ends* low." in draw_questions(TABLE, claims)
