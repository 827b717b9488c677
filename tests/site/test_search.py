"""Searches for typical questions: the right place is among the first results."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.site

FIRST = 3
SEARCHES = {
    "QK-Norm bound": "04_qk_norm.html#four-bounds",
    "warm-up": "02_pre_and_post_norm.html#what-warm-up-does",
    "need the mean": "03_rmsnorm.html#pre-norm-models-do-not-need-the-mean",
    "bytes of a kernel": "09_memory_wall.html",
    "running statistics": "01_batchnorm_vs_layernorm.html#running-statistics-by-hand",
    "thousand blocks": "05_deepnorm.html#a-thousand-blocks-at-their-first-step",
    "where the S comes from": "07_dynamic_tanh.html#where-the-s-comes-from",
    "seven billion": "10_choosing_a_norm.html#seven-billion-parameters-today",
    "seven answers": "02_pre_and_post_norm.html#seven-answers",
    "qk norm rope order": "04_qk_norm.html#the-order-of-qk-norm-and-rope",
    "loss scaling": "D_numbers.html#loss-scaling",
    # Faults that users of other libraries reported.
    "gain promotes": "package.html",
    "dim ignored": "package.html",
    "batch norm checkpointing": "package.html",
    "freeze batch norm": "package.html",
    "two eps": "package.html#two-eps-in-one-model",
    "groups ignored": "package.html",
}
FOUND = "#search-results ul.search > li a:first-of-type"


@pytest.mark.parametrize("words", SEARCHES)
def test_the_right_place_is_among_the_first(page: Page, words: str):
    page.goto(f"search.html?q={words.replace(' ', '+')}")
    page.wait_for_selector("#search-results p.search-summary")
    found = page.locator(FOUND).evaluate_all("all => all.map(a => a.getAttribute('href'))")
    places = [re.sub(r"\?[^#]*", "", address) for address in found]
    # A page alone means any part of it.
    right = [SEARCHES[words] in (place, place.partition("#")[0]) for place in places]
    assert any(right[:FIRST]), places[:8]
    print(f"{words}: {right.index(True) + 1}")


def read_hits(page: Page, words: str) -> list[str]:
    page.goto(f"search.html?q={words}")
    page.wait_for_selector("#search-results p.search-summary")
    return page.locator("ul.search > li.kind-object").all_inner_texts()


def test_a_number_of_a_card_is_found_with_its_sentence(page: Page, root: Path):
    claims = json.loads((root / "data" / "ledger" / "book.json").read_text())["claims"]
    told = re.search(r"\d\.\d{4}", " ".join(claim["statement"] for claim in claims.values()))
    assert told
    hits = read_hits(page, told[0])
    assert hits and all(told[0] in hit for hit in hits), hits


def test_a_short_name_is_found_as_a_whole_word(page: Page):
    hits = read_hits(page, "DyT")
    assert hits and all(re.search(r"\bDyT\b", hit, re.I) for hit in hits), hits
