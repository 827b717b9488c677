"""Places in the book that a table points at: checked by tests, links on the site.

A place is written "NN", "NN#A heading", "NN!claim-id", "NN.6" (an exercise) or "NN~words that its
text has". In a page's Markdown, [[NN#A heading]] is such a link, with [[NN|words]] under other
words.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from press.book.facts import escape_markdown
from press.site.outline import Book, Outline

PLACE = re.compile(r"(?P<number>\d\d)(?:(?P<mark>[#!.~])(?P<what>.+))?", re.S)
KINDS = {"#": "heading", "!": "claim", ".": "exercise", "~": "words"}


@dataclass(frozen=True)
class Place:
    """A chapter's number and, in it, a heading, claim, exercise or words; the whole without."""

    number: str
    kind: str = ""
    what: str = ""


def place_of(text: str) -> Place:
    """Read a place as a table has it."""
    match = PLACE.fullmatch(" ".join(text.split()))
    if match is None:
        raise ValueError(
            'a place is "NN", "NN#heading", "NN!claim-id", "NN.exercise" or "NN~words", '
            f"got {text!r}"
        )
    return Place(match["number"], KINDS.get(match["mark"] or "", ""), (match["what"] or "").strip())


def describe_missing(place: Place, book: Book) -> str | None:
    """Return what is wrong with a place; None when it exists."""
    chapter = book.get(place.number)
    if chapter is None:
        return f"no chapter {place.number}"
    there = {
        "": lambda: True,
        "heading": lambda: place.what in chapter.headings,
        "claim": lambda: place.what in chapter.claims,
        "exercise": lambda: place.what in dict(chapter.exercises),
        "words": lambda: place.what in " ".join(chapter.prose.split()),
    }
    if there[place.kind]():
        return None
    return f"no {place.kind} {place.what!r} in {chapter.name}"


def link_place(place: Place, book: Book, shown: str = "") -> str:
    """Write a Markdown link to a place, as far as it is there."""
    chapter = book.get(place.number)
    if chapter is None:
        return f"{shown} (chapter {place.number})" if shown else f"chapter {place.number}"
    if place.kind == "claim" and place.what in chapter.claims:
        words = html.escape(shown) if shown else f"<code>{html.escape(place.what)}</code>"
        return f'<a href="{html.escape(claim_address(chapter, place.what))}">{words}</a>'
    heading = place.what if place.kind == "heading" else ""
    if heading in chapter.headings:
        return f"[{shown or heading}]({chapter.name}.ipynb#{build_slug(heading)})"
    words = f"exercise {place.what}" if place.kind == "exercise" else escape_markdown(chapter.title)
    return f"[{shown or words}]({chapter.name}.ipynb)"


def link_numbered(place: Place, book: Book) -> str:
    """Write a link that says its chapter too: 05 · The demand."""
    shown = link_place(place, book)
    if place.kind == "heading" and place.number in book:
        return f"{place.number} · {shown}"
    return shown


def claim_address(chapter: Outline, name: str) -> str:
    """Return where a claim's card stands; its anchor is one that Sphinx does not know."""
    return f"{chapter.name}.html#claim-{name}"


def build_slug(heading: str) -> str:
    """Name a heading's anchor as MyST does."""
    plain = re.sub(r"[*`]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
