"""Find numbers in prose that a run should have printed: typed numbers, and values of a claim."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from press.site.outline import FENCED, MATH

# What makes a paragraph or a row one that quotes: a citation, an arXiv number, a link.
CITED = re.compile(r"\barXiv\b|\b\d{4}\.\d{5}\b|\]\(https?://|<https?://")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
ARXIV = re.compile(r"\b\d{4}\.\d{5}(v\d+)?\b")
LINK = re.compile(r"\]\([^)\s]*\)|<https?://[^>]*>|https?://\S+")
NUMBER = re.compile(r"(?<![\w.,])[-−+]?(\d[\d,]*)\.(\d+)(?![\d.]*\w)")
PERCENT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?:%|per cent\b|percent\b)")
INTERVAL = re.compile(r"95\s*(?:%|per cent)")  # the book's intervals all are


@dataclass(frozen=True)
class Typed:
    """A typed number, with the words around it."""

    number: str
    around: str


def blocks(markdown: str) -> Iterator[tuple[str, bool]]:
    """Split a cell into paragraphs, list items and table rows; return whether each cites a source.

    A table's rows count as citing when its head does.
    """
    head_cites = False
    for paragraph in re.split(r"\n\s*\n", FENCED.sub("", markdown)):
        rows = paragraph.strip().splitlines()
        if rows and all(row.lstrip().startswith("|") for row in rows):
            head_cites = bool(CITED.search(rows[0]))
            yield from ((row, head_cites or bool(CITED.search(row))) for row in rows)
        else:
            for item in re.split(r"\n(?=\s*(?:[-*+]|\d+\.) )", paragraph):
                yield item, bool(CITED.search(item))


def plain(block: str, math: bool = False) -> str:
    """Remove code, links and citations; also math, unless it is requested."""
    block = CODE.sub(" ", block)
    if not math:
        block = MATH.sub(" ", block)
    return re.sub(r"<[^>\n]*>", " ", ARXIV.sub(" ", LINK.sub("] ", block)))


def decimals(text: str) -> Iterator[re.Match[str]]:
    """Find numbers with two or more significant digits after the decimal point."""
    for match in NUMBER.finditer(text):
        whole, part = match.group(1), match.group(2)
        if len(part if whole.strip("0,") else part.lstrip("0")) >= 2:
            yield match


def percentages(text: str) -> Iterator[re.Match[str]]:
    """Find percentages with two or more significant digits; 30 % is a round number."""
    for match in PERCENT.finditer(text):
        digits = match.group(1).replace(".", "").strip("0")
        if len(digits) >= 2 and not INTERVAL.match(match.group()):
            yield match


def typed_numbers(markdown: str) -> list[Typed]:
    """List numbers that look measured and are not quotations, code or visible arithmetic."""
    found = []
    for block, cites in blocks(markdown):
        if not cites:
            text = plain(block)
            found += [_typed(text, match) for match in (*decimals(text), *percentages(text))]
    return found


def repeated_values(markdown: str, claims: Mapping[str, Mapping[str, Any]]) -> list[Typed]:
    """List numbers, also in quotations, that repeat the value of a claim of the chapter.

    In math, where chance meets are many, only those that a card prints with the same digits.
    """
    published = " ".join(str(claim.get("published") or "") for claim in claims.values())
    quoted = {match.group().strip("+-−") for match in decimals(published)}
    measured: set[str] = set()
    means: list[float] = []
    for claim in claims.values():
        if claim["kind"] != "exact":
            measured |= {m.group().strip("+-−") for m in decimals(claim["statement"])}
            means.append(abs(sum(claim["values"]) / len(claim["values"])))
    found = []
    for block, _ in blocks(markdown):
        outside = {match.group() for match in decimals(plain(block))}
        text = plain(block, math=True)
        for match in decimals(text):
            number, digits = match.group().strip("+-−"), len(match.group(2))
            same = {f"{mean:.{digits}f}" for mean in means} if match.group() in outside else set()
            if number in measured | same and number not in quoted:
                found.append(_typed(text, match))
    return found


def _typed(text: str, match: re.Match[str]) -> Typed:
    around = text[max(0, match.start() - 40) : match.end() + 30]
    return Typed(match.group().strip(), " ".join(around.split()))
