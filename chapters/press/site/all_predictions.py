"""All questions of the book again, for the page with the reader's predictions.

A fold a chapter holds its questions, each with its choices, its answer and the forecasts that were
locked; a script (chapters/_static/predict.js) adds what the reader locked, and scores all of them.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from labkit.experiments.locks import LOCKED, WORDS
from labkit.statistics.recorded import read_criterion
from press.book.chapters import format_number
from press.book.facts import Json, format_table
from press.book.forecasts import (
    Forecast,
    Score,
    list_forecasts,
    read_withdrawn,
    score_forecasts,
)
from press.site.outline import Book, Outline
from press.site.predictions import Question, draw_data, list_questions, read_facts

PLACE = '<div id="labkit-overview"></div>'  # of what the script writes
BY = ("authors", "paper")


def draw_predictions(root: Path, book: Book) -> str:
    """Draw the space for the reader's scores, and the questions of every chapter that has any."""
    forecasts = list_forecasts(root)
    folds = [draw_chapter(chapter, forecasts) for chapter in book.values()]
    return "\n\n".join([PLACE, *filter(None, folds)])


def draw_chapter(chapter: Outline, forecasts: Sequence[Forecast]) -> str:
    """Draw the fold of a chapter; nothing if it has no questions."""
    items = "".join(
        draw_item(chapter, number, row, forecasts)
        for number, row in enumerate(list_questions(chapter.prose), start=1)
    )
    title = f"{format_number(chapter.number)} · {html.escape(chapter.title)}"
    fold = f'<details class="labkit-chapter"><summary>{title}</summary>'
    return f"{fold}\n\n<ol>\n{items}</ol>\n\n</details>" if items else ""


def draw_item(chapter: Outline, number: int, row: Question, forecasts: Sequence[Forecast]) -> str:
    """Draw one question, with a link to its chapter."""
    facts = read_facts(row, chapter.claims)
    if facts:
        facts |= tell_forecasts(row, chapter.claims, forecasts)
        facts |= {"asked": row.asked, "chapter": chapter.number}
    link = f'<a class="place" href="{chapter.name}.html#predict-{number}">in its chapter</a>'
    item = f'<li class="labkit-asked" id="asked-{chapter.number}-{number}"{draw_data(facts)}>'
    return f"{item}\n\n{row.asked} {link}\n\n</li>\n"


def tell_forecasts(
    row: Question, claims: Mapping[str, Json], forecasts: Sequence[Forecast]
) -> dict[str, Any]:
    """Return the preregistered probabilities, whether the claim held, and the matching choices."""
    of_claim = [
        one
        for one in forecasts
        if one.id == row.claims[0] and one.by in BY and one.word == LOCKED
        and one.outcome is not None
    ]  # fmt: skip
    met = row.list_met(read_criterion(claims[row.claims[0]]))
    if not of_claim or met is None:
        return {}
    known = {one.by: one.probability for one in of_claim}
    return {"forecasts": known, "held": of_claim[0].outcome, "met": met}


def format_scores(root: Path) -> str:
    """Format the table of scores for all forecasts of the book."""
    rows = list(list_scores(list_forecasts(root)))
    if not rows:
        return "No preregistered claim has been judged yet."
    table = format_table(("by", "claims", "forecasts", "held", "Brier"), rows, numbers=True)
    if not (withdrawn := read_withdrawn(root)):
        return table
    told = "\n".join(f"- `{name}`: {why}" for name, why in withdrawn.items())
    return f"{table}\n\nEntered as a paper's forecast by mistake, and not scored:\n\n{told}"


def list_scores(forecasts: Sequence[Forecast]) -> Iterator[tuple[str, ...]]:
    """Score the authors and the papers over all their locked forecasts, both kinds together."""
    names = {"authors": "the authors", "paper": "the papers"}
    for score, held in score_all(forecasts):
        counts = str(score.count), str(held)
        yield names[score.by], WORDS[score.word], *counts, f"{score.brier:.3f}"


def score_all(forecasts: Sequence[Forecast]) -> list[tuple[Score, int]]:
    """Score both kinds of claims together; return with each score how many claims held."""
    whole = [replace(one, sort="") for one in forecasts if one.by in BY]
    return [(one, sum(held for *_, held in one.bins)) for one in score_forecasts(whole)]
