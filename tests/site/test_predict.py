"""Predict, then see: a reader's answers in Chromium, by pointer and by keys, kept or not."""

import csv
import json
import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

pytestmark = pytest.mark.site

REFUSE = """Object.defineProperty(window, "localStorage", {
    get() { throw new DOMException("refused", "SecurityError"); },
});"""
OURS = re.compile(r"^We (say|predicted|left open|thought unlikely):$")  # how our sentence begins
DATA = "all => all.map(item => JSON.parse(item.dataset.ask))"
# What stands after a question in its section, and whether it is seen.
AFTER = """item => { const found = []; let next = item;
    while ((next = next.nextElementSibling)) if (next.tagName !== "SECTION")
        found.push(next.getClientRects().length > 0);
    return found; }"""


@pytest.fixture
def asking(site: Path, chapters: list[str]) -> list[str]:
    """The chapters that ask: all that are numbered, and some appendices."""
    found = [name for name in chapters if "labkit-asked" in (site / name).read_text()]
    assert [name for name in found if name[0].isdigit()] == [
        name for name in chapters if name[0].isdigit()
    ]
    return found


def questions(page: Page) -> Locator:
    return page.locator(".labkit-asked[data-ask]")


def choose(row: Locator, number: int) -> None:
    row.locator("li button").nth(number).click()
    expect(row).to_have_attribute("data-state", "locked")
    expect(row).to_have_attribute("data-waits", "false")


def decline(row: Locator) -> None:
    row.get_by_role("button", name="Show without predicting").click()
    expect(row).to_have_attribute("data-state", "declined")
    expect(row).to_have_attribute("data-waits", "false")


def read_ask(row: Locator) -> dict:
    return json.loads(row.get_attribute("data-ask") or "")


def stored(page: Page) -> dict[str, dict]:
    return json.loads(page.evaluate("localStorage.getItem('labkit-predictions') ?? '{}'"))


# -- before and after -------------------------------------------------------------------------
def test_nothing_that_is_seen_tells_an_answer_before_it_is_asked_for(page: Page, asking: list[str]):
    for name in asking:
        page.goto(name)
        rows = questions(page)
        assert page.locator(".labkit-answer:visible").count() == 0, name
        assert page.locator(".labkit-short[open]").count() == 0, name
        assert 0 < rows.count() <= 3, name
        for row in rows.all():
            assert not any(row.evaluate(AFTER)), f"{name}: something after a question is seen"
            for claim in read_ask(row)["claims"][:1]:
                card = page.locator(f"[id='claim-{claim}']")
                expect(card).to_be_hidden()
                assert row.evaluate(
                    "(item, id) => item.parentElement.contains(document.getElementById(id))",
                    f"claim-{claim}",
                ), f"the card of {claim} stands in another section than its question"


def test_an_answer_is_chosen_kept_and_judged(page: Page, asking: list[str]):
    page.goto(asking[0])
    row = questions(page).first
    right = read_ask(row)["right"]
    choose(row, right)
    result = row.locator(".result")
    expect(result).to_be_focused()
    expect(result).to_have_text(re.compile("^So it is: "))
    for words in (OURS, "Measured:"):
        expect(row.locator(".labkit-answer").get_by_text(words).first).to_be_visible()
    assert all(row.evaluate(AFTER))
    other = questions(page).nth(1)
    wrong = (read_ask(other)["right"] + 1) % len(read_ask(other)["choices"])
    choose(other, wrong)
    expect(other.locator(".result")).to_have_text(re.compile("^Not so: "))
    expect(other.locator(".mine")).to_have_count(1)
    page.reload()
    expect(row.locator(".result")).to_contain_text("So it is")
    expect(row.locator("li button").first).to_be_disabled()
    expect(questions(page).nth(2)).to_have_attribute("data-state", "open")


def test_the_keys_alone_are_enough(page: Page, asking: list[str]):
    page.goto(asking[0])
    row = questions(page).first
    first, second = row.locator("li button").all()[:2]
    first.focus()
    page.keyboard.press("Tab")
    expect(second).to_be_focused()
    page.keyboard.press("Enter")
    expect(row).to_have_attribute("data-state", "locked")
    expect(row.locator(".result")).to_be_focused()
    assert stored(page)[read_ask(row)["claims"][0]]["choice"] == 1


def test_every_question_of_the_book_shows_its_card(page: Page, asking: list[str]):
    for name in asking:
        page.goto(name)
        for row in questions(page).all():
            ask = read_ask(row)
            assert row.locator("li button").count() == len(ask["choices"]) > 1
            decline(row)
            expect(row.locator(".result")).to_have_text(re.compile("^Measured: "))
            expect(row.locator("li .right")).to_have_count(1)
            assert row.evaluate(AFTER)[0], "what follows, be it another question"
        for ask in questions(page).evaluate_all(DATA):
            expect(page.locator(f"[id='claim-{ask['claims'][0]}']")).to_be_visible()


def test_who_declines_sees_the_answer_and_is_not_scored(page: Page, asking: list[str]):
    page.goto(asking[0])
    row = questions(page).first
    decline(row)
    page.reload()
    expect(row).to_have_attribute("data-state", "declined")
    page.goto("predictions.html")
    expect(page.get_by_text("You have locked no prediction yet.")).to_be_visible()
    assert page.locator("[data-progress=begun]").count() == 1


def test_a_link_to_a_card_shows_that_card(page: Page, asking: list[str]):
    page.goto(asking[0])
    claim = read_ask(questions(page).first)["claims"][0]
    for address in (f"{asking[1]}", f"{asking[0]}#claim-{claim}"):
        page.goto(address)
    expect(page.locator(f"[id='claim-{claim}']")).to_be_in_viewport()
    expect(questions(page).first).to_have_attribute("data-state", "open")


# -- the switch, the store -----------------------------------------------------------------------
def test_one_switch_shows_everything_for_good(page: Page, asking: list[str]):
    page.goto(asking[0])
    page.get_by_label("Show everything, always").check()
    for name in (asking[0], asking[1]):
        page.goto(name)
        for row in questions(page).all():
            expect(row).to_have_attribute("data-state", "shown")
            assert all(row.evaluate(AFTER)[:1])
            expect(row.locator("li button:enabled")).to_have_count(0)
        expect(page.locator(".labkit-short")).to_have_attribute("open", "")
        expect(page.locator(".labkit-answer p").last).to_be_visible()
    page.goto("predictions.html")
    page.get_by_label("Show everything, always").uncheck()
    page.goto(asking[0])
    expect(questions(page).first).to_have_attribute("data-state", "open")


def test_where_storage_is_refused_predictions_live_for_the_page(tab: Any, asking: list[str]):
    page = tab()
    page.add_init_script(REFUSE)
    page.goto(asking[0])
    expect(page.get_by_text("This browser stores nothing")).to_be_visible()
    first, second = questions(page).all()[:2]
    choose(first, 0)
    choose(second, 0)
    expect(first.locator(".result")).to_be_visible()
    page.reload()
    expect(first).to_have_attribute("data-state", "open")
    page.goto("predictions.html")
    expect(page.get_by_text("This browser stores nothing")).to_be_visible()
    expect(page.locator(".labkit-chapter").first).to_be_visible()


@pytest.mark.parametrize(
    "wrong", ["{", "[]", "7", '{"a": 1}', '{"a": {"state": "locked"}}', "null"]
)
def test_what_is_stored_and_no_prediction_is_ignored(page: Page, asking: list[str], wrong: str):
    page.goto(asking[0])
    page.evaluate("text => localStorage.setItem('labkit-predictions', text)", wrong)
    page.reload()
    choose(questions(page).first, 0)
    assert len(stored(page)) == 1


def test_a_question_that_has_changed_is_asked_anew(page: Page, asking: list[str]):
    page.goto(asking[0])
    row = questions(page).first
    choose(row, 0)
    page.evaluate(
        """() => {
            const kept = JSON.parse(localStorage.getItem("labkit-predictions"));
            for (const one of Object.values(kept)) one.mark = "another";
            localStorage.setItem("labkit-predictions", JSON.stringify(kept));
        }"""
    )
    page.reload()
    expect(row).to_have_attribute("data-state", "open")


def test_two_tabs_agree(tab: Any, asking: list[str]):
    one = tab()
    other = one.context.new_page()
    for page in (one, other):
        page.goto(asking[0])
    for page, number in ((one, 0), (other, 1)):
        choose(questions(page).nth(number), 0)
    for page in (one, other):
        for number in (0, 1):
            expect(questions(page).nth(number)).to_have_attribute("data-state", "locked")
    assert len(stored(one)) == 2


# -- no script, paper, a folder ---------------------------------------------------------------
def test_without_script_everything_is_said(tab: Any, asking: list[str]):
    page = tab(java_script_enabled=False)
    page.goto(asking[0])
    assert (
        page.locator("figure.labkit-figure:visible").count()
        == page.locator("section figure.labkit-figure").count()
        - page.locator("details:not([open]) figure.labkit-figure").count()
    )
    row = page.locator(".labkit-asked").first
    expect(row.locator("li").first).to_be_visible()
    answer = row.locator(".labkit-answer")
    expect(answer.get_by_text(OURS)).to_be_hidden()
    answer.locator("summary").click()
    expect(answer.get_by_text(OURS)).to_be_visible()
    short = page.locator(".labkit-short")
    short.locator("summary").click()
    expect(short.locator("li").first).to_be_visible()
    page.goto("predictions.html")
    expect(page.get_by_text("Choosing an answer requires JavaScript.")).to_be_visible()
    page.locator(".labkit-chapter summary").first.click()
    expect(page.locator(".labkit-chapter li").first).to_be_visible()


def test_paper_shows_everything(page: Page, asking: list[str]):
    page.goto(asking[0])
    page.emulate_media(media="print")
    for row in questions(page).all():
        assert all(row.evaluate(AFTER)[:1])
        expect(row.locator(".labkit-answer p").first).to_be_visible()
        expect(page.locator(f"[id='claim-{read_ask(row)['claims'][0]}']")).to_be_visible()
    for hidden in (".labkit-asked .quiet", ".labkit-how"):
        expect(page.locator(hidden).first).to_be_hidden()


def test_a_site_that_is_opened_from_its_folder_asks_too(tab: Any, site: Path, asking: list[str]):
    page = tab()
    page.goto((site / asking[0]).as_uri())
    choose(questions(page).first, 0)
    page.reload()
    expect(questions(page).first).to_have_attribute("data-state", "locked")


def test_a_telephone_is_wide_enough(tab: Any, asking: list[str]):
    page = tab(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.goto(asking[0])
    for number, row in enumerate(questions(page).all()):
        row.get_by_role("button").nth(-1 if number % 2 else 0).tap()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto("predictions.html")
    page.locator(".labkit-chapter summary").first.tap()
    expect(page.locator(".labkit-seen").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


# -- speed -----------------------------------------------------------------------------------------
CHOOSE = """number => {
    const row = document.querySelectorAll(".labkit-asked")[number];
    row.querySelector("button").click();
    row.getBoundingClientRect();
}"""


def test_a_choice_is_four_layouts(
    page: Page, count_work: Callable[[], tuple[int, int]], asking: list[str]
):
    for name in asking[:3]:
        page.goto(name, wait_until="networkidle")
        expect(questions(page).first).to_have_attribute("data-state", "open")
        count_work()
        found = []
        for number in range(page.locator(".labkit-asked").count()):
            page.evaluate(CHOOSE, number)
            found.append(count_work())
        layouts, changes = map(max, zip(*found, strict=True))
        assert layouts <= 4 and changes <= 100


# -- a class of ten --------------------------------------------------------------------------------
def read_scores(page: Page) -> dict[str, list[str]]:
    rows = page.locator(".labkit-scores tbody tr").all()
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {name: rest for name, *rest in cells}


def write_share(share: float) -> str:
    """Write a share as the script does, which rounds a half up."""
    return f"{int(100 * share + 0.5)} %"


def save(page: Page, button: str, path: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=button).click()
    download.value.save_as(path)
    return path


def test_a_class_of_ten_is_stored_compared_and_exported(
    tab: Any, asking: list[str], tmp_path: Path
):
    chapter, files, asks = asking[4], [], {}
    for reader in range(10):
        page = tab()
        page.goto(chapter)
        asks = {ask["claims"][0]: ask for ask in questions(page).evaluate_all(DATA)}
        for number, row in enumerate(questions(page).all()):
            choose(row, (reader + number) % len(read_ask(row)["choices"]))
        page.goto("predictions.html")
        own = stored(page)
        assert len(own) == len(asks) == 3
        held = {claim: one["choice"] == asks[claim]["right"] for claim, one in own.items()}
        share = write_share(sum(held.values()) / 3)
        assert read_scores(page)["you"] == ["3", share, ""]
        files.append(save(page, "Export JSON", tmp_path / f"reader-{reader}.json"))
        exported = {row["claim"]: row for row in json.loads(files[-1].read_text())["predictions"]}
        assert {
            n: {k: v for k, v in one.items() if k != "claim"} for n, one in exported.items()
        } == own
        table = save(page, "Export CSV", tmp_path / f"reader-{reader}.csv").read_text()
        rows = list(csv.DictReader(StringIO(table)))
        assert [row["claim"] for row in rows] == [claim for claim in asks if claim in own]
        for row in rows:
            ask, one = asks[row["claim"]], own[row["claim"]]
            assert row["right"] == str(held[row["claim"]]).lower()
            assert row["choice"] == ask["choices"][one["choice"]]
            assert row["measured"] == ask["choices"][ask["right"]]
            assert row["question"] and row["chapter"] == chapter[:2]

    teacher = tab()
    teacher.goto("predictions.html")
    teacher.get_by_label("Compare with others").set_input_files(files)
    expect(teacher.locator(".labkit-scores tbody tr").first).to_be_visible()
    scores = read_scores(teacher)
    assert [name for name in scores if name.startswith("reader")] == [
        f"reader-{i}" for i in range(10)
    ]
    teacher.get_by_label("Show everything, always").check()
    fold = teacher.locator(".labkit-chapter").nth(4)
    fold.locator("summary").click()
    seen = fold.locator(".labkit-asked").first.locator(".labkit-seen").inner_text()
    assert all(f"reader-{i}" in seen for i in range(10))
    assert stored(teacher) == {}, "what others predicted is not kept"


def test_predictions_move_to_another_browser_and_are_deleted(
    tab: Any, asking: list[str], tmp_path: Path
):
    page = tab()
    page.goto(asking[0])
    for row in questions(page).all()[:2]:
        choose(row, 0)
    page.goto("predictions.html")
    file = save(page, "Export JSON", tmp_path / "mine.json")

    other = tab()
    other.goto(asking[0])
    choose(questions(other).first, 1)
    first = stored(other)
    other.goto("predictions.html")
    other.get_by_label("Import").set_input_files(file)
    expect(other.get_by_text("1 of the 2 predictions in mine.json were added")).to_be_visible()
    assert len(stored(other)) == 2 and first.items() <= stored(other).items()

    other.get_by_label("Import").set_input_files(
        {"name": "wrong.json", "mimeType": "application/json", "buffer": b'{"predictions": 3}'}
    )
    expect(other.get_by_text("wrong.json holds no predictions")).to_be_visible()
    other.once("dialog", lambda dialog: dialog.dismiss())
    other.get_by_role("button", name="Delete all").click()
    assert len(stored(other)) == 2
    other.once("dialog", lambda dialog: dialog.accept())
    other.get_by_role("button", name="Delete all").click()
    expect(other.get_by_text("You have locked no prediction yet.")).to_be_visible()
    assert stored(other) == {}


def test_the_page_of_predictions_is_the_progress_through_the_book(page: Page, asking: list[str]):
    page.goto(asking[0])
    count = questions(page).count()
    for row in questions(page).all():
        decline(row)
    page.goto(asking[1])
    choose(questions(page).first, 0)
    of_second = questions(page).count()
    page.goto("predictions.html")
    folds = page.locator(".labkit-chapter")
    assert folds.count() == len(asking)
    expect(folds.nth(0).locator("summary")).to_contain_text("finished")
    expect(folds.nth(0).locator("progress")).to_have_attribute("value", str(count))
    expect(folds.nth(1).locator("summary")).to_contain_text(f"1 of {of_second}")
    expect(folds.nth(2).locator("summary")).to_contain_text("not begun")
    folds.nth(1).locator("summary").click()
    expect(folds.nth(1).locator(".labkit-seen")).to_have_count(1)
    assert folds.nth(1).locator("li.right").count() == 1, "open questions tell nothing"
    folds.nth(1).locator("a.place").nth(1).click()
    expect(page).to_have_url(re.compile(f"{re.escape(asking[1])}#predict-2$"))


def test_the_authors_and_the_papers_stand_beside(page: Page):
    page.goto("predictions.html")
    asks = [
        ask for ask in questions(page).evaluate_all(DATA) if "authors" in ask.get("forecasts", {})
    ]
    assert len(asks) > 2
    kept = {
        ask["claims"][0]: {"state": "locked", "mark": ask["mark"], "choice": 0, "at": ""}
        for ask in asks
    }
    page.evaluate("kept => localStorage.setItem('labkit-predictions', JSON.stringify(kept))", kept)
    page.reload()
    scores = read_scores(page)
    right = sum(ask["right"] == 0 for ask in asks) / len(asks)
    assert scores["you"] == [str(len(asks)), write_share(right), ""]
    ours = [ask["forecasts"]["authors"] for ask in asks]
    own = [float(ask["met"][0]) for ask in asks]
    told = {
        "the authors, on the same": ours,
        "you, on sentences that the authors forecast": own,
    }
    for name, forecasts in told.items():
        pairs = [(p, ask["held"]) for p, ask in zip(forecasts, asks, strict=True)]
        count, share, brier = scores[name]
        assert count == str(len(pairs))
        assert share == write_share(sum((p > 0.5) == held for p, held in pairs) / len(pairs))
        mean = sum((p - held) ** 2 for p, held in pairs) / len(pairs)
        assert float(brier) == pytest.approx(mean, abs=0.0051)
