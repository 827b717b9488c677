"""The printed book: all pages are present, nothing is cut off, and page numbers are right."""

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from press.book.chapters import NUMBER
from press.site import pdf
from press.site.sphinx_sources import chapter_names

pytestmark = [pytest.mark.site, pytest.mark.slow]

# What reaches past the right edge of its page, by more than a hair.
CUT = """() => [...document.querySelectorAll("section.page")].flatMap(section => {
    const edge = section.getBoundingClientRect().right + 2;
    const inside = "pre, table, img, mjx-container, p, li, figure";
    return [...section.querySelectorAll(inside)]
        .filter(e => !e.closest("mjx-assistive-mml") && e.getBoundingClientRect().right > edge)
        .map(e => `${section.id}: ${e.tagName} ${e.textContent.trim().slice(0, 60)}`);
})"""


@pytest.fixture(scope="module")
def paper(root: Path, site: Path) -> Iterator[Any]:
    pdf.write_shell(root, "book")
    with pdf.laid_out(root / "build", pdf.list_pages(root, site)) as page:
        yield page


@pytest.fixture(scope="module")
def content(paper: Any) -> bytes:
    return pdf.print_page(paper)


def test_all_pages_are_there_in_order(paper: Any, root: Path):
    ids = paper.locator("section.page").evaluate_all("all => all.map(e => e.id)")
    assert ids[:4] == ["index", "paths", "claims", "course"] and ids[-1] == "references"
    assert [name for name in ids if re.match(rf"{NUMBER}_", name)] == chapter_names(root)


def test_nothing_is_cut_at_the_edge(paper: Any):
    assert paper.evaluate(CUT) == []


def test_folds_are_open_and_nothing_for_a_screen_is_left(paper: Any):
    assert paper.locator("section.page details:not([open])").count() == 0
    assert paper.locator("section.page :is(script, input, .headerlink, .copybtn)").count() == 0
    assert paper.locator(".labkit-slider").count() == paper.locator(".print-frames").count() > 0


def test_every_link_inside_arrives(paper: Any):
    broken = """() => [...document.querySelectorAll('a[href^="#"]')]
        .filter(a => !document.getElementById(decodeURIComponent(a.hash.slice(1))))
        .map(a => a.getAttribute("href"))"""
    assert paper.evaluate(broken) == []


def test_the_contents_have_the_numbers_of_the_paper(paper: Any, content: bytes):
    numbers = pdf.page_numbers(content)
    rows = paper.locator("#contents .toc-row")
    shown = rows.evaluate_all(
        "all => all.map(e => [e.dataset.target, e.querySelector('.toc-number').textContent])"
    )
    assert [int(number) for _, number in shown] == [numbers[target] for target, _ in shown]
    first = [numbers[name] for name, _ in shown]
    assert first == sorted(first) and first[-1] <= len(PdfReader(BytesIO(content)).pages)


def test_a_chapter_begins_on_a_page_of_its_own(root: Path, content: bytes):
    numbers = pdf.page_numbers(content)
    starts = [numbers[name] for name in chapter_names(root)]
    assert len(set(starts)) == len(starts) and starts == sorted(starts)


def test_the_file_has_an_outline_and_words(content: bytes):
    reader = PdfReader(BytesIO(content))
    assert reader.outline and reader.root_object["/MarkInfo"]["/Marked"]
    assert "Normalization in Transformers" in reader.pages[0].extract_text()
