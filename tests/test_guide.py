"""The pages around the chapters: links, questions, lessons, errata."""

import html
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from press.book import chapters, citations
from press.book.chapters import is_letter
from press.site import guide, links, wordlists
from press.site.links import describe_missing, place_of
from press.site.outline import (
    Book,
    Outline,
    find_questions,
    list_exercises,
    read_outlines,
    read_sections,
)

ROOT = Path(__file__).resolve().parents[1]


@cache
def book() -> Book:
    found = chapters.find_chapters(ROOT)
    return read_outlines({one.name: json.loads(one.twin.read_text()) for one in found})


def typed(name: str) -> str:
    return (ROOT / "chapters" / name).read_text(encoding="utf-8")


# -- pages ----------------------------------------------------------------------------------
def test_the_preface_asks_what_the_chapters_ask_and_marks_every_claim():
    shown = guide.fill_page(typed("index.md"), ROOT, book())
    for one in book().values():
        asked = html.escape(one.questions[0].partition("*")[0])
        assert (asked in shown) != is_letter(one.number), "a shelf is for looking up"
        for name in one.claims:
            assert f'href="{one.name}.html#claim-{name}"' in shown


def test_the_page_about_claims_explains_the_words_of_an_opened_card():
    shown = guide.fill_page(typed("claims.md"), ROOT, book())
    card, words = re.search(r"<details.* open>(.*)</details>(.*?)## ", shown, re.S).groups()
    named = re.findall(r"\*\*(.+?)\*\*", html.escape(words.partition("open the card")[2]))
    assert all(part in card for each in named for part in re.split(" … | · |; ", each)), named
    assert guide.fill_page("<!-- card 04-gone -->", ROOT, book()) == ""


def test_a_lesson_names_all_exercises_and_what_did_not_hold():
    one = book()["01"]
    shown = guide.format_lesson(["01"], book())
    cells = " ".join(re.findall(r"\| (?:exercises in class|at home) \| (.*) \|", shown))
    numbers = re.findall(r"\b\d+[a-z]?\b", re.sub(r"\]\([^)]*\)", "", cells))
    assert sorted(numbers) == sorted(number for number, _ in one.exercises)
    for name, claim in one.claims.items():
        assert (name in shown) == (claim["verdict"] != "holds")


def test_exercises_stand_in_the_section_of_that_name():
    texts = ["**1 (proof).** Before.\n## Exercises", "**2 (code).**", "## After\n**3 (code).**"]
    assert list(list_exercises(texts)) == [("2", "code")]


def test_a_section_holds_its_subsections_and_what_its_cells_show():
    table = {"output_type": "display_data", "data": {"text/html": "<td>one of each</td>"}}
    cells = [("# T\n## A\nfirst", []), ("### B\nsecond", [table]), ("## C\nthird", [])]
    twin = {
        "cells": [
            {"cell_type": "markdown", "source": text, "outputs": shown} for text, shown in cells
        ]
    }
    assert read_sections(twin) == {
        "A": "## A first ### B second one of each",
        "B": "### B second one of each",
        "C": "## C third",
    }


# -- errata -----------------------------------------------------------------------------------
def test_a_work_is_named_by_its_authors_and_year():
    works = citations.read_works(ROOT / "chapters")
    for key, work in works.items():
        assert re.fullmatch(r"\S.*[a-zA-Z.]", work.authors) and work.url.startswith("https://"), key
        assert re.fullmatch(r"\d{4}[a-z]?|n\.d\.", work.year) and "{" not in str(work), key
    assert len({work.url for work in works.values()}) == len(works)
    assert wordlists.format_heading(works["zhang2019"]) == (
        "## Zhang and Sennrich (2019)\n\n"
        "*[Root Mean Square Layer Normalization](https://arxiv.org/abs/1910.07467)*"
    )


# -- how it is made ---------------------------------------------------------------------------
ONE = Outline(
    "02_toy", "Toy", ("Why?",), 900, ("A heading: of *two*",), (("6", "proof"),), "Some words.",
    claims={"02-it-holds": {"verdict": "holds"}},
)  # fmt: skip
TOY = {"02": ONE}


@pytest.mark.parametrize(
    "text, shown",
    [
        ("see [[02]]", "see [Toy](02_toy.ipynb)"),
        ("[[02#A heading: of *two*|there]]", "[there](02_toy.ipynb#a-heading-of-two)"),
        ("[[07#Whatever|later]], [[07]]", "later (chapter 07), chapter 07"),
        ("[[02#gone]]", "[Toy](02_toy.ipynb)"),
        ("in chapters 02 and 07.", "in chapters [02](02_toy.ipynb) and 07."),
        ("`02-it-holds`", '<a href="02_toy.html#claim-02-it-holds"><code>02-it-holds</code></a>'),
        ("`02-it-does-not`, `x[0]`", "`02-it-does-not`, `x[0]`"),
        ("```\nchapter 02\n```", "```\nchapter 02\n```"),
        ("$x_{chapter 02}$ [chapter 02](a.md)", "$x_{chapter 02}$ [chapter 02](a.md)"),
        ("## About chapter 02\nchapter 02", "## About chapter 02\nchapter [02](02_toy.ipynb)"),
    ],
)
def test_references_become_links(text, shown):
    assert links.link_references(text, TOY) == shown


def test_a_chapter_ends_on_where_its_threads_go(tmp_path):
    (tmp_path / "data").mkdir()
    rows = "at,to,thread\n02#A heading: of *two*,03,see chapter 02\n"
    (tmp_path / "data" / "crossrefs.csv").write_text(rows)
    two = {**TOY, "03": replace(ONE, name="03_toy", title="Later")}
    toy, later = "[Toy](02_toy.ipynb)", "[Later](03_toy.ipynb)"
    thread = "see chapter [02](02_toy.ipynb)"
    heading = "“[A heading: of *two*](02_toy.ipynb#a-heading-of-two)”"
    assert links.list_threads(two["02"], two, tmp_path) == f"- *later*, {later}: {thread}"
    back = links.list_threads(two["03"], two, tmp_path)
    assert back == f"- *earlier*, {toy}, {heading}: {thread}"
    page = {"cells": [{"cell_type": "markdown", "source": "Words.\n\n## References\n\nWorks."}]}
    links.join_up(page, two["03"], two, tmp_path)
    titles = [line for line in page["cells"][0]["source"].splitlines() if line.startswith("##")]
    assert titles == ["## Elsewhere in this book", "## References"]


@pytest.mark.parametrize(
    "place, said",
    [
        ("02", None),
        ("02!02-it-holds", None),
        ("02.6", None),
        ("02~Some words", None),
        ("11", "no chapter 11"),
        ("02#No heading", "no heading 'No heading' in 02_toy"),
        ("02!02-other", "no claim '02-other' in 02_toy"),
        ("02.9", "no exercise '9' in 02_toy"),
        ("02~Other", "no words 'Other' in 02_toy"),
    ],
)
def test_places_that_are_missing_are_named(place, said):
    assert describe_missing(place_of(place), TOY) == said


def test_what_is_no_place_is_refused():
    with pytest.raises(ValueError, match="a place must be"):
        place_of("chapter 2")


@pytest.mark.parametrize(
    "text, found",
    [
        ("**Question.** Is it? And why ([Doe, 2020](https://x.org))?", ("Is it?", "And why?")),
        ("**Question.** Is it? $$x = 1.$$ One says *no*. Which?", ("Which?",)),
        ("**Question.** Which one? Nobody knows.", ("Which one?",)),
        ("**Question.** Nobody knows.", ()),
        ("# Title", ()),
    ],
)
def test_questions_are_those_that_end_the_paragraph(text, found):
    assert find_questions([text]) == found
