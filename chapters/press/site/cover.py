"""The cover: every claim of the book as one mark, a row a chapter, beside what the chapter asks.

No script is needed: a mark is a link whose sentence shows below while it is pointed at. With
script, the arrow keys move through a row (claims.js).
"""

from __future__ import annotations

import html
import re

from labkit.experiments.card_html import LOOKS, VERDICTS, typeset
from press.book.facts import Json
from press.site.anchors import claim_address
from press.site.claim_cards import draw_tally, wrap_html
from press.site.outline import Book, Outline


def draw_cover(book: Book) -> str:
    """Draw the matrix, and say how to read it."""
    claims = [claim for chapter in book.values() for claim in chapter.claims.values()]
    legend = ", ".join(
        f'<span class="labkit-verdict-{verdict}">{shape}</span> {VERDICTS[verdict]}'
        for verdict, (shape, _) in LOOKS.items()
    )
    rows = "".join(draw_row(chapter) for chapter in book.values())
    return wrap_html(
        f'<div class="labkit-matrix"><ol>{rows}</ol>'
        f'<p class="legend">{len(claims)} claims, a mark each: {legend}. '
        "Point at one to read it, follow it to its card.</p></div>"
    )


def draw_row(chapter: Outline) -> str:
    """Draw a chapter's row: number, title, minutes, tally, marks, and what it asks."""
    marks = "".join(draw_mark(chapter, name, claim) for name, claim in chapter.claims.items())
    asks = re.sub(r"\*(.+?)\*", r"<em>\1</em>", html.escape(" ".join(chapter.questions)))
    return (
        f'<li><a class="title" href="{chapter.name}.html">{int(chapter.number)} · '
        f'{html.escape(chapter.title)}</a> <span class="minutes">{chapter.minutes} min</span>'
        f' <a class="tally" href="scoreboard.html#f:chapter={chapter.number}">'
        f"{draw_tally(chapter.claims.values())}</a>"
        f'<span class="marks">{marks}</span><p>{asks}</p></li>'
    )


def draw_mark(chapter: Outline, name: str, claim: Json) -> str:
    """Draw one claim as a mark that leads to its card."""
    verdict = claim["verdict"]
    return (
        f'<a class="labkit-verdict-{verdict}" href="{html.escape(claim_address(chapter, name))}">'
        f"<span>{LOOKS[verdict][0]} {typeset(str(claim['statement']))}</span></a>"
    )
