"""Places in the book, and links to them: in its prose, in its tables, and between chapters.

A place is written "NN", "NN#A heading", "NN!claim-id", "NN.6" (an exercise) or "NN~words that its
text has"; NN is the number of a chapter or the letter of a shelf. In a page's Markdown,
[[NN#A heading]] is such a link, with [[NN|words]] under other words; "chapter 02", "shelf A" and
`02-a-claim` become links by themselves.

data/crossrefs.csv   at,to,thread: two places of different chapters, and the thread that runs
                     between them, in words that fit both ends
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from press.book.chapters import NUMBER, is_letter
from press.book.facts import Json, escape_markdown
from press.book.files import read_rows
from press.site.outline import Book, Outline

PLACE = re.compile(rf"(?P<number>{NUMBER})(?:(?P<mark>[#!.~])(?P<what>.+))?", re.S)
KINDS = {"#": "heading", "!": "claim", ".": "exercise", "~": "words"}
# What stays as it is: code, math, links, tags, headings, directives.
KEEP = r"""
    ^(?P<fence>```+|~~~+).*?^(?P=fence)[ ]*$ | \$\$.*?\$\$ | \{[\w:]+\}`[^`]*`
    | (?<!\\)\$(?!\s)[^$]+?(?<!\s)\$ | ``[^`]+`` | !?\[[^\[\]]*\]\([^)]*\)
    | </?[A-Za-z][^>]*> | ^\#{1,6}[ ][^\n]*$ | https?://\S+
"""
TARGETS = rf"""
    \[\[(?P<wiki>[^\[\]]+)\]\]
    | `(?P<code>[^`\n]+)`
    | \b(?P<chapters>(?:[Cc]hapters?|[Ss]hel(?:f|ves))\s
        {NUMBER}(?:(?:,\s|,?\sand\s|\sto\s|–){NUMBER})*)\b
"""
TOKEN = re.compile(rf"(?P<keep>{KEEP})|{TARGETS}", re.X | re.S | re.M)
ONE_NUMBER = re.compile(rf"\b{NUMBER}\b")
CLAIM = re.compile(rf"({NUMBER})-[a-z0-9]+(?:-[a-z0-9]+)*")
END = "## References"
TITLE = "## Elsewhere in this book"


@dataclass(frozen=True)
class Place:
    """A chapter's number and a heading, claim, exercise or words in it; none means all of it."""

    number: str
    kind: str = ""
    what: str = ""


def place_of(text: str) -> Place:
    """Parse a place as written in a table."""
    match = PLACE.fullmatch(" ".join(text.split()))
    if match is None:
        raise ValueError(
            'a place must be "NN", "NN#heading", "NN!claim-id", "NN.exercise" or "NN~words", '
            f"got {text!r}"
        )
    return Place(match["number"], KINDS.get(match["mark"] or "", ""), (match["what"] or "").strip())


def describe_missing(place: Place, book: Book) -> str | None:
    """Return what is wrong with a place; None if it exists."""
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
    """Write a Markdown link to a place, or to the part of it that exists."""
    chapter = book.get(place.number)
    if chapter is None:
        kind = "appendix" if is_letter(place.number) else "chapter"
        return f"{shown} ({kind} {place.number})" if shown else f"{kind} {place.number}"
    if place.kind == "claim" and place.what in chapter.claims:
        words = html.escape(shown) if shown else f"<code>{html.escape(place.what)}</code>"
        return f'<a href="{html.escape(claim_address(chapter, place.what))}">{words}</a>'
    heading = place.what if place.kind == "heading" else ""
    if heading in chapter.headings:
        return f"[{shown or heading}]({chapter.name}.ipynb#{build_slug(heading)})"
    words = f"exercise {place.what}" if place.kind == "exercise" else escape_markdown(chapter.title)
    return f"[{shown or words}]({chapter.name}.ipynb)"


def link_numbered(place: Place, book: Book) -> str:
    """Write a link that includes its chapter: 05 · The demand."""
    shown = link_place(place, book)
    if place.kind == "heading" and place.number in book:
        return f"{place.number} · {shown}"
    return shown


def claim_address(chapter: Outline, name: str) -> str:
    """Return the address of a claim's card; Sphinx does not know its anchor."""
    return f"{chapter.name}.html#claim-{name}"


def build_slug(heading: str) -> str:
    """Build the anchor of a heading as MyST does."""
    plain = re.sub(r"[*`]|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def link_references(markdown: str, book: Book) -> str:
    """Turn the references in a text into links; missing targets stay words."""

    def link_match(match: re.Match[str]) -> str:
        if match["wiki"]:
            place, _, shown = match["wiki"].partition("|")
            return link_place(place_of(place), book, shown.strip())
        if match["chapters"]:
            return ONE_NUMBER.sub(lambda m: link_chapter(m.group(), book), match["chapters"])
        if match["code"] and (claim := CLAIM.fullmatch(match["code"])):
            chapter = book.get(claim[1])
            if chapter and match["code"] in chapter.claims:
                return link_place(Place(claim[1], "claim", match["code"]), book)
        return match.group()

    return TOKEN.sub(link_match, markdown)


def link_chapter(number: str, book: Book) -> str:
    """Link a chapter by its number, if it exists."""
    return link_place(Place(number), book, number) if number in book else number


def find_places(markdown: str) -> Iterator[Place]:
    """List the places that a text refers to."""
    for match in TOKEN.finditer(markdown):
        if match["wiki"]:
            yield place_of(match["wiki"].partition("|")[0])
        elif match["chapters"]:
            yield from (Place(number) for number in ONE_NUMBER.findall(match["chapters"]))
        elif match["code"] and (claim := CLAIM.fullmatch(match["code"])):
            yield Place(claim[1], "claim", match["code"])


def join_up(notebook: Json, chapter: Outline, book: Book, root: Path) -> None:
    """Turn the references of a chapter's page into links, and insert its threads before its end."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    for cell in cells:
        cell["source"] = link_references(cell["source"], book)
    if not cells or not (block := list_threads(chapter, book, root)):
        return
    last = next((cell for cell in reversed(cells) if END in cell["source"]), cells[-1])
    before, mark, after = last["source"].partition(END)
    last["source"] = f"{before.rstrip()}\n\n{TITLE}\n\n{block}\n\n{mark}{after}".strip()


def list_threads(chapter: Outline, book: Book, root: Path) -> str:
    """List the threads of a chapter, to earlier chapters and to later ones."""
    found: dict[str, list[tuple[str, str]]] = {"earlier": [], "later": []}
    for row in read_rows(root, "crossrefs.csv"):
        ends = [place_of(row["at"]), place_of(row["to"])]
        for here, there in (ends, ends[::-1]):
            if here.number == chapter.number and there.number in book:
                when = "earlier" if there.number < here.number else "later"
                said = f"{name_place(there, book)}: {link_references(row['thread'], book)}"
                found[when].append((there.number, said))
    items = [f"- *{when}*, {said}" for when, own in found.items() for _, said in sorted(set(own))]
    return "\n".join(items)


def name_place(place: Place, book: Book) -> str:
    """Name a place with its chapter: DeepNorm, “The bounded update”."""
    title = link_place(Place(place.number), book, escape_markdown(book[place.number].title))
    return title if place.kind != "heading" else f"{title}, “{link_place(place, book)}”"
