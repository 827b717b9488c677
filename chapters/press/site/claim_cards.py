"""Draw the claims of the site: as cards with a strip of values, and as marks on the cover.

The cover has every claim of the book as one mark, a row a chapter, beside what the chapter asks. No
script is needed: a mark is a link whose sentence shows below while it is pointed at. With script,
the arrow keys move through a row (claims.js).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from pygments import highlight
from pygments.formatters.html import HtmlFormatter

from labkit.experiments.card_html import (
    KINDS,
    LOOKS,
    TICK,
    VERDICTS,
    describe_evidence,
    describe_original,
    describe_source,
    describe_trials,
    describe_verdict,
    describe_word,
    find_sentence,
    typeset,
)
from labkit.experiments.card_html import format_number as format_mean
from labkit.statistics.recorded import rebuild_estimate
from press.book.chapters import format_number, is_letter, read_number
from press.book.facts import Json
from press.book.forecasts import HELD
from press.site.code_colours import PlainNamesLexer
from press.site.links import claim_address
from press.site.outline import Book, Outline
from press.site.strips import draw_strip

HOLM = ", significant after Holm’s correction"
CONTRADICTED = ("is contradicted", "are contradicted")
NO_VERDICT = {
    "out-of-range": ("needs larger runs", "need larger runs"),
    "waits": ("waits for runs", "wait for runs"),
}
# By the words of a claim's sentence: what lies right of zero on its strip.
RIGHT = {
    r"nats \{side\}": "improvement →",
    r"\{side\}": "lower →",
    r"\{mean[^}]*\} nats higher|raises? .*loss by \{mean": "higher loss →",
    r"\{mean[^}]*\} nats lower": "lower loss →",
    r"\{mean[^}]*\} nats larger": "larger →",
    r"\{(mean|k)\b": "",
}


def draw_in_chapter(claim: Json, code: str = "") -> str:
    """Draw a card in its chapter, with its code and a link to the scoreboard."""
    name = html.escape(claim["id"])
    below = [f'<a href="scoreboard.html#row-{name}">{name}</a> in the scoreboard']
    if code:
        shown = highlight(code, PlainNamesLexer(), HtmlFormatter())
        below.append(f"<details><summary>Code</summary>{shown}</details>")
    return draw(claim, f' id="claim-{name}"', below)


def draw_in_scoreboard(
    name: str, claim: Json, survives: bool, linked: bool, row: str = "row"
) -> str:
    """Draw a card of the scoreboard, with its search attributes and a link to its chapter."""
    label, chapter = html.escape(name), claim["chapter"]
    facets = {
        "chapter": read_number(chapter),
        "verdict": claim["verdict"],
        "kind": claim["kind"],
        "sort": claim["sort"],
        "weak": "yes" if claim["weak"] else "no",
        "holm": "yes" if survives else "no",
    }
    data = "".join(f' data-{key}="{html.escape(value)}"' for key, value in facets.items())
    to = f'<a href="{chapter}.html#claim-{label}">{label}</a> in its chapter' if linked else label
    return draw(claim, f' id="{row}-{label}"{data}', [to], HOLM if survives else "")


def draw_on_page(name: str, book: Book) -> str:
    """Draw an opened card for a page, with a link to its chapter; nothing without the chapter."""
    chapter = book.get(name.partition("-")[0])
    if chapter is None or name not in chapter.claims:
        return ""
    to = f'<a href="{html.escape(claim_address(chapter, name))}">{name}</a> in its chapter'
    return wrap_html(draw(chapter.claims[name], " open", [to]))


def draw(claim: Json, attributes: str, below: Sequence[str], marks: str = "") -> str:
    """Draw a card: sentence and strip in one line; when open, what was asked and how it was judged.

    A sentence that the runs do not bear out stands above the result.
    """
    verdict, estimate = claim["verdict"], rebuild_estimate(claim)
    words, said = describe_verdict(claim), find_sentence(claim)
    exact = (claim["sort"], verdict) == ("law", "holds")
    found = typeset(claim["statement"])
    if said and verdict not in HELD:
        found = f"<b>Claim:</b> {typeset(said)}<br><b>Result:</b> {found}"
    rule = [f"Criterion: {typeset(claim['criterion'])}", KINDS[claim["kind"]]]
    rule += filter(None, [typeset(describe_source(claim))])
    asked = [*filter(None, map(typeset, (said, describe_original(claim)))), "; ".join(rule)]
    judged = [f"{words[:1].upper()}{words[1:]}{html.escape(marks)}{describe_word(claim)}"]
    evidence = describe_evidence(claim, estimate), describe_trials(claim)
    judged += map(typeset, filter(None, evidence))
    more = [
        f"<b>What was asked.</b> {'<br>'.join(asked)}",
        f"<b>How it was judged.</b> {'<br>'.join(judged)}",
        *below,
    ]
    return (
        f'<details class="labkit-claim labkit-{claim["sort"]} labkit-verdict-{verdict}"'
        f'{attributes}><summary><span class="labkit-shape" role="img" title="{words}">'
        f"{TICK if exact else LOOKS[verdict][0]}</span> "
        f'<span class="labkit-statement">{found}</span> '
        f'<span class="labkit-values">{describe_value(claim)}{draw_strip(claim)}</span></summary>'
        f'<div class="labkit-more">{"".join(f"<div>{one}</div>" for one in more)}</div></details>'
    )


def describe_value(claim: Json) -> str:
    """Return the mean if the sentence does not have it, or what lies right of zero."""
    for words, label in RIGHT.items():
        if re.search(words, claim["wording"]):
            return label
    low, high = map(float, claim["interval"])
    return f"<b>{typeset(format_mean(rebuild_estimate(claim).mean, high - low))}</b>"


def count_held(claims: Iterable[Json]) -> str:
    """Count in words which of the judged claims hold."""
    found = [("exact" if c.get("sort") == "law" else "measured", c["verdict"]) for c in claims]
    parts = []
    for kind in ("measured", "exact"):
        judged = [verdict for sort, verdict in found if sort == kind and verdict not in NO_VERDICT]
        if judged:
            parts.append(f"{sum(v in HELD for v in judged)} of {len(judged)} {kind}")
    return f"{' and '.join(parts)} claims hold" if parts else ""


def count_others(claims: Iterable[Json]) -> list[str]:
    """Count in words the claims that are contradicted or have no verdict."""
    found = [claim["verdict"] for claim in claims]
    words = {"contradicted": CONTRADICTED, **NO_VERDICT}
    counts = [(found.count(verdict), *said) for verdict, said in words.items()]
    return [f"{n} {one if n == 1 else more}" for n, one, more in counts if n]


def wrap_html(markup: str) -> str:
    """Protect HTML from being changed by Markdown."""
    return f"```{{raw}} html\n{markup}\n```"


def draw_cover(book: Book) -> str:
    """Draw the matrix of claims, with an explanation."""
    claims = [claim for chapter in book.values() for claim in chapter.claims.values()]
    legend = ", ".join(
        f'<i class="labkit-verdict-{verdict}"></i>\u00a0{shape} {VERDICTS[verdict]}'
        for verdict, (shape, _) in LOOKS.items()
    )
    shelves = [chapter for chapter in book.values() if is_letter(chapter.number)]
    rows = "".join(draw_row(each) for each in book.values() if each not in shelves)
    rows += draw_cabinet(shelves)
    return wrap_html(
        f'<div class="labkit-matrix"><ol>{rows}</ol>'
        f'<p class="legend">{len(claims)} claims, one mark each: '
        f'<i class="labkit-verdict-holds"></i>\u00a0{TICK} exact claim that holds, {legend}. '
        "Point at a mark to read its claim, or click or tap it to see the card.</p></div>"
    )


def draw_row(chapter: Outline) -> str:
    """Draw a chapter's row: number, title, minutes, tally, marks, and question."""
    marks = "".join(draw_mark(chapter, name, claim) for name, claim in chapter.claims.items())
    asks = re.sub(r"\*(.+?)\*", r"<em>\1</em>", html.escape(" ".join(chapter.questions)))
    return (
        f'<li><a class="title" href="{chapter.name}.html">{format_number(chapter.number)} · '
        f'{html.escape(chapter.title)}</a> <span class="minutes">{chapter.minutes} min</span>'
        f' <a class="tally" href="scoreboard.html#f:chapter={chapter.number}">'
        f"{count_held(chapter.claims.values())}</a>"
        f'<span class="marks">{marks}</span><p>{asks}</p></li>'
    )


def draw_cabinet(shelves: Sequence[Outline]) -> str:
    """Draw one row for all appendices, which are for reference and have no question here."""
    if not shelves:
        return ""
    marks = "".join(
        draw_mark(shelf, name, claim) for shelf in shelves for name, claim in shelf.claims.items()
    )
    claims = [claim for shelf in shelves for claim in shelf.claims.values()]
    letters = f"{shelves[0].number} to {shelves[-1].number}"
    return (
        f'<li class="cabinet"><a class="title" href="cabinet.html">{letters} · Appendices</a>'
        f' <a class="tally" href="cabinet.html">{count_held(claims)}</a>'
        f'<span class="marks">{marks}</span></li>'
    )


def draw_mark(chapter: Outline, name: str, claim: Json) -> str:
    """Draw one claim as a mark that links to its card."""
    verdict = claim["verdict"]
    return (
        f'<a class="labkit-verdict-{verdict}" href="{html.escape(claim_address(chapter, name))}">'
        f"<span>{LOOKS[verdict][0]} {typeset(str(claim['statement']))}</span></a>"
    )
