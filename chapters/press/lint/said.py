"""Check that a chapter's prose states the verdicts that the ledger records.

A sentence of a Markdown cell that mentions a card and states its verdict must state the recorded
one. The cards that it mentions are the claims that it names, or else those of the last code cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from press.book.chapters import NUMBER
from press.book.percent import cells_of
from press.lint.text import Text

Claims = Mapping[str, Mapping[str, Any]]
SAYS = {
    "holds": re.compile(r"\bholds?\b"),
    "not-seen": re.compile(r"\bnot seen\b", re.I),
    "contradicted": re.compile(r"\bcontradict(?:s|ed)\b"),
    "out-of-range": re.compile(r"\bout of range\b"),
    "weak": re.compile(r"\b(?:is|are|both|on a|a) weak(?:ly)?\b"),
}
# "This card is weak", "Both cards hold", "Not seen."; but not "Cards of all chapters".
CARD = re.compile(
    r"\b(?:the|this|that|both|two|three|a|its|\w+'s)(?: \w+)? cards?\b"
    r"|\A(?:not seen|contradicted|out of range)\b|\b(?:not seen|contradicted) here\b",
    re.I,
)
ON_ONE = re.compile(r"\bholds? (?:on|at) (?:one|rung|size|[SML]\b)")  # on one rung alone
OPEN = re.compile(r"\b(?:if|whether|whatever|would|may|can|could|where|that says?)\b", re.I)
PREDICTIONS = re.compile(r"\b(two|three|four|five|six) (?:predictions|claims) hold\b", re.I)
COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n\n+|\n(?=\|)")


def made_in(code: str, claims: Claims) -> list[str]:
    """List the recorded claims that a code cell makes."""
    ids = re.findall(rf"""["']({NUMBER}-[a-z0-9*.-]+)(\{{?)""", code)
    return [
        name
        for name in claims
        if any(name.startswith(part) if open_ else name == part for part, open_ in ids)
    ]


def find_misstatements(text: Text) -> Iterator[str]:
    """Find sentences that state another verdict than the ledger."""
    near: list[str] = []
    prose_before = True
    for cell in cells_of(text.source):
        markdown = cell.kind == "markdown"
        if not markdown:
            near = made_in(cell.source, text.ledger) + ([] if prose_before else near)
        for sentence in SENTENCE.split(cell.source) if markdown else []:
            if wrong := _wrong(sentence, near, text.ledger):
                yield f"{wrong}: {' '.join(sentence.split())}"
        prose_before = markdown


def _wrong(sentence: str, near: list[str], claims: Claims) -> str:
    """Return what a sentence gets wrong; empty if it is right or mentions no card."""
    named = [name for name in re.findall(rf"`({NUMBER}-[a-z0-9*.-]+)`", sentence) if name in claims]
    about = named or near
    verdicts = [claims[name]["verdict"] for name in about]
    if match := PREDICTIONS.search(sentence):
        holding = verdicts.count("holds")
        return "" if holding >= COUNTS[match[1].lower()] else f"only {holding} hold of {about}"
    if (
        not about
        or OPEN.search(sentence)
        or not (named or (CARD.search(sentence) and sentence[0] != "|"))
    ):
        return ""
    for says, pattern in SAYS.items():
        weak = any(claims[name].get("weak") for name in about)
        true = weak if says == "weak" else says in verdicts
        if says == "holds" and "holds-on-one" in verdicts and ON_ONE.search(sentence):
            true = True
        if pattern.search(sentence) and not true:
            recorded = ", ".join(f"{name} is {claims[name]['verdict']}" for name in about)
            return f"states {says}, but {recorded}"
    return ""
