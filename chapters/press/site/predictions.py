"""What a chapter asks before it shows a result: one question, a few choices, one of them right.

A chapter types a question as a table, in the section that has the answer, above the figure:

    | question | choices | ours |
    | --- | --- | --- |
    | Which is lower? <!-- 04-low --> | A; <!-- -0.1 --> about equal; <!-- 0.1 --> B | <details>…

The comment of a question names the claims of its row. The first answers it: comments between the
choices cut the number line, and the number of that claim lies between two cuts. The others are told
with it. In JupyterLab and on a code host the table stands as it is, without ids and cuts, what we
predict in a fold. On the page a script (chapters/_static/predict.js) makes buttons of the choices
and hides what follows in the section until the reader has chosen, or has asked to see it.
"""

from __future__ import annotations

import hashlib
import html
import json
import math
import operator
import re
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from labkit.experiments.card_html import LOOKS, describe_verdict, typeset
from labkit.experiments.locks import LOCKED
from labkit.statistics.criteria import Criterion
from labkit.statistics.recorded import rebuild_estimate
from press.book.facts import Json

TABLE = re.compile(
    r"^\| *question *\| *choices *\| *ours *\|\n\|[-:| ]+\|\n(?P<rows>(?:\|.*\|(?:\n|$))+)", re.M
)
HEAD = "| question | choices | ours |"  # of such a table, as chapters type it
CELLS = re.compile(r"(?<!\\)\|")
ASKED = '<div class="labkit-asked"'
CUT = re.compile(r";?\s*<!--\s*([-−]?[\d.]+)\s*-->\s*")
CLAIMS = re.compile(r"<!--\s*(.*?)\s*-->")
OURS = re.compile(r"<details><summary>show</summary>(.*)</details>")


@dataclass(frozen=True)
class Question:
    """One row, as it was typed."""

    asked: str  # Markdown
    choices: tuple[str, ...]
    cuts: tuple[float, ...]  # between one choice and the next, in the claim's own unit
    ours: str  # Markdown: what the authors predict; empty where that stands in no fold
    claims: tuple[str, ...]  # the first answers the question

    @property
    def mark(self) -> str:
        """Hash question and choices: another question is another prediction."""
        text = " | ".join((self.asked, *self.choices))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def find_choice(self, value: float) -> int:
        """Return which choice a number makes right; a cut itself belongs to the higher one."""
        return bisect(self.cuts, value)

    def list_met(self, rule: Criterion) -> list[bool] | None:
        """Return of each choice whether it meets a criterion; None where a choice does in part."""
        ends = [(low, high) for low, high in pairwise((-math.inf, *self.cuts, math.inf))]
        met = [rule.low <= low and high <= rule.high for low, high in ends]
        apart = [high <= rule.low or rule.high <= low for low, high in ends]
        return met if all(map(operator.or_, met, apart)) else None


def list_questions(markdown: str) -> Iterator[Question]:
    """Read the rows of a chapter's tables."""
    for table in TABLE.finditer(markdown):
        yield from map(read_row, table["rows"].splitlines())


def read_row(row: str) -> Question:
    """Read one row; a cell that is missing is empty."""
    cells = [cell.strip().replace("\\|", "|") for cell in CELLS.split(row.strip().strip("|"))]
    asked, choices, ours = [*cells, "", "", ""][:3]
    folded = OURS.fullmatch(ours)
    labels = CUT.split(choices)
    return Question(
        asked=CLAIMS.sub("", asked).strip(),
        choices=tuple(label.strip() for label in labels[::2]),
        cuts=tuple(float(cut.replace("−", "-")) for cut in labels[1::2]),
        ours=folded[1].strip() if folded else "",
        claims=tuple(name for found in CLAIMS.findall(asked) for name in found.split()),
    )


def draw_questions(markdown: str, claims: Mapping[str, Json], numbers: Iterator[int]) -> str:
    """Turn the questions of a cell into those of the page, each with the chapter's next number."""

    def rewrite(table: re.Match[str]) -> str:
        rows = map(read_row, table["rows"].splitlines())
        return "\n".join(draw_row(next(numbers), row, claims) for row in rows)

    return TABLE.sub(rewrite, markdown)


def draw_row(number: int, row: Question, claims: Mapping[str, Json]) -> str:
    """Write one question; ours, what is published and what was measured stand in a fold."""
    told = [name for name in row.claims if name in claims]
    head = name_forecast(row, claims)
    parts = [f"**{head}:** {row.ours}".strip()]
    if told and (published := claims[told[0]].get("published")):
        source = claims[told[0]]["source"]
        parts.append(f"<p><b>Published:</b> {typeset(f'{published} ({source})')}</p>")
    parts += [show_answer(name, claims[name]) for name in told]
    answer = "\n\n".join(parts)
    choices = "\n".join(f"- {choice}" for choice in row.choices)
    return (
        f'{ASKED} id="predict-{number}"{draw_data(read_facts(row, claims))}>\n\n'
        f"**Predict.** {row.asked}\n\n{choices}\n\n"
        '<details class="labkit-answer"><summary>Our answer and the measurement</summary>\n\n'
        f"{answer}\n\n</details></div>\n"
    )


def draw_data(facts: Mapping[str, Any]) -> str:
    """Write what the script needs as an attribute; nothing where nothing was measured."""
    return f' data-ask="{html.escape(json.dumps(facts, ensure_ascii=False))}"' if facts else ""


def read_facts(row: Question, claims: Mapping[str, Json]) -> dict[str, Any]:
    """Read a question's choices and which of them is right."""
    if not row.claims or row.claims[0] not in claims:
        return {}
    mean = rebuild_estimate(claims[row.claims[0]]).mean
    return {
        "claims": list(row.claims),
        "mark": row.mark,
        "choices": list(row.choices),
        "right": row.find_choice(mean),
    }


def name_forecast(row: Question, claims: Mapping[str, Json]) -> str:
    """Say how our sentence was meant: a prediction (only if preregistered), open, or unlikely."""
    claim = claims.get(row.claims[0], {}) if row.claims else {}
    lock = claim.get("lock")
    if not lock or lock["probability"] > 0.5:
        return "We predicted" if lock and claim.get("word") in (LOCKED, None) else "We say"
    return "We left open" if lock["probability"] == 0.5 else "We thought unlikely"


def show_answer(name: str, claim: Json) -> str:
    """Write what was found: the mark of the verdict, the sentence, and a link to the card."""
    verdict = claim["verdict"]
    looks = f'class="labkit-verdict-{verdict}" title="{describe_verdict(claim)}"'
    return (
        f"<p><b>Measured:</b> <span {looks}>{LOOKS[verdict][0]}</span> "
        f"{typeset(claim['statement'])} "
        f'<a href="#claim-{html.escape(name)}">card</a></p>'
    )
