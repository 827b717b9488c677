"""What a chapter's questions must be: few, with one choice that is right, and not told before.

A row of a table (press/site/predictions.py) asks. Its choices cut the number line so that the whole
interval of what was measured makes one of them right; the card that answers it stands below it, in
the same section; and no reader sees the name of a claim, which tells its outcome, above its card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from labkit.statistics.recorded import rebuild_estimate
from press.site.predictions import Question, list_questions

FORM = (
    "| question? <!-- claim-id --> | choice; <!-- 0.1 --> choice | "
    "<details><summary>show</summary>ours</details> |"
)
MOST = 3  # questions of a chapter
HEADING = re.compile(r"^#{2,3} ", re.M)
COMMENT = re.compile(r"<!--.*?-->", re.S)
Claims = Mapping[str, Mapping[str, Any]]


class Cell(Protocol):
    """A cell of a notebook."""

    id: str
    cell_type: str
    source: str


def find_wrong_questions(
    cells: Sequence[Cell], made: Mapping[str, int], claims: Claims
) -> Iterator[str]:
    """Yield what is wrong with a chapter's questions; `made` says in which cell each claim is."""
    asked: dict[str, str] = {}
    count = 0
    for index, cell in enumerate(cells):
        for row in list_questions(cell.source) if cell.cell_type == "markdown" else ():
            count += 1
            begins = f"the question “{' '.join(row.asked.split()[:6])} …”"
            for fault in judge_row(row, claims):
                yield f"{begins} {fault}"
            for one in row.claims:
                if one in asked:
                    yield f"{begins} asks about {one}, and so does {asked[one]}; once is enough"
                asked[one] = begins
                if one in claims and one not in made:
                    yield f"{begins} asks about {one}, which this chapter does not make"
                elif made.get(one, index) < index:
                    yield f"{begins} comes after the card of {one}; ask before you answer"
            last = made.get(row.claims[0], index) if row.claims else index
            if any(is_heading(between) for between in cells[index + 1 : last]):
                yield f"{begins} is not in the section of the card of {row.claims[0]}"
    if count > MOST:
        yield f"asks {count} questions; {MOST} at most"


def is_heading(cell: Cell) -> bool:
    """Return whether a section begins in a cell."""
    return cell.cell_type == "markdown" and bool(HEADING.search(cell.source))


def judge_row(row: Question, claims: Claims) -> Iterator[str]:
    """Yield what is wrong with one row."""
    if not row.asked.rstrip("*) ").endswith(("?", ".")) or "?" not in row.asked:
        yield "must contain a question mark, and end in one or in a full stop"
    if not row.ours:
        yield f"lacks our prediction in a fold; a row is {FORM}"
    if not row.claims:
        yield f"names no claim; a row is {FORM}"
    for name in row.claims:
        if name not in claims:
            yield f"names {name}, which is not recorded"
    if not row.cuts:
        yield f"offers no choice; a row is {FORM}"
    if list(row.cuts) != sorted(set(row.cuts)):
        yield f"has the cuts {', '.join(map('{:g}'.format, row.cuts))}; sort them"
    if row.claims and (claim := claims.get(row.claims[0])):
        low, high = rebuild_estimate(claim).compute_interval()
        if row.find_choice(low) != row.find_choice(high):
            yield f"has a cut inside the interval from {low:.3g} to {high:.3g}; move it"


def find_told_ids(cells: Sequence[Cell], made: Mapping[str, int]) -> Iterator[str]:
    """Report the claims whose names are visible to the reader above their cards."""
    for index, cell in enumerate(cells):
        if cell.cell_type != "markdown":
            continue
        seen = COMMENT.sub("", cell.source)
        for one, where in made.items():
            if index < where and re.search(rf"(?<![\w-]){re.escape(one)}(?![\w-])", seen):
                yield f"{one} is named above its card, and its name tells the outcome; hide it"


def locate_claims(cells: Sequence[Cell], cards: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Find the cell of each claim, from the cards that a twin has."""
    order = {cell.id: index for index, cell in enumerate(cells)}
    return {card["id"]: order[card["cell"]] for card in cards if card["cell"] in order}
