"""Find numbers in prose that a run should have printed: typed numbers, and values of a claim."""

import itertools
import re
from collections.abc import Iterator

from press.lint.text import Text
from press.site.outline import FENCED, MATH

# What makes a paragraph or a row one that quotes: a citation, an arXiv number, a link.
CITED = re.compile(r"\barXiv\b|\b\d{4}\.\d{5}\b|\]\(https?://|<https?://")
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
ARXIV = re.compile(r"\b\d{4}\.\d{5}(v\d+)?\b")
LINK = re.compile(r"\]\([^)\s]*\)|<https?://[^>]*>|https?://\S+")
NUMBER = re.compile(r"(?<![\w.,])[-−+]?(\d[\d,]*)\.(\d+)(?![\d.]*\w)")
PERCENT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(?:%|per cent\b|percent\b)")
INTERVAL = re.compile(r"95\s*(?:%|per cent)")  # the book's intervals all are


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


def find_typed_numbers(text: Text) -> Iterator[str]:
    """Find typed measurements: a cell must print them, or a citation must follow the quotation."""
    for block, cites in itertools.chain(*map(blocks, text.prose)):
        if not cites:
            words = plain(block)
            for match in (*decimals(words), *percentages(words)):
                yield (
                    f"{match.group().strip()} is typed (… {look_around(match)} …); let a cell "
                    "print it, cite its source in the same paragraph or row, or show its "
                    "arithmetic in math"
                )


def find_repeated_values(text: Text) -> Iterator[str]:
    """Find numbers, also in quotations, that repeat a value of the chapter's claims.

    Only the claim's card should show it. In math, where chance meets are many, only those count
    that a card prints with the same digits.
    """
    claims = [claim for claim in text.ledger.values() if claim["chapter"] == text.name]
    published = " ".join(str(claim.get("published") or "") for claim in claims)
    quoted = {match.group().strip("+-−") for match in decimals(published)}
    measured: set[str] = set()
    means: list[float] = []
    for claim in claims:
        if claim["kind"] != "exact":
            measured |= {m.group().strip("+-−") for m in decimals(claim["statement"])}
            means.append(abs(sum(claim["values"]) / len(claim["values"])))
    for block, _ in itertools.chain(*map(blocks, text.prose)):
        outside = {match.group() for match in decimals(plain(block))}
        for match in decimals(plain(block, math=True)):
            number, digits = match.group().strip("+-−"), len(match.group(2))
            same = {f"{mean:.{digits}f}" for mean in means} if match.group() in outside else set()
            if number in measured | same and number not in quoted:
                found = f"{match.group().strip()} is a claim's value"
                yield f"{found} (… {look_around(match)} …); leave it to its card"


def look_around(match: re.Match[str]) -> str:
    """Return a number with the words around it."""
    return " ".join(match.string[max(0, match.start() - 40) : match.end() + 30].split())
