"""Use the cover page: its texts, the reader's guess, the answers and the map."""

import gzip
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from press.site import cover
from tests.site.test_axe import axe, faults

pytestmark = pytest.mark.site
DATA = cover.read_data(Path(__file__).resolve().parents[2])
LIGHT = 250_000  # bytes that the cover loads, compressed, before anything is clicked


def test_a_reader_moves_the_step_bets_and_sees_answers_and_map_by_keys_alone(page: Page):
    page.goto("index.html")
    texts, told = page.locator(".labkit-voices blockquote span"), page.locator(".told")
    said = [voice["said"] for voice in DATA["voices"].values()]
    expect(texts).to_have_text([text[-1] for text in said])
    expect(told.first).to_be_hidden()
    expect(page.locator(".labkit-map")).to_be_hidden()
    page.get_by_label("training step").focus()
    page.keyboard.press("Home")
    expect(texts).to_have_text([text[0] for text in said])
    page.keyboard.press("ArrowRight")
    expect(texts).to_have_text([text[1] for text in said])
    expect(page.locator(".labkit-voices output")).to_have_text(str(DATA["steps"][1]))
    _, *others = DATA["voices"]
    page.keyboard.press("Tab")  # the first text has no answer
    for name in others:
        page.keyboard.press("Tab")
        page.keyboard.type(cover.CHOICES[name])
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".score")).to_have_text(f"{len(others)} of {len(others)} right")
    for place, voice in enumerate(DATA["voices"].values()):
        expect(told.nth(place)).to_contain_text(f"a final loss of {voice['loss']:.2f} nats")
    expect(page.locator(".labkit-map tbody tr")).to_have_count(len(DATA["recipes"]))
    expect(page.locator(".labkit-map td").first).to_be_visible()


def test_without_a_script_answers_and_map_are_in_sight(tab):
    page = tab(java_script_enabled=False)
    page.goto("index.html")
    for hidden in ("select", "button", "input"):
        expect(page.locator(f".labkit-voices {hidden}").first).to_be_hidden()
    expect(page.locator(".told").first).to_be_visible()
    cell = page.locator(".labkit-map td.speaks").first
    expect(cell).to_be_visible()
    expect(cell).to_have_css("background-color", re.compile(r"color\(|rgb\("))


def test_the_cover_is_light_and_waits_for_no_font_of_icons(page: Page):
    loaded: list[tuple[str, int]] = []

    def weigh(response) -> None:
        body = response.body()
        loaded.append((response.url, min(len(body), len(gzip.compress(body, 6)))))

    page.on("requestfinished", lambda request: weigh(request.response()))
    page.goto("index.html", wait_until="networkidle")
    weights = dict(loaded)
    assert not [url for url in weights if re.search("fa-solid|searchindex|mathjax", url)]
    assert sum(weights.values()) <= LIGHT, sorted(weights.items(), key=lambda row: -row[1])[:6]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
def test_the_answers_and_the_map_have_no_fault_and_fit(tab, scheme: str, width: int):
    page = tab(color_scheme=scheme, viewport={"width": width, "height": 844})
    page.add_init_script(axe())
    page.goto("index.html")
    page.get_by_role("button", name="Show which is which").click()
    expect(page.locator(".labkit-map")).to_be_visible()
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
