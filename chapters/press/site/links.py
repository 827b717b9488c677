"""Make the book's own references links: [[02#A heading]], "chapter 02" and `02-a-claim`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from press.site.anchors import Place, link_place, place_of
from press.site.outline import Book

# What stays as it is: code, math, links, tags, headings, directives.
KEEP = r"""
    ^(?P<fence>```+|~~~+).*?^(?P=fence)[ ]*$ | \$\$.*?\$\$ | \{[\w:]+\}`[^`]*`
    | (?<!\\)\$(?!\s)[^$]+?(?<!\s)\$ | ``[^`]+`` | !?\[[^\[\]]*\]\([^)]*\)
    | </?[A-Za-z][^>]*> | ^\#{1,6}[ ][^\n]*$ | https?://\S+
"""
TARGETS = r"""
    \[\[(?P<wiki>[^\[\]]+)\]\]
    | `(?P<code>[^`\n]+)`
    | \b(?P<chapters>[Cc]hapters?\s\d\d(?:(?:,\s|,?\sand\s|\sto\s|–)\d\d)*)\b
"""
TOKEN = re.compile(rf"(?P<keep>{KEEP})|{TARGETS}", re.X | re.S | re.M)
CLAIM = re.compile(r"(\d\d)-[a-z0-9]+(?:-[a-z0-9]+)*")


def link_references(markdown: str, book: Book) -> str:
    """Turn the references of a text into links; what is not there yet stays words."""

    def link_match(match: re.Match[str]) -> str:
        if match["wiki"]:
            place, _, shown = match["wiki"].partition("|")
            return link_place(place_of(place), book, shown.strip())
        if match["chapters"]:
            return re.sub(r"\d\d", lambda m: _link_chapter(m.group(), book), match["chapters"])
        if match["code"] and (claim := CLAIM.fullmatch(match["code"])):
            chapter = book.get(claim[1])
            if chapter and match["code"] in chapter.claims:
                return link_place(Place(claim[1], "claim", match["code"]), book)
        return match.group()

    return TOKEN.sub(link_match, markdown)


def _link_chapter(number: str, book: Book) -> str:
    return link_place(Place(number), book, number) if number in book else number


def find_places(markdown: str) -> Iterator[Place]:
    """List the places that a text refers to."""
    for match in TOKEN.finditer(markdown):
        if match["wiki"]:
            yield place_of(match["wiki"].partition("|")[0])
        elif match["chapters"]:
            yield from (Place(number) for number in re.findall(r"\d\d", match["chapters"]))
        elif match["code"] and (claim := CLAIM.fullmatch(match["code"])):
            yield Place(claim[1], "claim", match["code"])
