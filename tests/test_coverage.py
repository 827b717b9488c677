"""Every line of the sources is accounted for, and every place that is named exists."""

from pathlib import Path

import pytest

from labkit.book import chapters, coverage
from labkit.book.coverage import dangling, page, rows, spans, unaccounted
from labkit.book.files import Red
from tests.toy_book import card, chapter_text, make_book, pretend

ROOT = Path(__file__).resolve().parents[1]
TOTALS = {"001": 569, "002": 352, "003": 629, "004": 568}
LATER = {"06", "07", "08", "09", "10"}


def test_the_sources_are_as_long_as_they_are():
    found = coverage.sources(ROOT)
    assert {name: source.total for name, source in found.items()} == TOTALS
    assert [len(source.said) for source in found.values()] == [334, 352, 408, 524]


def test_every_line_of_the_sources_is_accounted_for():
    missing = {name: lines for name, lines in unaccounted(ROOT).items() if lines}
    assert missing == {}, "name these lines in the table of the chapter that treats them"


@pytest.mark.parametrize("chapter", chapters.find(ROOT), ids=lambda c: c.name)
def test_every_place_that_a_chapter_names_exists_and_was_executed(chapter):
    own = [row for row in rows(ROOT) if row.file == f"{chapter.name[:2]}.csv"]
    assert own, f"every chapter says what it treats: write data/coverage/{chapter.name[:2]}.csv"
    assert dangling(ROOT, chapter, own) == []


def test_what_is_elsewhere_is_for_a_chapter_to_come_or_says_why_not():
    found = [row for row in rows(ROOT) if row.file == "elsewhere.csv"]
    assert {row.where for row in found if row.kind == "chapter"} <= LATER
    assert all(len(row.where) >= 5 for row in found if row.kind == "none")
    numbers = {chapter.name[:2] for chapter in chapters.find(ROOT)}
    strays = {row.file[:2] for row in rows(ROOT)} - {"el"} - numbers
    assert not strays, "a table without its chapter"


def test_ranges_of_lines():
    assert spans("7") == (range(7, 8),)
    assert spans("120-133, 140") == (range(120, 134), range(140, 141))
    assert spans("3 5–6") == (range(3, 4), range(5, 7))
    for wrong in ("", "a", "9-7", "1-2-3"):
        with pytest.raises(ValueError, match="lines are written as"):
            spans(wrong)


# -- a book of one chapter --------------------------------------------------------------------
SOURCES = "source,title,lines,blank\n001,A text,6,3 5\n"
CELLS = '''# %% [markdown]
r"""
## Where it goes wrong

```
# no heading
```

## Exercises

**1 (by hand).** How much?
"""

# %% tags=["exercise"]
yours = ...

# %%
claim("CLAIM", [1.0, 1.2, 1.1])
'''


@pytest.fixture
def book(tmp_path):
    root = make_book(tmp_path, c01_toy=chapter_text("01_toy", cells=CELLS))
    (root / "data" / "coverage").mkdir(parents=True)
    (root / "data/coverage/sources.csv").write_text(SOURCES)
    return root


def write(root, name, *lines):
    text = "\n".join(["source,lines,topic,where", *lines]) + "\n"
    (root / "data/coverage" / name).write_text(text)


def twin(root):
    """Leave the twin of an executed chapter."""
    (chapter,) = chapters.find(root)
    pretend(root, "01_toy", card("01-mean"))
    chapter.twin.write_text((root / "build/book/book/01_toy.ipynb").read_text())
    return chapter


def test_lines_that_no_row_names_are_listed(book):
    write(book, "01.csv", "001,1-2,a topic,claim:01-mean")
    assert unaccounted(book) == {"001": [4, 6]}
    write(book, "elsewhere.csv", "001,4-6,links,none:a list of links")
    assert unaccounted(book) == {"001": []}


def test_places_that_do_not_exist_are_listed(book):
    chapter = twin(book)
    write(
        book,
        "01.csv",
        "001,1,a,claim:01-mean",
        "001,1,b,claim:01-other",
        "001,2,c,heading:Where it goes wrong",
        "001,2,d,heading:no heading",
        "001,4,e,exercise:1",
        "001,4,f,exercise:2",
    )
    found = dangling(book, chapter, rows(book))
    assert found == [
        "data/coverage/01.csv:3: no claim '01-other' in 01_toy as executed",
        "data/coverage/01.csv:5: no heading 'no heading' in 01_toy",
        "data/coverage/01.csv:7: no exercise '2' in 01_toy",
    ]
    chapter.twin.unlink()
    assert len(dangling(book, chapter, rows(book))) == 4, "a claim that did not run is none"


@pytest.mark.parametrize(
    "line, words",
    [
        ("001,1,a", "four cells"),
        ("001,1,,claim:x", "four cells"),
        ("001,1,a, b,claim:x", "four cells"),
        ("009,1,a,claim:x", "a source is one of 001"),
        ("001,5-9,a,claim:x", "source 001 has lines 1-6"),
        ("001,x,a,claim:x", "lines are written as"),
        ("001,1,a,chapter:07", "where is one of claim, heading, exercise"),
        ("001,1,a,claim:", "where is one of"),
    ],
)
def test_a_row_that_cannot_be_read_is_red(book, line, words):
    write(book, "01.csv", line)
    with pytest.raises(Red, match=words):
        rows(book)


def test_the_page_leads_to_claims_and_chapters(book):
    write(
        book,
        "01.csv",
        "001,1,a *b*,claim:01-mean",
        "001,2,c,heading:Where it goes wrong",
        "001,4,e,exercise:1",
    )
    write(book, "elsewhere.csv", "001,6,f,chapter:07", "001,6,g,none:a list of links")
    text = page(book, {"01_toy": "A toy"})
    assert '| 1 | a \\*b\\* | <a href="01_toy.html#claim-01-mean">01-mean</a> |' in text
    assert "| 2 | c | [A toy](01_toy.ipynb): Where it goes wrong |" in text
    assert "| [A toy](01_toy.ipynb): exercise 1 |" in text
    assert "chapter 07, to come" in text and "not treated: a list of links" in text
