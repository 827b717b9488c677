"""What a chapter asks: rows and choices as typed, what its page shows, what the linter finds."""

import html
import json
import re
from itertools import count
from types import SimpleNamespace

import fake_book
import pytest

from labkit.experiments.locks import LOCKED, LOOKED, SEEN, WORDS
from labkit.statistics.criteria import parse_criterion
from press.book.forecasts import Forecast
from press.lint.predictions import find_told_ids, find_wrong_questions, judge_row, locate_claims
from press.site.all_predictions import draw_chapter, list_scores, tell_forecasts
from press.site.outline import Outline, read_outline
from press.site.page import build_page
from press.site.predictions import draw_questions, list_questions, read_row

HEAD = "| question | choices | ours |\n| --- | --- | --- |\n"
ROW = (
    "| Where $a\\|b$ ends? <!-- 01-cnn-hides-it 01-bn-fails-at-batch-2 --> "
    "| lower; <!-- −0.02 --> about there; <!-- 0 --> higher "
    "| <details><summary>show</summary>It *ends* low.</details> |\n"
)
TABLE = f"{HEAD}{ROW}\nAfter."


# -- rows ----------------------------------------------------------------------------------------
def test_a_row_has_a_question_choices_ours_and_claims():
    (row,) = list_questions(TABLE)
    assert row.asked == "Where $a|b$ ends?" and row.ours == "It *ends* low."
    assert row.choices == ("lower", "about there", "higher") and row.cuts == (-0.02, 0)
    assert row.claims == ("01-cnn-hides-it", "01-bn-fails-at-batch-2")
    assert (
        list(list_questions("| step | axis | ours |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n")) == []
    )


def test_a_number_makes_one_choice_right():
    (row,) = list_questions(TABLE)
    assert [row.find_choice(value) for value in (-0.031, -0.02, -0.01, 0, 7)] == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("criterion", "met"),
    [
        ("> 0", [False, False, True]),
        ("< 0", [True, True, False]),
        ("in [-0.02, 0]", [False, True, False]),
        ("< 0.1", None),
    ],
)
def test_a_choice_meets_a_criterion_or_does_not(criterion, met):
    (row,) = list_questions(TABLE)
    assert row.list_met(parse_criterion(criterion)) == met


def test_another_question_or_choice_is_another_prediction():
    (row,) = list_questions(TABLE)
    changed = [TABLE.replace("ends?", "begins?"), TABLE.replace("about there", "there")]
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
    assert (
        fold
        and "\n\n**Predict.** Where $a|b$ ends?\n\n- lower\n- about there\n- higher\n\n" in before
    )
    shown = re.sub(r'data-ask="[^"]*"', "", before)
    assert "0.031" not in shown and "01-cnn" not in shown, "nothing that is seen tells the answer"
    assert "**We say:** It *ends* low." in answer and "criterion" not in answer
    assert all(part in answer for part in ("▲", "−0.031", "&lt;b&gt;", 'href="#claim-01-cnn'))
    assert 'href="#claim-01-bn-fails' in answer and "Published" not in answer
    assert page().endswith("</details></div>\n\nAfter.")


def test_what_a_source_published_stands_in_the_fold():
    swapped = TABLE.replace("01-cnn-hides-it 01-bn-fails-at-batch-2", "01-bn-fails-at-batch-2")
    answer = draw_questions(swapped, fake_book.CLAIMS, count(1)).partition("<details")[2]
    assert "<b>Published:</b> 0.106 (Xiong et al. (2020), Figure 3)" in answer


def test_the_script_gets_the_choices_and_which_is_right():
    assert read_data(page()) == {
        "claims": ["01-cnn-hides-it", "01-bn-fails-at-batch-2"],
        "mark": next(list_questions(TABLE)).mark,
        "choices": ["lower", "about there", "higher"],
        "right": 0,
    }


def test_the_questions_of_a_chapter_are_numbered_through():
    numbers = count(1)
    markup = "".join(draw_questions(TABLE, fake_book.CLAIMS, numbers) for _ in range(2))
    assert 'id="predict-1"' in markup and 'id="predict-2"' in markup


def test_a_question_that_nobody_measured_yet_is_asked_all_the_same():
    markup = draw_questions(TABLE, {}, count(1))
    assert "Where $a|b$ ends?" in markup and "data-ask" not in markup
    assert "**We say:** It *ends* low.\n" in markup and "Measured" not in markup


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
    assert facts["met"] == [False, False, True], "the criterion of the claim is > 0"
    assert facts["asked"] == "Where $a|b$ ends?" and facts["mark"] == read_data(page())["mark"]
    assert "It *ends* low" not in fold
    quiet = read_outline(fake_book.TWO, fake_book.notebook("# Nothing is asked here"))
    assert draw_chapter(quiet, []) == ""


def test_only_what_was_locked_before_its_runs_and_judged_is_a_forecast():
    (row,) = list_questions(TABLE)
    waits = Forecast("01-cnn-hides-it", 0.7, "authors", "2026-01-01", "ranking", None, "", LOCKED)
    others = [forecast("you", 0.9), forecast("authors", 0.9, SEEN), waits,
              forecast("authors", 0.9, name="01-bn-fails-at-batch-2")]  # fmt: skip
    assert tell_forecasts(row, fake_book.CLAIMS, others) == {}
    mine = [*others, forecast("authors", 0.3)]
    found = tell_forecasts(row, fake_book.CLAIMS, mine)
    assert found == {"forecasts": {"authors": 0.3}, "held": False, "met": [False, False, True]}
    (coarse,) = list_questions(TABLE.replace("<!-- 0 -->", "<!-- 0.1 -->"))
    assert tell_forecasts(coarse, fake_book.CLAIMS, mine) == {}, "no choice says whether it holds"


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
        ("ends?", "ends.", "must contain a question mark"),
        ("<details><summary>show</summary>It *ends* low.</details>", "It ends low.",
         "lacks our prediction in a fold"),
        ("<!-- 01-cnn-hides-it -->", "", "names no claim"),
        ("<!-- 01-cnn-hides-it -->", "`01-cnn-hides-it`", "names no claim"),
        ("01-cnn-hides-it", "01-gone", "names 01-gone, which is not recorded"),
        ("lower; <!-- −0.02 --> about there; <!-- 0 --> higher", "low", "offers no choice"),
        ("<!-- 0 -->", "<!-- −0.03 -->", "has the cuts -0.02, -0.03; sort them"),
        ("−0.02", "−0.031", "has a cut inside the interval"),
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
        (("claim()", HEAD + TYPED), "comes after the card of 01-cnn-hides-it"),
        ((HEAD + TYPED,), "which this chapter does not make"),
        ((HEAD + TYPED + TYPED, "claim()"), "once is enough"),
        ((HEAD + 4 * TYPED, "claim()"), "asks 4 questions; 3 at most"),
        ((HEAD + TYPED, "## More", "claim()"), "is not in the section of the card of"),
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
    assert f"**{head}:** It *ends* low." in draw_questions(TABLE, claims, count(1))
