"""Exercises answered in Chromium: by hand, in code, by keyboard, saved or not, without script."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from press.site import pyodide
from tests.site.test_axe import axe, faults
from tests.site.test_predict import REFUSE

pytestmark = pytest.mark.site

PAGE = "00_why_normalize.html"  # 1 a block, 2 by hand, 3 in code
MIXED = "01_batchnorm_vs_layernorm.html"  # a list, a number and a choice by hand
START = 120_000  # milliseconds that Python may take to start on a slow machine
RIGHT = "def leaky_deviation(fan_in, a):\n    return (2 / ((1 + a * a) * fan_in)) ** 0.5\n"
WRONG = "def leaky_deviation(fan_in, a):\n    return (2 / fan_in) ** 0.5\n"
BROKEN = "def leaky_deviation(fan_in, a):\n    b = a\n    return b + c\n"
LOOPS = "def leaky_deviation(fan_in, a):\n    while True:\n        a = -a\n"
STEP = "def my_step(x, f, norm):\n    return torch.relu(x + norm(f(x)))\n"


@pytest.fixture
def with_python() -> None:
    if not pyodide.is_there():
        pytest.fail(f"these tests run Python in the page; fetch it: {pyodide.COMMAND}")


def box(page: Page, number: int) -> Locator:
    return page.get_by_role("form", name=f"Your answer to exercise {number}", exact=True)


def check(form: Locator) -> Locator:
    """Press Check and wait for the verdict."""
    form.get_by_role("button", name="Check").click()
    verdict = form.get_by_role("status")
    expect(verdict).to_have_attribute("data-verdict", re.compile("right|wrong"), timeout=START)
    return verdict


def answer_by_hand(form: Locator) -> Locator:
    """Answer exercise 2 rightly."""
    form.get_by_label("a", exact=True).fill("1.64")
    form.get_by_label("b", exact=True).fill("0.725")
    return check(form)


def answer(form: Locator, text: str) -> Locator:
    form.get_by_role("textbox").fill(text)
    return check(form)


# -- by hand ----------------------------------------------------------------------------------
def test_an_answer_by_hand_is_judged_and_kept(page: Page):
    page.goto(PAGE)
    form = box(page, 2)
    expect(page.locator(".tag_exercise", has_text="yours =")).to_be_hidden()
    expect(check(form)).to_have_text("✗ not answered yet")
    form.get_by_label("a", exact=True).fill("(1 + 1/48)^24")
    expect(form.get_by_role("status")).to_be_empty()
    expect(check(form)).to_have_text("✗ not answered yet: b")
    form.get_by_label("b", exact=True).fill("1,04")
    expect(check(form)).to_have_text(re.compile("✗ not right yet: b. Hint: variances add"))
    form.get_by_label("b", exact=True).fill("abc")
    expect(check(form)).to_contain_text("“abc” cannot be read; write a number such as")
    form.get_by_label("b", exact=True).fill("0,7246")
    expect(check(form)).to_have_text("✓ right")
    page.reload()
    expect(box(page, 2).get_by_label("a", exact=True)).to_have_value("(1 + 1/48)^24")
    expect(box(page, 2).get_by_role("status")).to_have_text("✓ right")


def test_lists_and_choices_have_fields_of_their_own(page: Page):
    page.goto(MIXED)
    form = box(page, 2)
    form.get_by_label("output, number 1 of 2").fill("1")
    form.get_by_label("output, number 2 of 2").fill("-1")
    form.get_by_label("different outputs").fill("2")
    expect(check(form)).to_have_text("✗ not answered yet: solves XOR")
    choice = form.get_by_role("group", name="solves XOR")
    choice.get_by_label("yes").check()
    expect(check(form)).to_contain_text("not right yet: solves XOR. Hint: two numbers")
    choice.get_by_label("no").check()
    expect(check(form)).to_have_text("✓ right")


def test_the_keys_alone_are_enough_by_hand(page: Page):
    page.goto(PAGE)
    form = box(page, 2)
    form.get_by_label("a", exact=True).focus()
    page.keyboard.type("1.64")
    page.keyboard.press("Tab")
    page.keyboard.type("0.725")
    page.keyboard.press("Enter")
    expect(form.get_by_role("status")).to_have_text("✓ right")


def test_every_page_has_its_boxes_and_tells_no_answer(page: Page, site: Path, chapters: list[str]):
    asked = 0
    for name in chapters:
        text = (site / name).read_text(encoding="utf-8")
        placed = text.count("data-exercise=")
        page.goto(name)
        expect(page.locator(".labkit-box")).to_have_count(placed)
        numbers = page.locator(".labkit-box").evaluate_all("all => all.map(b => b.ariaLabel)")
        assert len(set(numbers)) == placed and all(re.search(r"\d$", one) for one in numbers), name
        assert page.get_by_text("labkit.exercise").count() == 0
        # What checks is folded, at the end of its box.
        folds = page.locator(".labkit-box .as-code details")
        expect(folds).to_have_count(placed)
        assert folds.evaluate_all("all => all.every(fold => !fold.open)"), name
        asked += placed
    assert asked > 30


# -- in code ----------------------------------------------------------------------------------
def test_code_is_checked_in_the_page(page: Page, with_python: None):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(PAGE, wait_until="networkidle")
    assert not any("pyodide" in url for url in asked), "only the first check fetches it"
    form = box(page, 3)
    expect(form.get_by_role("textbox")).to_have_value(re.compile("def leaky_deviation"))
    expect(check(form)).to_have_text("✗ not answered yet")
    assert any("_static/pyodide/pyodide.asm.wasm" in url for url in asked)
    expect(answer(form, WRONG)).to_contain_text("✗ not right yet: slope 0.5. Hint: what share")
    said = answer(form, BROKEN)
    expect(said).to_have_text("✗ line 3 raised NameError: name 'c' is not defined")
    expect(answer(form, "def leaky(")).to_contain_text("line 1 is not Python")
    expect(answer(form, RIGHT)).to_have_text("✓ right")
    expect(answer(form, "print('seen')\n" + RIGHT)).to_contain_text("seen")
    slip = answer(box(page, 1), STEP)
    expect(slip).to_contain_text("Likely cause: this is the step of the recipe 'resnet-v1'")
    page.reload()
    expect(box(page, 3).get_by_role("textbox")).to_have_value("print('seen')\n" + RIGHT)
    expect(box(page, 3).get_by_role("status")).to_contain_text("✓ right")
    box(page, 3).get_by_role("button", name="Start over").click()
    expect(box(page, 3).get_by_role("textbox")).to_have_value(re.compile(r"return \.\.\."))
    expect(box(page, 3).get_by_role("status")).to_be_empty()


def test_an_answer_that_loops_is_stopped_and_the_next_check_starts_anew(
    page: Page, with_python: None
):
    page.goto(PAGE)
    form = box(page, 3)
    expect(answer(form, LOOPS)).to_have_text(
        "✗ stopped after 5 seconds: does a loop in it never end?"
    )
    expect(answer(form, RIGHT)).to_have_text("✓ right")


def test_the_keys_alone_are_enough_in_code(page: Page, with_python: None):
    page.goto(PAGE)
    form = box(page, 3)
    editor = form.get_by_role("textbox")
    editor.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("def leaky_deviation(fan_in, a):\nb = (1 + a * a)")
    page.keyboard.press("Enter")
    page.keyboard.type("if b:\nreturn (2 / (b * fan_in)) ** 0.5")
    lines = editor.input_value().splitlines()
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 4, 4, 8]
    page.keyboard.press("Tab")
    last = editor.input_value().splitlines()[-1]
    assert last.endswith("0.5    ") and len(last) % 4 == 0, "to the next stop"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(form.get_by_role("button", name="Check")).to_be_focused()
    page.keyboard.press("Enter")
    verdict = form.get_by_role("status")
    expect(verdict).to_have_text("✓ right", timeout=START)
    page.keyboard.press("Shift+Tab")
    expect(editor).to_be_focused()
    page.keyboard.press("Control+Enter")
    expect(verdict).to_have_text("✓ right", timeout=START)


# -- where something is missing -----------------------------------------------------------------
def test_without_script_stubs_checks_and_folds_say_everything(tab):
    page = tab(java_script_enabled=False)
    page.goto(PAGE)
    assert page.locator(".labkit-box").count() == 0
    expect(page.locator(".tag_exercise", has_text="yours =")).to_be_visible()
    expect(page.locator(".tag_exercise", has_text="def leaky_deviation")).to_be_visible()
    assert page.locator("details.labkit-solution").count() > 0
    assert "1.640273" not in page.locator("article").inner_text()


def test_a_store_that_refuses_or_has_what_is_not_ours_does_no_harm(tab):
    other = json.dumps({f"{PAGE}#2": {"mark": "x", "given": 3}})
    stored = [json.dumps(kept) for kept in ("nonsense", "[1]", "null", other)]
    for script in (REFUSE, *(f"localStorage.setItem('labkit-answers', {of})" for of in stored)):
        page = tab()
        page.add_init_script(script)
        page.goto(PAGE)
        expect(answer_by_hand(box(page, 2))).to_have_text("✓ right")


def test_pages_on_a_disk_judge_by_hand_and_say_what_code_needs(tab, site: Path):
    page = tab()
    page.goto((site / PAGE).as_uri())
    expect(answer_by_hand(box(page, 2))).to_have_text("✓ right")
    code = box(page, 3)
    code.get_by_role("button", name="Check").click()
    expect(code.get_by_role("status")).to_contain_text("python -m http.server")


def test_a_site_without_python_says_where_code_runs(page: Page):
    page.route(
        f"**/{PAGE}",
        lambda route: route.fulfill(
            body=route.fetch().text().replace('data-python="yes"', 'data-python="no"')
        ),
    )
    page.goto(PAGE)
    form = box(page, 3)
    form.get_by_role("button", name="Check").click()
    expect(form.get_by_role("status")).to_contain_text("In JupyterLab the cell runs as it stands")


def test_files_that_are_missing_are_said(tab, with_python: None):
    page = tab()
    page.route("**/pyodide.asm.mjs", lambda route: route.abort())
    page.goto(PAGE)
    form = box(page, 3)
    form.get_by_role("button", name="Check").click()
    said = form.get_by_role("status")
    expect(said).to_contain_text("Python did not start", timeout=START)
    page.unroute("**/pyodide.asm.mjs")
    expect(answer(form, RIGHT)).to_have_text("✓ right")


# -- how it looks -------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_boxes_have_no_fault_in_any_state(tab, scheme: str):
    page = tab(color_scheme=scheme, reduced_motion="reduce")
    page.add_init_script(axe())
    for name in (PAGE, MIXED):
        page.goto(name, wait_until="load")
        check(box(page, 2))
        assert faults(page, "form") == []
    page.goto(PAGE)
    answer_by_hand(box(page, 2))
    assert faults(page, "form") == []


def test_paper_has_the_stubs(page: Page):
    page.goto(PAGE)
    page.emulate_media(media="print")
    expect(page.locator(".tag_exercise", has_text="yours =")).to_be_visible()
    expect(box(page, 2).locator(".fields")).to_be_hidden()
