"""Glossary words and citations show their meaning in place."""

import re

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.site

TERM = ".bd-article a.labkit-term:visible"
NOTE = ".labkit-note"
CHAPTER = "04_qk_norm.html"


def test_every_chapter_links_its_words(page: Page, chapters: list[str]):
    for name in chapters:
        page.goto(name)
        linked = page.locator(TERM).evaluate_all("all => all.map(a => a.hash)")
        assert len(linked) == len(set(linked)) >= 3, name


def test_pointing_at_a_word_says_its_meaning_and_leaving_hushes(page: Page):
    page.goto(CHAPTER)
    term = page.locator(TERM).first
    term.hover()
    expect(page.locator(NOTE)).to_have_text(term.get_attribute("data-meaning") or "?")
    box, line = page.locator(NOTE).bounding_box(), term.bounding_box()
    assert box and line and (box["y"] + box["height"] <= line["y"] or box["y"] >= line["y"])
    page.mouse.move(5, 5)
    expect(page.locator(NOTE)).to_have_count(0)


def test_the_keyboard_hears_it_too(page: Page):
    page.goto(CHAPTER)
    term = page.locator(TERM).first
    term.focus()
    expect(page.locator(NOTE)).to_be_visible()
    assert term.get_attribute("aria-describedby") == page.locator(NOTE).get_attribute("id")
    page.keyboard.press("Escape")
    expect(page.locator(NOTE)).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"glossary\.html#term-"))


def test_a_citation_says_its_title(page: Page):
    page.goto(CHAPTER)
    cited = page.locator(".bd-article p a.external[data-meaning]:visible").first
    cited.hover()
    expect(page.locator(NOTE)).to_contain_text(re.compile(r"\(\d{4}\)\. \w"))
    assert cited.get_attribute("title") is None


def test_a_first_tap_says_it_and_a_second_one_goes_there(tab):
    page = tab(has_touch=True, viewport={"width": 390, "height": 844})
    page.goto(CHAPTER)
    term = page.locator(TERM).first
    term.tap()
    expect(page.locator(NOTE)).to_be_visible()
    box = page.locator(NOTE).bounding_box()
    assert box and box["x"] >= 0 and box["x"] + box["width"] <= 390
    expect(page).to_have_url(re.compile(r"04_qk_norm\.html$"))
    term.tap()
    expect(page).to_have_url(re.compile(r"glossary\.html#term-"))
