"""The pages around the chapters: chapters/*.md, completed with data from the chapters.

A comment is replaced by what it names:

    <!-- voices -->           the cover: models that finish a sentence
    <!-- models -->           the cover: how large they are and what they read
    <!-- map -->              the cover: the loss of every recipe at every learning rate
    <!-- claims -->           the cover: every claim as a mark, a row a chapter
    <!-- card 07-a-claim -->  the card of a claim, opened
    <!-- sizes -->            words, runs, claims and exercises of every chapter, as a table
    <!-- lesson 07 08 -->     a lesson: reading, run, what did not hold, exercises by kind
    <!-- predictions -->      every question of the book, and the place of the reader's scores
    <!-- forecasts -->        how good the authors' and the papers' forecasts were
    <!-- glossary -->         the tables of data/; so notation, errata, coverage
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from press.book.facts import format_table
from press.book.forecasts import HELD
from press.site import all_predictions, cover, coverage, wordlists
from press.site.claim_cards import draw_cover, draw_on_page, wrap_html
from press.site.links import Place, link_place, link_references
from press.site.outline import Book, Outline
from press.site.predictions import HEAD

# Typed pages beside the preface, in the order of the contents.
GUIDE = ("index.md", "paths.md", "claims.md", "predictions.md", "cabinet.md", "running.md",
         "package.md", "tables.md", "placements.md", "course.md", "glossary.md",
         "errata.md")  # fmt: skip
# The kinds of exercises by a word of theirs, and those that take longer than a lesson.
KINDS = {"hand": "by hand", "code": "in code", "pro": "a proof", "open": "open"}
AT_HOME = ("a proof", "open")


def fill_page(text: str, root: Path, book: Book) -> str:
    """Complete a handwritten page, and turn its references into links."""
    text = MARK.sub(lambda match: FILL[match[1]](root, book, *match[2].split()), text)
    return link_references(text, book)


def format_sizes(book: Book) -> str:
    """Make the table of all chapters: reading time, running time, and verdicts."""
    rows = []
    for one in book.values():
        held = sum(claim["verdict"] in HELD for claim in one.claims.values())
        link, seconds = link_place(Place(one.number), book), f"{one.seconds:,.0f}"
        cells = (f"{one.words:,}", one.minutes, seconds if one.seconds else "–")
        rows.append((link, *cells, len(one.claims), held, len(one.exercises)))
    head = ("chapter", "words", "minutes", "CPU-s", "claims", "held", "exercises")
    return format_table(head, rows, numbers=True)


def format_lesson(numbers: Iterable[str], book: Book) -> str:
    """Make the table of a lesson from its chapters."""
    own = [book[number] for number in numbers if number in book]
    if not own:
        return f"*Chapter {' and '.join(numbers)}: to come.*"

    def join_cells(row: Iterable[str]) -> str:
        return "<br>".join(filter(None, row))

    def say_seconds(one: Outline) -> str:
        return f"{one.seconds:,.0f} CPU-s" if one.seconds else "no training"

    def link_prediction(one: Outline) -> str:
        asks = (heading for heading, text in one.sections.items() if HEAD in text)
        found = next(asks, "")
        return link_place(Place(one.number, "heading", found), book, one.title) if found else ""

    rows = {
        "read": join_cells(
            f"{link_place(Place(c.number), book)}: {c.words:,} words, {c.minutes} minutes"
            for c in own
        ),
        "run": join_cells(
            f"{c.title}: records of {say_seconds(c)}, read in seconds; {len(c.claims)} claims"
            for c in own
        ),
        "predict": join_cells(link_prediction(c) for c in own),
        "claims that did not hold, to discuss": join_cells(link_doubtful(c, book) for c in own),
        "exercises in class": join_cells(by_kind(c, book, home=False) for c in own),
        "at home": join_cells(by_kind(c, book, home=True) for c in own),
    }
    return format_table(("part", "where"), [(name, cell) for name, cell in rows.items() if cell])


def link_doubtful(chapter: Outline, book: Book) -> str:
    """Link the claims of a chapter that did not hold."""
    return ", ".join(
        link_place(Place(chapter.number, "claim", name), book)
        for name, claim in chapter.claims.items()
        if claim["verdict"] not in (*HELD, "waits")
    )


def by_kind(chapter: Outline, book: Book, home: bool) -> str:
    """List a chapter's exercises by kind: those for class, or those for homework."""
    kinds: dict[str, list[str]] = {}
    for number, name in chapter.exercises:
        kind = next((kind for word, kind in KINDS.items() if word in name), "with an experiment")
        kinds.setdefault(kind, []).append(number)
    parts = [
        f"{kind}: {', '.join(numbers)}"
        for kind, numbers in sorted(kinds.items(), key=lambda item: item[1])
        if (kind in AT_HOME) == home
    ]
    shown = link_place(Place(chapter.number, "heading", "Exercises"), book, chapter.title)
    return f"{shown}: {'; '.join(parts)}" if parts else ""


FILL: dict[str, Callable[..., str]] = {
    "voices": lambda root, book: wrap_html(cover.draw_voices(root)),
    "models": lambda root, book: cover.describe_models(root),
    "map": lambda root, book: wrap_html(cover.draw_map(root)),
    "claims": lambda root, book: draw_cover(book),
    "card": lambda root, book, name: draw_on_page(name, book),
    "sizes": lambda root, book: format_sizes(book),
    "lesson": lambda root, book, *numbers: format_lesson(numbers, book),
    "predictions": all_predictions.draw_predictions,
    "forecasts": lambda root, book: all_predictions.format_scores(root),
    "glossary": wordlists.format_glossary,
    "notation": wordlists.format_notation,
    "errata": wordlists.format_errata,
    "coverage": coverage.format_coverage,
}
MARK = re.compile(rf"<!-- ({'|'.join(FILL)})((?: [\w*.-]+)*) -->")
