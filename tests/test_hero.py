"""The top of a chapter's page, and how long the chapter takes to read."""

import json
from pathlib import Path

import fake_book
import pytest

from press.book.folds import count_open_lines
from press.site.hero import FOLDED, build_top, link_tally
from press.site.outline import SECONDS, WORDS_A_MINUTE, Outline, read_outline
from press.site.page import build_page, is_figure
from press.site.written import COVER, NEEDS, build_start, typeset_equation

TITLE = "# QK-Norm\n\n**Question.** Why?"
SHORT = "\n\n**In short.**\n\n- It grows.\n"
IMPORTS = ("import torch\nlab = Lab('x')", [], [])
HELPER = ("def logit(q, k):\n    return q @ k", ["mechanism"], [])
DRAWN = ("plots.curves(records)", [], fake_book.figure("A line.", "Look."))
SECTION = "## The idea\n\nWords."


def top(*cells) -> list[dict]:
    return build_top(build_page("04_toy", fake_book.notebook(*cells))["cells"], "04", "FACTS")


def test_the_question_the_facts_and_the_answer_stand_beside_the_picture_then_the_folded_code():
    cells = top(TITLE + SHORT, IMPORTS, DRAWN, SECTION)
    first = cells[0]["source"]
    begun, asks, rest = first.partition('<div class="labkit-asks">')
    assert begun == '# 4 · QK-Norm\n\n<div class="labkit-hero labkit-beside">\n\n'
    assert asks and rest.startswith("\n\n**Question.** Why?\n\nFACTS") and rest.endswith("</div>")
    assert first.index("FACTS") < first.index("**In short.**") < first.index("It grows.")
    assert is_figure(cells[1]), "the picture is the next thing"
    assert cells[2]["source"] == f"{IMPORTS[0]}\n\n{DRAWN[0]}", "one fold"
    assert [cell["source"] for cell in cells[3:]] == ["</div>", SECTION]


def test_without_a_short_answer_the_box_has_the_facts_alone_and_the_code_comes_last():
    first, *others = top(TITLE, IMPORTS, DRAWN, "More words.", SECTION)
    assert first["source"].index("</div>") < first["source"].index("**Question.**")
    assert is_figure(others[0])
    code = f"{IMPORTS[0]}\n\n{DRAWN[0]}"
    assert [cell["source"] for cell in others[1:]] == ["More words.", code, SECTION]


def test_what_tells_the_answers_is_folded_where_the_chapter_folds_it():
    short = f"\n\n{FOLDED}\n\n- It grows.\n\n</details>"
    first, *_ = top(TITLE + short, DRAWN, SECTION)
    before, fold, inside = first["source"].partition('<details class="labkit-short"><summary>')
    assert fold and "FACTS" in before and "It grows." not in before
    assert inside.startswith("In short (contains spoilers)</summary>\n\n- It grows.")
    assert inside.endswith("</details>\n\n</div>") and "**In short.**" not in first["source"]


def test_a_slider_is_a_first_figure_too():
    data = {"text/html": '<div class="labkit-slider">', "image/png": "", "text/plain": "A line."}
    facts = {"labkit": {"kind": "slider", "caption": "Move."}}
    moved = {"output_type": "display_data", "data": data, "metadata": facts}
    cells = top(TITLE + SHORT, ("plots.explore(f, x)", [], [moved]), SECTION)
    assert "labkit-slider" in cells[1]["source"] and cells[-2]["source"] == "</div>"


def test_the_tally_counts_what_is_there_and_leads_to_the_scoreboard():
    laws = [{"verdict": verdict, "sort": "law"} for verdict in ("holds", "contradicted")]
    verdicts = ("holds-on-one", "not-seen", "out-of-range", "waits", "waits")
    findings = [{"verdict": verdict} for verdict in verdicts]
    found = link_tally([*laws, *findings], "04")
    assert 'href="scoreboard.html#f:chapter=04"' in found and link_tally([], "04") == ""
    assert ">1 of 2 measured and 1 of 2 exact claims hold, 1 is contradicted, " in found
    assert found.endswith(" 1 needs larger runs, 2 wait for runs</a>")
    assert ">1 of 2 exact claims hold, 1 is contradicted<" in link_tally(laws, "04")


def test_minutes_are_words_formulas_open_code_figures_and_cards():
    one = Outline("04_toy", "Toy", (), 10 * WORDS_A_MINUTE, (), (), "")
    assert one.minutes == 10
    for field, count in (("lines", 120), ("formulas", 9), ("figures", 8)):
        longer = Outline("04_toy", "Toy", (), 0, (), (), "", **{field: count})
        assert longer.minutes == round(count * SECONDS[field] / 60) > 0


def test_reading_counts_what_is_open_and_no_fold():
    text = (
        "Three words here.\n\n$$x$$\n\n<details><summary>Hint</summary>\n\nNo. $$y$$\n\n</details>"
    )
    one = read_outline("04_toy", fake_book.notebook(text))
    assert (one.words, one.formulas) == (4, 1), "a formula is read as a word, too"


def test_reading_counts_open_code_and_pictures_only():
    stub = ("yours = ...", ["exercise"], [])
    cells = (TITLE, IMPORTS, HELPER, SECTION, DRAWN, "## Exercises\n", stub, HELPER)
    notebook = fake_book.notebook(*cells)
    assert count_open_lines(notebook) == 2, "one helper; what checks an exercise is folded"
    found = read_outline("04_toy", notebook)
    assert (found.lines, found.figures) == (2, 1)


@pytest.mark.parametrize("listed", ["a = 1\n\nb = 2", ["a = 1\n", "\n", "b = 2"]])
def test_a_listing_is_code_to_read(listed):
    code = {"output_type": "display_data", "data": {"text/plain": listed}, "metadata": {}}
    assert count_open_lines(fake_book.notebook(("show(rms_norm)", [], [code]))) == 3


# -- what a page leaves out -------------------------------------------------------------------
def test_no_check_says_not_yet_where_nobody_can_answer():
    def report(text: str) -> list[dict]:
        data = {"text/html": f'<div class="labkit-report">{text}</div>', "text/plain": text}
        return [{"output_type": "execute_result", "data": data, "metadata": {}}]

    cells = [("look(yours)", [], report("✗ 1: not answered yet")), ("b", [], report("3 laws hold"))]
    out = str(build_page("04_toy", fake_book.notebook(*cells)))
    assert "not answered yet" not in out and "3 laws hold" in out


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("y = g · x, one number g", r"$y = g \cdot x$, one number g"),
        ("k = max(1, floor(d · p))", r"$k = \mathrm{max}(1, \mathrm{floor}(d \cdot p))$"),
        ("y = x / sqrt(mean(x²) + eps)", r"$y = x / \sqrt{\mathrm{mean}(x^2) + \mathrm{eps}}$"),
        ("Y = X + MHA_QK(X)", r"$Y = X + \mathrm{MHA}_{\mathrm{QK}}(X)$"),
    ],
)
def test_an_equation_of_the_tables_is_math(text, tex):
    assert typeset_equation(text) == tex


def test_the_notebook_that_a_reader_opens_first_lists_the_chapters_in_order(tmp_path):
    (tmp_path / "chapters").mkdir()
    for name in (fake_book.TWO, fake_book.ONE):
        (tmp_path / "chapters" / f"{name}.py").touch()
        twin = fake_book.FIRST if name == fake_book.ONE else fake_book.SECOND
        (tmp_path / "chapters" / f"{name}.ipynb").write_text(json.dumps(twin))
    needs = "**Prerequisites.** Sums.\n\nOther.\n\n**Goals.** Products."
    (tmp_path / "chapters" / "index.md").write_text(f"# Cover\n\n{needs}\n\nEnd.\n")
    text = build_start(tmp_path)
    assert text.index(f"]({fake_book.ONE}.ipynb)") < text.index(f"]({fake_book.TWO}.ipynb)")
    assert "Prerequisites.** Sums." in text and "Goals.** Products." in text and "Other" not in text
    assert "No module named `labkit`" in text
    assert len(NEEDS.findall((Path(__file__).parents[1] / COVER).read_text(encoding="utf-8"))) == 2
