"""The table of a chapter's predictions: what was measured is folded, for the reader to guess first.

A chapter types what it predicts and the claims that answer it:

    | we predict | measured |
    | --- | --- |
    | The loss falls. | `04-loss-falls` |

A script adds a column for the reader's own guess (chapters/_static/predict.js).
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from labkit.experiments.card_html import LOOKS, describe_verdict, format_values, typeset
from press.book.facts import Json
from press.book.holm import rebuild_estimate

TABLE = re.compile(
    r"^\| *we predict *\| *measured *\|\n\|[-:| ]+\|\n(?P<rows>(?:\|.*\|(?:\n|$))+)", re.M
)
CELLS = re.compile(r"(?<!\\)\|")
CLAIM = re.compile(r"`([^`]+)`")
HEAD = """````{list-table}
:class: labkit-predictions
:header-rows: 1

* - we predict
  - measured
"""


def fold_answers(markdown: str, claims: Mapping[str, Json]) -> str:
    """Turn a table of predictions into one whose measured answers are folded."""

    def rewrite(table: re.Match[str]) -> str:
        rows = [CELLS.split(row.strip().strip("|")) for row in table["rows"].splitlines()]
        return (
            HEAD
            + "".join(format_row(row[0], CLAIM.findall(row[1]), claims) for row in rows)
            + "````\n"
        )

    return TABLE.sub(rewrite, markdown)


def format_row(prediction: str, names: list[str], claims: Mapping[str, Json]) -> str:
    """Write one prediction, with what was found in a fold."""
    found = "".join(
        f"\n    {show_answer(name, claims[name])}\n" for name in names if name in claims
    )
    shown = prediction.strip().replace("\\|", "|")
    return f"* - {shown}\n  - <details><summary>show</summary>\n{found}\n    </details>\n"


def show_answer(name: str, claim: Json) -> str:
    """Write what was found: the mark of the verdict, the sentence, and a link to the card."""
    mark, words = LOOKS[claim["verdict"]][0], describe_verdict(claim)
    return (
        f'<span class="labkit-verdict-{claim["verdict"]}" title="{words}">{mark}</span> '
        f"{typeset(claim['statement'])} {format_values(claim, rebuild_estimate(claim))} "
        f'<a href="#claim-{html.escape(name)}">card</a>'
    )
