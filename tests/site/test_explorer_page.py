"""The block explorer in use: by pointer, by keyboard, without a script, on a phone."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from press.cli import main
from tests.site.test_axe import LIGHTEN, axe, faults

pytestmark = pytest.mark.site
ROOT = Path(__file__).resolve().parents[2]
BLOCKS = ROOT / "chapters" / "_static" / "blocks"
# Chapters with an explorer, what stands in it, and what is held beside it.
PRESET = {
    "02_pre_and_post_norm.html": ("Pre-Norm", "Post-Norm"),
    "05_deepnorm.html": ("DeepNorm", "Post-Norm"),
    "06_hybridnorm.html": ("HybridNorm", "Pre-Norm"),
    "10_choosing_a_norm.html": ("QK-Norm", "Pre-Norm"),
}
PAGE = "02_pre_and_post_norm.html"  # the explorer's own place
CLICK = """() => {
    const slot = document.querySelector('.labkit-explorer .b [data-slot="v"]');
    slot.dispatchEvent(new MouseEvent("click", {bubbles: true}));
    document.querySelector(".labkit-explorer").getBoundingClientRect();
}"""


def load(name: str) -> dict:
    return json.loads((BLOCKS / f"{name}.json").read_text(encoding="utf-8"))


def open_explorer(page: Page, address: str = PAGE) -> None:
    page.goto(address)
    expect(page.locator(".labkit-explorer .said p").first).to_be_visible()
    page.locator(".labkit-explorer .low").evaluate("fold => { fold.open = true; }")


def slot(page: Page, name: str):
    return page.locator(f".labkit-explorer .b [data-slot='{name}']")


def name(page: Page):
    return page.locator(".labkit-explorer .b .name")


def said(page: Page):
    return page.locator(".labkit-explorer .said")


def mean(recipe: str, rung: str = "S") -> str:
    return f"{load(rung)['recipes'][recipe]['mean']:.4f}"


def test_every_first_click_leads_to_the_nearest_block_that_was_trained(page: Page):
    recipes, there = load("index")["recipes"], load("S")["recipes"]
    first = set(recipes["pre"]["slots"])
    for wanted in load("index")["slots"]:
        open_explorer(page)
        expect(page.locator(".labkit-explorer .blocks .name")).to_have_text(
            ["A: Post-Norm", "Pre-Norm"]
        )
        slot(page, wanted).click()
        expect(slot(page, wanted)).to_have_attribute(
            "aria-checked", str(wanted not in first).lower()
        )
        expect(said(page)).to_contain_text("You " + ("took" if wanted in first else "put"))
        got = page.get_by_label("recipe").input_value()
        expect(said(page)).to_contain_text(f"reaches a test loss of {mean(got)} nats")
        moves = {
            name: len(first ^ {*row["slots"]})
            for name, row in recipes.items()
            if name in there
            and row["alone"]
            and "mean" in there[name]
            and (wanted in row["slots"]) != (wanted in first)
        }
        assert moves[got] == min(moves.values())


def test_on_a_rung_with_few_blocks_a_slot_that_leads_nowhere_is_not_on_offer(page: Page):
    rung = next(
        rung
        for rung in load("index")["rungs"]
        if not any("c" in load("index")["recipes"][name]["slots"] for name in load(rung)["recipes"])
    )
    open_explorer(page, f"{PAGE}?r=pre&rung={rung}")
    expect(slot(page, "c")).to_have_attribute("aria-disabled", "true")
    slot(page, "c").click(force=True)
    expect(name(page)).to_have_text("Pre-Norm")


def test_a_click_names_the_recipe_and_the_other_norms_that_it_moved(page: Page):
    open_explorer(page, f"{PAGE}?r=pre")
    expect(name(page)).to_have_text("Pre-Norm")
    expect(said(page)).to_contain_text(f"reaches a test loss of {mean('pre')} nats")
    slot(page, "q").click()
    expect(slot(page, "q")).to_have_attribute("aria-checked", "true")
    expect(said(page)).to_contain_text("You put a norm on the queries.")
    expect(said(page)).to_contain_text("also adds a norm on the keys.")
    expect(name(page)).to_have_text("QK-Norm")
    expect(page.get_by_label("recipe")).to_have_value("qk")
    expect(said(page)).to_contain_text(f"reaches a test loss of {mean('qk')} nats")
    curve = page.locator(".labkit-explorer .u svg")
    rates = "; ".join(
        f"{rate}: {loss:.2f}" for rate, loss, *_ in load("S")["recipes"]["qk"]["tried"]
    )
    heard = curve.get_attribute("aria-label") or ""
    assert heard.endswith(f"QK-Norm: {rates.replace(';', ',')}")
    expect(page).to_have_url(re.compile(rf"{PAGE}\?r=qk&lr="))


def test_everything_is_reached_by_keys_alone(page: Page):
    open_explorer(page, f"{PAGE}?r=pre")
    page.get_by_label("recipe").focus()
    for wanted in ("rung", "hold", "draw"):
        page.keyboard.press("Tab")
        expect(page.locator(f".labkit-explorer [name='{wanted}']")).to_be_focused()
    page.keyboard.press("Tab")
    expect(slot(page, "end")).to_be_focused()  # the first of the block
    page.keyboard.press("ArrowDown")
    expect(slot(page, "feed-forward-out")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(slot(page, "feed-forward-in")).to_have_attribute("aria-checked", "false")
    page.get_by_label("recipe").focus()
    page.keyboard.type("Keel")
    expect(name(page)).to_have_text("Keel")
    page.get_by_label("learning rate", exact=True).focus()
    before = page.locator(".labkit-explorer output").text_content()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".labkit-explorer output")).not_to_have_text(before or "")
    page.locator("[name='hold']").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[name='hold']")).to_have_attribute("aria-pressed", "true")


def test_the_rate_scrubs_through_the_curves(page: Page):
    open_explorer(page, f"{PAGE}?r=none")
    tried = load("S")["recipes"]["none"]["tried"]
    rates = page.get_by_label("learning rate", exact=True)
    seen = []
    for place in range(int(rates.get_attribute("max") or 0) + 1):
        rates.fill(str(place))
        seen.append(page.locator(".labkit-explorer output").text_content() or "")
        expect(page.locator(".labkit-explorer .t svg")).to_have_attribute(
            "aria-label", re.compile(f"rate {seen[-1].split(':')[0]}\\. No norm: from")
        )
    assert len(seen) == len(set(seen)) == len(load("S")["recipes"]["none"]["curves"])
    for rate, loss, _, ends in tried:
        wanted = f"diverged at step {ends[0]}" if ends else f"validation {loss:.3f}"
        assert f"{rate}: {wanted}" in seen


def test_two_are_held_beside_each_other_and_the_address_keeps_them(page: Page):
    open_explorer(page, f"{PAGE}?r=post")
    page.get_by_role("button", name="compare").click()
    page.get_by_label("recipe").select_option("lns")
    data = load("S")
    i, j = sorted((data["order"].index("lns"), data["order"].index("post")))
    lead, low, high, told = data["pairs"][i * len(data["order"]) - i * (i + 1) // 2 + j - i - 1]
    if i == data["order"].index("post"):  # pairs say how far the first lies below the second
        lead, low, high = -lead, -high, -low
    assert lead > 0 and told
    for text in (
        f"That is {lead:.4f} nats lower than A, Post-Norm (95 % interval {low:.4f} to {high:.4f})",
        "significant, also after Holm",
    ):
        expect(said(page)).to_contain_text(text)
    both = page.locator(".labkit-explorer .blocks .name")
    expect(both).to_have_text(["A: Post-Norm", "LayerNorm scaling"])
    page.reload()
    expect(both).to_have_text(["A: Post-Norm", "LayerNorm scaling"])
    page.get_by_role("button", name="compare").click()
    expect(both.first).to_be_hidden()
    expect(said(page)).to_contain_text("lower than Pre-Norm")


def test_a_reader_draws_the_curve_first_by_keys(page: Page):
    open_explorer(page, f"{PAGE}?r=qk")
    page.get_by_role("button", name="draw a guess").click()
    points = page.locator(".labkit-explorer .u [role=slider]")
    expect(points).to_have_count(len(load("S")["recipes"]["qk"]["tried"]))
    expect(points.first).to_be_focused()
    for hidden in (".t", ".low", ".rate"):
        expect(page.locator(f".labkit-explorer {hidden}").first).to_be_hidden()
    assert mean("qk") not in page.locator(".labkit-explorer").inner_text()
    assert page.locator(".labkit-explorer .u .of, .labkit-explorer .u .others").count() == 0
    before = float(points.first.get_attribute("aria-valuenow") or 0)
    for key in ("ArrowUp", "PageDown", "ArrowRight", "PageDown", "PageDown"):
        page.keyboard.press(key)
    assert float(points.first.get_attribute("aria-valuenow") or 0) == pytest.approx(before - 0.2)
    expect(points.nth(1)).to_be_focused()
    assert float(points.nth(1).get_attribute("aria-valuenow") or 0) == pytest.approx(before - 0.5)
    page.keyboard.press("Enter")
    expect(points).to_have_count(0)
    expect(said(page)).to_contain_text("Your curve is dotted. You were furthest off at")
    expect(said(page)).to_contain_text(f"reaches a test loss of {mean('qk')} nats")
    expect(page.locator(".labkit-explorer .u .yours")).to_be_visible()
    slot(page, "v").click()
    expect(page.locator(".labkit-explorer .u .yours")).to_have_count(0)  # it was another block's


def test_a_reader_draws_the_curve_first_with_the_pointer(page: Page):
    open_explorer(page)
    page.get_by_role("button", name="draw a guess").click()
    box = page.locator(".labkit-explorer .u svg").bounding_box()
    assert box
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 25, box["y"] + 60, steps=40)
    page.mouse.up()
    points = page.locator(".labkit-explorer .u [role=slider]")
    values = points.evaluate_all("all => all.map(one => Number(one.ariaValueNow))")
    assert len(set(values)) == 1 and 2 < values[0] < 3
    page.get_by_role("button", name="show the result").click()
    expect(said(page)).to_contain_text(f"{values[0]:.2f} drawn")


def test_what_is_held_and_not_on_the_rung_says_so(page: Page):
    open_explorer(page, f"{PAGE}?r=post&a=lns&rung=D")
    expect(said(page)).to_contain_text("A, LayerNorm scaling, is not recorded at size D.")
    expect(said(page)).to_contain_text("higher than Pre-Norm")


def test_what_a_rung_does_not_have_says_so_with_its_command(page: Page, capsys):
    open_explorer(page, f"{PAGE}?r=lns&rung=D")
    assert "lns" not in load("D")["recipes"]
    expect(said(page)).to_contain_text("Nobody has recorded LayerNorm scaling at size D")
    command = shlex.split(said(page).locator(".command").text_content() or "")
    assert command == ["labkit", "leaderboard", "pre", "lns", "--rung", "D"]
    assert main([*command[1:], "--list"]) == 0
    assert "lns: " in capsys.readouterr().out


def test_every_rung_and_direction_of_the_records_can_be_chosen(page: Page):
    open_explorer(page)
    rungs = list(load("index")["rungs"])
    choices = page.locator("select[name=rung]")
    assert choices.locator("option").evaluate_all("all => all.map(o => o.value)") == rungs
    assert len(rungs) > 1
    for rung in rungs[1:] + rungs[:1]:
        choices.select_option(rung)
        expect(said(page)).to_contain_text(f"reaches a test loss of {mean('pre', rung)} nats")
        ticks = sum("mean" in one for one in load(rung)["recipes"].values())
        expect(page.locator(".labkit-explorer .s .tick")).to_have_count(ticks)


def test_every_recipe_is_shown_with_its_norms_and_what_it_is_besides(page: Page):
    open_explorer(page)
    page.evaluate(LIGHTEN)
    for recipe, row in load("index")["recipes"].items():
        page.get_by_label("recipe").select_option(recipe)
        expect(name(page)).to_have_text(row["name"])
        on = page.locator(".labkit-explorer .b .slot[aria-checked='true']")
        assert sorted(on.evaluate_all("all => all.map(g => g.dataset.slot)")) == sorted(
            row["slots"]
        )
        for text in row["also"]:
            expect(page.locator(".labkit-explorer .b .words")).to_contain_text(text)


@pytest.mark.parametrize("chapter", PRESET)
def test_a_chapter_shows_its_two_blocks(page: Page, chapter: str):
    own, beside = PRESET[chapter]
    open_explorer(page, chapter)
    expect(page.locator(".labkit-explorer .blocks .name")).to_have_text([f"A: {beside}", own])
    figure = page.locator("figure[data-explorer]").first
    expect(figure.locator(".labkit-explorer")).to_be_visible()
    expect(figure.locator("> .labkit-drawing svg").first).to_be_hidden()
    expect(figure.locator("figcaption")).to_be_visible()


@pytest.mark.parametrize("address", PRESET)
def test_without_a_script_a_picture_tells_the_same(tab: Any, address: str):
    page = tab(java_script_enabled=False)
    page.goto(address)
    own, *_ = PRESET[address]
    picture = page.locator("figure[data-explorer] svg.labkit-wide").first
    expect(picture).to_be_visible()
    assert f"{own}: norms" in (picture.get_attribute("aria-label") or "")
    assert page.locator(".labkit-explorer").count() == 0


def test_the_printer_gets_the_picture(page: Page):
    open_explorer(page)
    page.emulate_media(media="print")
    expect(page.locator("figure[data-explorer] svg.labkit-wide").first).to_be_visible()
    expect(page.locator(".labkit-explorer")).to_be_hidden()


STATES = ("r=pre", "r=hybrid&a=sandwich", "r=none&rung=M", "draw", *PRESET)


def enter(page: Page, state: str) -> None:
    address = state if state in PRESET else f"{PAGE}?{state.removeprefix('draw')}"
    open_explorer(page, address)
    if state == "draw":
        page.get_by_role("button", name="draw a guess").click()


@pytest.mark.parametrize("state", STATES)
def test_it_fits_a_telephone_and_its_words_can_be_read(page: Page, state: str):
    page.set_viewport_size({"width": 390, "height": 844})
    enter(page, state)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    sizes = page.locator(".labkit-explorer text:visible").evaluate_all(
        "all => all.map(e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a)"
    )
    assert min(sizes) >= 9.5
    boxes = [one.bounding_box() for one in page.locator(".labkit-explorer .b .slot").all()]
    assert min(min(box["width"], box["height"]) for box in boxes if box) >= 20


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_axe_finds_nothing_in_any_state(tab: Any, scheme: str, width: int):
    page = tab(color_scheme=scheme, reduced_motion="reduce")
    page.add_init_script(axe())
    page.set_viewport_size({"width": width, "height": 900})
    found = {}
    for state in STATES[:4]:
        enter(page, state)
        found[state] = faults(page, ".labkit-explorer")
    assert {state: said for state, said in found.items() if said} == {}


@pytest.mark.parametrize("preset", ["r=hybrid", "r=hybrid&a=qkv-pre"])
def test_a_click_is_one_layout_and_few_changes(
    page: Page, count_work: Callable[[], tuple[int, int]], preset: str
):
    open_explorer(page, f"{PAGE}?{preset}")
    page.wait_for_load_state("networkidle")
    page.evaluate(CLICK)
    count_work()
    found = []
    for _ in range(4):  # to a block that is recorded, and back
        page.evaluate(CLICK)
        found.append(count_work())
    layouts, changes = map(max, zip(*found, strict=True))
    assert layouts <= 1
    assert changes <= 60


def test_it_runs_on_a_page_that_was_opened_from_a_folder(tab: Any, site: Path):
    page = tab()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    open_explorer(page, (site / PAGE).as_uri())
    slot(page, "q").click()
    expect(said(page)).to_contain_text("You put a norm on the queries.")
    assert wrong == []


def test_only_pages_with_an_explorer_load_it(page: Page):
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto("04_qk_norm.html", wait_until="networkidle")
    assert not [url for url in asked if "explorer" in url or "blocks" in url]
