"""What stands around the chapters is true: links, words, symbols, errata, paths, the course."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from press.book import chapters
from press.site import crossrefs, errata, guide, links, wordlists
from press.site.outline import MATH, Book, Outline, outlines, questions
from press.site.places import Place, link, missing, place_of

ROOT = Path(__file__).resolve().parents[1]
TYPED = [name for name in guide.GUIDE if name != "index.md"]


@cache
def book() -> Book:
    found = chapters.find(ROOT)
    return outlines({one.name: json.loads(one.twin.read_text()) for one in found})


def typed(name: str) -> str:
    return (ROOT / "chapters" / name).read_text(encoding="utf-8")


def wrong(places) -> list[str]:
    return [said for place in places if (said := missing(place, book()))]


CHAPTERS = pytest.mark.parametrize("number", [one.name[:2] for one in chapters.find(ROOT)])


# -- what a chapter says of itself --------------------------------------------------------
@CHAPTERS
def test_a_chapter_asks_something_and_says_its_sizes(number):
    one = book()[number]
    assert one.questions, "the paragraph **Question.** ends on a question: the preface shows it"
    assert one.words > 500 and one.exercises and one.claims
    assert {"kernel", "run"} == set(one.memory)


@CHAPTERS
def test_every_place_that_a_chapter_refers_to_exists(number):
    found = [p for p in links.places(book()[number].prose) if p.kind or p.number in book()]
    assert wrong(found) == []


@CHAPTERS
def test_every_link_of_a_chapter_to_another_arrives(number):
    for name, anchor in re.findall(r"\]\((\d\d_\w+)\.ipynb(?:#([^)]*))?\)", book()[number].prose):
        there = next(one for one in book().values() if one.name == name)
        assert not anchor or anchor in slugs(there)


def slugs(chapter: Outline) -> set[str]:
    from press.site.places import slug

    return {slug(heading) for heading in chapter.headings}


@CHAPTERS
def test_every_chapter_is_tied_to_two_others(number):
    ends = [(place_of(r["at"]).number, place_of(r["to"]).number) for r in crossrefs.threads(ROOT)]
    tied = {a if b == number else b for a, b in ends if number in (a, b)}
    assert len(tied) >= 2, "add threads to data/crossrefs.csv"


def test_threads_join_places_that_exist():
    for row in crossrefs.threads(ROOT):
        ends = [place_of(row["at"]), place_of(row["to"])]
        assert wrong(ends) == [] and ends[0].number < ends[1].number and row["thread"]


# -- pages ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", guide.GUIDE)
def test_a_page_is_filled_and_its_places_exist(name):
    assert wrong(links.places(typed(name))) == []
    shown = guide.page(typed(name), ROOT, book())
    assert not guide.MARK.search(shown) and "[[" not in shown


def test_the_preface_asks_what_the_chapters_ask():
    shown = guide.page(typed("index.md"), ROOT, book())
    for one in book().values():
        assert f"({one.name}.ipynb)\n: {one.questions[0]}" in shown


def test_the_preface_lists_every_page():
    listed = re.findall(r"(?m)^([a-z]+)$", typed("index.md"))
    assert {Path(name).stem for name in TYPED} <= set(listed)


def test_each_chapter_is_the_matter_of_one_of_ten_lessons():
    text = typed("course.md")
    lessons = re.findall(r"(?m)^## Lesson (\d+)\.", text)
    assert lessons == [str(n) for n in range(1, 11)]
    used = [n for match in guide.MARK.finditer(text) for n in match[2].split()]
    assert used == sorted(book())


def test_a_lesson_names_all_exercises_and_what_did_not_hold():
    one = book()["01"]
    shown = guide.lesson([one], book(), ["01"])
    cells = " ".join(re.findall(r"\| (?:exercises in class|at home) \| (.*) \|", shown))
    numbers = re.findall(r"\b\d+[a-z]?\b", re.sub(r"\]\([^)]*\)", "", cells))
    assert sorted(numbers) == sorted(number for number, _ in one.exercises)
    for name, claim in one.claims.items():
        assert (name in shown) == (claim["verdict"] != "holds")


# -- words and symbols ----------------------------------------------------------------------
def test_terms_are_sorted_explained_once_and_said_where_they_lead():
    rows = wordlists.rows(ROOT, "glossary.csv", wordlists.GLOSSARY)
    terms = [row["term"].casefold() for row in rows]
    assert terms == sorted(set(terms))
    for row in rows:
        place = place_of(row["where"])
        assert row["meaning"].endswith((".", ").")), row["term"]
        assert wrong([place]) == []
        if place.number in book():
            said = (row["said"] or row["term"]).casefold()
            assert said in book()[place.number].prose.casefold(), f"{row['term']} in {row['where']}"


def test_symbols_are_used_where_they_are_listed():
    rows = wordlists.rows(ROOT, "notation.csv", wordlists.NOTATION)
    assert len({row["symbol"] for row in rows}) == len(rows)
    for row in rows:
        symbol, numbers = row["symbol"], row["where"].split()
        assert numbers, f"{symbol} is used by a chapter"
        before = "" if symbol.startswith("\\") else r"(?<![A-Za-z\\])"
        for number in numbers:
            math = " ".join(MATH.findall(book()[number].prose))
            found = re.search(before + re.escape(symbol) + "(?![A-Za-z])", math)
            assert found, f"{symbol} in {number}"


# -- errata -----------------------------------------------------------------------------------
def test_every_erratum_names_a_source_and_the_place_that_shows_it():
    rows = errata.read(ROOT)
    works = errata.works(ROOT)
    assert len(rows) > 40
    for row in rows:
        assert all(row.values()), row
        source = row["source"]
        assert source in works or " " in source or source.startswith("["), source
        assert wrong(place_of(place) for place in row["where"].split(";")) == [], row


def test_a_work_is_named_by_its_authors_and_year():
    for key, entry in errata.works(ROOT).items():
        assert re.match(
            r"## \S.* \((?:\d{4}|n\.d\.)\)\n\n\*.+\* \{cite:p\}`", errata.heading(key, entry)
        ), key
    shown = errata.heading("zhang2019", errata.works(ROOT)["zhang2019"])
    assert shown.startswith(
        "## Zhang and Sennrich (2019)\n\n*Root Mean Square Layer Normalization*"
    )


# -- one bibliography -------------------------------------------------------------------------
def citations() -> set[str]:
    folder = ROOT / "chapters"
    paths = [*folder.glob("*.py"), *folder.glob("*.md"), *(ROOT / "data").glob("*.csv")]
    texts = (path.read_text(encoding="utf-8") for path in paths)
    cited = {key for text in texts for keys in re.findall(r"\{cite:\w+\}`([^`]+)`", text)
             for key in re.split(r",\s*", keys)}  # fmt: skip
    return cited | {row["source"] for row in errata.read(ROOT) if " " not in row["source"]}


def test_every_entry_is_cited_and_every_citation_has_its_entry():
    assert citations() == set(errata.works(ROOT))


def test_the_bibliography_is_sorted_and_has_no_entry_twice():
    keys = re.findall(r"(?m)^@\w+\{([^,\s]+),", typed("references.bib"))
    assert keys == sorted(set(keys))


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
        ("in chapters 02 and 07.", "in chapters [02](02_toy.ipynb) and 07."),
        ("`02-it-holds`", '<a href="02_toy.html#claim-02-it-holds"><code>02-it-holds</code></a>'),
        ("`02-it-does-not`, `x[0]`", "`02-it-does-not`, `x[0]`"),
        ("```\nchapter 02\n```", "```\nchapter 02\n```"),
        ("$x_{chapter 02}$ [chapter 02](a.md)", "$x_{chapter 02}$ [chapter 02](a.md)"),
        ("## About chapter 02\nchapter 02", "## About chapter 02\nchapter [02](02_toy.ipynb)"),
    ],
)
def test_references_become_links(text, shown):
    assert links.linked(text, TOY) == shown


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
    assert missing(place_of(place), TOY) == said


def test_what_is_no_place_is_refused():
    with pytest.raises(ValueError, match="a place is"):
        place_of("chapter 2")
    assert link(Place("02", "heading", "gone"), TOY) == "[Toy](02_toy.ipynb)"


@pytest.mark.parametrize(
    "text, found",
    [
        ("**Question.** It is so. Is it? And why {cite:p}`x`?", ("Is it?", "And why?")),
        ("**Question.** Is it? $$x = 1.$$ One says *no*. Which?", ("Which?",)),
        ("**Question.** Which one? Nobody knows.", ("Which one?",)),
        ("**Question.** Nobody knows.", ()),
        ("# Title", ()),
    ],
)
def test_questions_are_those_that_end_the_paragraph(text, found):
    assert questions([text]) == found
