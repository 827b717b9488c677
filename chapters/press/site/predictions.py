"""What a chapter asks before it measures: questions, each with the axis of its answer.

A chapter types them as a table in its section *Predict*:

    | question | axis | ours |
    | --- | --- | --- |
    | Where? <!-- 04-low --> | −1 to 2 nats | <details><summary>show</summary>Low.</details> |

The comment names the claims of a row. The first answers the question: its number, interval and
criterion come from the ledger; the others are told with it. In JupyterLab and on a code host the
table stands as it is, without ids, what we predict in a fold. The page makes a list of it, each
answer in a fold; there a script (chapters/_static/predict.js) has the reader predict first.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from labkit.experiments.card_html import (
    LOOKS,
    describe_verdict,
    format_number,
    format_values,
    typeset,
)
from labkit.experiments.locks import LOCKED, WORDS
from labkit.statistics.recorded import read_criterion, rebuild_estimate
from press.book.facts import Json
from press.site.axis import read_axis

TABLE = re.compile(
    r"^\| *question *\| *axis *\| *ours *\|\n\|[-:| ]+\|\n(?P<rows>(?:\|.*\|(?:\n|$))+)", re.M
)
CELLS = re.compile(r"(?<!\\)\|")
LIST = '<ol class="labkit-predictions">'
CLAIMS = re.compile(r"<!--\s*(.*?)\s*-->")
OURS = re.compile(r"<details><summary>show</summary>(.*)</details>")


@dataclass(frozen=True)
class Question:
    """One row, as it was typed."""

    asked: str  # Markdown
    axis: str
    ours: str  # Markdown: what the authors predict; empty where that stands in no fold
    claims: tuple[str, ...]  # the first answers the question

    @property
    def mark(self) -> str:
        """Hash question and axis: another question is another prediction."""
        return hashlib.sha256(f"{self.asked} | {self.axis}".encode()).hexdigest()[:8]


def list_questions(markdown: str) -> Iterator[Question]:
    """Read the rows of a chapter's table."""
    for table in TABLE.finditer(markdown):
        yield from map(read_row, table["rows"].splitlines())


def read_row(row: str) -> Question:
    """Read one row; a cell that is missing is empty."""
    cells = [cell.strip().replace("\\|", "|") for cell in CELLS.split(row.strip().strip("|"))]
    asked, axis, ours = [*cells, "", "", ""][:3]
    folded = OURS.fullmatch(ours)
    return Question(
        asked=CLAIMS.sub("", asked).strip(),
        axis=axis,
        ours=folded[1].strip() if folded else "",
        claims=tuple(name for found in CLAIMS.findall(asked) for name in found.split()),
    )


def draw_questions(markdown: str, claims: Mapping[str, Json]) -> str:
    """Turn a chapter's table of questions into the list of its page."""

    def rewrite(table: re.Match[str]) -> str:
        rows = map(read_row, table["rows"].splitlines())
        items = (draw_row(number, row, claims) for number, row in enumerate(rows, start=1))
        return f"{LIST}\n{''.join(items)}</ol>\n"

    return TABLE.sub(rewrite, markdown)


def draw_row(number: int, row: Question, claims: Mapping[str, Json]) -> str:
    """Write one question; ours, what is published and what was measured stand in a fold."""
    told = [name for name in row.claims if name in claims]
    head = name_forecast(row, claims)
    parts = [f"**{head}:** {row.ours} {draw_forecast(row, claims)}".strip()]
    if told and (published := claims[told[0]].get("published")):
        source = claims[told[0]]["source"]
        parts.append(f"<p><b>Published:</b> {typeset(f'{published} ({source})')}</p>")
    parts += [show_answer(name, claims[name]) for name in told]
    answer = "\n\n".join(parts)
    return (
        f'<li class="labkit-asked" id="predict-{number}"{draw_data(row, claims)}>\n\n'
        f"{row.asked}\n\n"
        '<details class="labkit-answer"><summary>Our answer and the measurement</summary>\n\n'
        f"{answer}\n\n</details></li>\n"
    )


def draw_data(row: Question, claims: Mapping[str, Json]) -> str:
    """Write what the script needs as an attribute; nothing where nothing was measured."""
    facts = read_facts(row, claims)
    return f' data-ask="{html.escape(json.dumps(facts, ensure_ascii=False))}"' if facts else ""


def read_facts(row: Question, claims: Mapping[str, Json]) -> dict[str, Any]:
    """Read a question's axis and its answer; numbers are in the unit of the axis."""
    if not row.claims or row.claims[0] not in claims:
        return {}
    claim, axis = claims[row.claims[0]], read_axis(row.axis)
    estimate, rule = rebuild_estimate(claim), read_criterion(claim)
    low, high = estimate.compute_interval()
    several = not claim.get("counts") and len(claim["values"]) > 1
    region = [bound if abs(bound) < 1e300 else None for bound in (rule.low, rule.high)]
    return {
        "claims": list(row.claims),
        "mark": row.mark,
        "low": axis.low,
        "high": axis.high,
        "unit": axis.unit,
        "scale": axis.scale,
        "step": axis.step,
        "ticks": {label: round(place, 4) for place, label in axis.list_ticks()},
        "measured": round_digits(estimate.mean * axis.factor),
        "interval": [round_digits(end * axis.factor) for end in (low, high)] if high > low else [],
        "values": [round_digits(v * axis.factor) for v in claim["values"]] if several else [],
        "region": [None if end is None else round_digits(end * axis.factor) for end in region],
        "ours": axis.describe(rule),
        "found": axis.name(write_mean(estimate.mean * axis.factor, (high - low) * axis.factor)),
    }


def write_mean(mean: float, width: float) -> str:
    """Write what was measured, as its card does."""
    return format_number(mean, width).replace("-", "−")


def round_digits(value: float, digits: int = 6) -> float:
    """Round to the digits that the ledger has."""
    return float(f"{value:.{digits}g}")


def name_forecast(row: Question, claims: Mapping[str, Json]) -> str:
    """Say how our sentence was meant: a prediction (only if preregistered), open, or unlikely."""
    claim = claims.get(row.claims[0], {}) if row.claims else {}
    lock = claim.get("lock")
    if not lock or lock["probability"] > 0.5:
        return "We predicted" if lock and claim.get("word") in (LOCKED, None) else "We say"
    return "We left open" if lock["probability"] == 0.5 else "We thought unlikely"


def draw_forecast(row: Question, claims: Mapping[str, Json]) -> str:
    """Write in brackets the criterion of our prediction, its probability, and the card's word."""
    claim = claims.get(row.claims[0]) if row.claims else None
    if claim is None:
        return ""
    words = f"criterion: {read_axis(row.axis).describe(read_criterion(claim))}"
    if lock := claim.get("lock"):
        word = WORDS.get(claim["word"], "its preregistered runs are incomplete")
        words += f"; p = {lock['probability']:g}, {word}"
    return f"({words})"


def show_answer(name: str, claim: Json) -> str:
    """Write what was found: the mark of the verdict, the sentence, and a link to the card."""
    verdict = claim["verdict"]
    looks = f'class="labkit-verdict-{verdict}" title="{describe_verdict(claim)}"'
    return (
        f"<p><b>Measured:</b> <span {looks}>{LOOKS[verdict][0]}</span> "
        f"{typeset(claim['statement'])} {format_values(claim, rebuild_estimate(claim))} "
        f'<a href="#claim-{html.escape(name)}">card</a></p>'
    )
