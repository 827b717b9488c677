"""What a chapter's questions must be: whole, on an axis that holds the answer, and not told before.

A row of the table in *Predict* (press/site/predictions.py) asks; its axis holds what was measured,
every seed of it, and a criterion that could have failed there; its claims are made below it; and
no reader sees the name of a claim, which tells its outcome, above the claim's card.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from labkit.statistics.recorded import read_criterion, rebuild_estimate
from press.site.axis import Axis, read_axis
from press.site.predictions import Question, list_questions

FORM = "| question? <!-- claim-id --> | axis | <details><summary>show</summary>ours</details> |"
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
    for index, cell in enumerate(cells):
        for row in list_questions(cell.source) if cell.cell_type == "markdown" else ():
            begins = f"the question “{' '.join(row.asked.split()[:6])} …”"
            for fault in judge_row(row, claims):
                yield f"{begins} {fault}"
            for one in row.claims:
                if one in asked:
                    yield f"{begins} asks for {one}, and so does {asked[one]}; once is enough"
                asked[one] = begins
                if one in claims and one not in made:
                    yield f"{begins} asks for {one}, which this chapter does not make"
                elif made.get(one, index) < index:
                    yield f"{begins} stands below the card of {one}; ask before you answer"
    if not asked:
        yield f"asks its reader nothing; its section Predict has a table of rows like {FORM}"


def judge_row(row: Question, claims: Claims) -> Iterator[str]:
    """Yield what is wrong with one row."""
    if not row.asked.rstrip("*) ").endswith(("?", ".")) or "?" not in row.asked:
        yield "does not ask; it ends in a question mark"
    if not row.ours:
        yield f"lacks what we predict, in a fold; a row is {FORM}"
    if not row.claims:
        yield f"names no claim; a row is {FORM}"
    for name in row.claims:
        if name not in claims:
            yield f"names {name}, which is not recorded"
    try:
        axis = read_axis(row.axis)
    except ValueError as error:
        yield f"has no axis: {error}"
        return
    if row.claims and (claim := claims.get(row.claims[0])):
        yield from judge_axis(axis, claim)


def judge_axis(axis: Axis, claim: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an axis lacks: the answer, its seeds, or a criterion that may be met or not."""
    mean, rule = rebuild_estimate(claim).mean, read_criterion(claim)
    shown = f"from {axis.format(axis.low)} to {axis.name(axis.format(axis.high))}"
    if not axis.holds(mean):
        yield f"has an axis {shown}, beside what was measured; widen it"
    elif not claim.get("counts") and not all(map(axis.holds, claim["values"])):
        yield f"has an axis {shown}, beside one of the seeds; widen it"
    if not all(map(axis.holds, rule.bounds)):
        yield f"has an axis {shown}, beside our criterion, {claim['criterion']}; widen it"
    elif not axis.decides(rule):
        yield f"has an axis {shown}, where {claim['criterion']} holds or fails whatever comes"


def find_told_ids(cells: Sequence[Cell], made: Mapping[str, int]) -> Iterator[str]:
    """Yield the claims whose names stand, for a reader to see, above their cards."""
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
