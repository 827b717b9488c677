"""The decision table: what to choose when, and which recorded claims say so.

A row is advice for a situation, with the claims on which it stands. Nothing about a claim is typed
here but its id: verdict and kind come from data/ledger/<size>.json, so a row changes when the
ledger does. A claim that is not in the ledger is shown as "not recorded yet".
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from press.book.ledger import load_recorded

MARKS = {
    "holds": "● holds",
    "not-seen": "○ not seen",
    "contradicted": "▲ contradicted",
    "out-of-range": "◇ out of range",
}
MISSING = "not recorded yet"


@dataclass(frozen=True)
class Advice:
    """One row: a situation, what to choose in it, what is known against it."""

    when: str
    choose: str
    because: tuple[str, ...]  # claims that would have to hold
    but: tuple[str, ...] = ()  # claims that limit it


@dataclass(frozen=True)
class Decision:
    """A row with what the ledger says of each claim; None: not recorded."""

    advice: Advice
    because: Mapping[str, Mapping[str, Any] | None]
    but: Mapping[str, Mapping[str, Any] | None]

    @property
    def standing(self) -> str:
        """Return how well the row stands, from the verdicts of its reasons alone."""
        verdicts = [claim["verdict"] if claim else None for claim in self.because.values()]
        known = [verdict for verdict in verdicts if verdict]
        if not known:
            return MISSING
        # What lies out of range speaks neither for nor against.
        judged = [verdict for verdict in known if verdict != "out-of-range"]
        if not judged:
            return "out of range"
        alone = len(judged) == len(verdicts)
        for verdict, word in (("contradicted", "contradicted"), ("not-seen", "not seen")):
            if verdict in judged:
                whole = alone and set(judged) == {verdict}
                return word if whole else f"{word.replace('not ', '')} in part"
        return "stands" if alone else "stands, as far as recorded and in range"


class Decisions:
    """The table: HTML with links to the claims' cards, or text."""

    def __init__(self, rows: Sequence[Decision]):
        self.rows = tuple(rows)

    def format_rows(self) -> list[dict[str, str]]:
        """Write the rows as text."""
        return [
            {"when": row.advice.when, "choose": row.advice.choose,
             "because": _format_claims(row.because), "but": _format_claims(row.but),
             "standing": row.standing}
            for row in self.rows
        ]  # fmt: skip

    def to_html(self) -> str:
        """Draw the table; a recorded claim links to its card."""
        heads = "".join(
            f'<th scope="col">{head}</th>'
            for head in ("When", "Choose", "Because", "But", "Standing")
        )
        rows = "".join(
            f"<tr><td>{html.escape(row.advice.when)}</td><td>{html.escape(row.advice.choose)}</td>"
            f"<td>{_link_claims(row.because)}</td><td>{_link_claims(row.but)}</td><td>{row.standing}</td></tr>"
            for row in self.rows
        )
        return (
            f'<div class="labkit-table"><table class="labkit-decisions"><thead><tr>{heads}</tr>'
            f"</thead><tbody>{rows}</tbody></table></div>"
        )

    def __str__(self) -> str:
        lines = ["when | choose | because | but | standing"]
        return "\n".join([*lines, *(" | ".join(row.values()) for row in self.format_rows())])

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.to_html(), "text/plain": str(self)}, raw=True)


def decisions(advice: Sequence[Advice], claims: Mapping[str, Mapping[str, Any]]) -> Decisions:
    """Look every claim of the rows up."""

    def find_claims(names: Sequence[str]) -> dict[str, Mapping[str, Any] | None]:
        return {name: claims.get(name) for name in names}

    return Decisions(
        [Decision(row, find_claims(row.because), find_claims(row.but)) for row in advice]
    )


def recorded(size: str = "book", root: Path | None = None) -> dict[str, dict[str, Any]]:
    """Read the recorded claims of the book that is being executed."""
    if root is None:
        from labkit.experiments.lab import project_root  # needs torch

        root = project_root()
    return load_recorded(root, size)["claims"]


def _format_claims(claims: Mapping[str, Mapping[str, Any] | None]) -> str:
    return "; ".join(f"{name} ({_format_verdict(claim)})" for name, claim in claims.items()) or "–"


def _format_verdict(claim: Mapping[str, Any] | None) -> str:
    if claim is None:
        return MISSING
    return MARKS[claim["verdict"]] + (", weak" if claim.get("weak") else "")


def _link_claims(claims: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Link a recorded claim to its card; `press.site.page` turns .ipynb into .html."""
    parts = []
    for name, claim in claims.items():
        label = f"<code>{html.escape(name)}</code>"
        if claim is not None:
            label = f'<a href="{claim["chapter"]}.ipynb#claim-{html.escape(name)}">{label}</a>'
        parts.append(f"{label} {html.escape(_format_verdict(claim))}")
    return "<br>".join(parts) or "–"
