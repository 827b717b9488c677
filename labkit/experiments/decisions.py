"""The decision table: a choice for each situation, with the surviving evidence for it.

A row is advice for a situation. The evidence for it, and its limits, have three grades:

    law      a claim that is algebra or a count: at any size
    report   a paper's runs, with their scale
    our run  a finding of this book that survives Holm's correction in its chapter

data/decisions.csv has the rows, one line per piece of evidence: support for the advice (`because`)
or a limit of it (`but`), given as a claim's id or a paper's citation, which is checked against
references.bib. The file has only the ids of claims: sentence, verdict and scale come from
data/ledger/book.json, so the table changes with the ledger. Evidence that does not survive is left
out, or called not settled if it would limit the advice. A row without any support is removed and
named below the table.
"""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.experiments import ladder, regime
from labkit.experiments.card_html import find_sentence
from labkit.experiments.papers import published
from labkit.statistics.recorded import Claims, find_survivors, is_waiting
from labkit.system.root import project_root

HEADS = ("when", "choose", "grade", "scale", "evidence")
CITATION = re.compile(r"\[(?P<text>.+ \(\d{4}\))\]\((?P<url>https?://\S+)\)")


Cited = dict[str, str]  # one line of data/decisions.csv, by column
Rows = dict[tuple[str, str], list[Cited]]  # the lines of a table, by situation and choice


@dataclass(frozen=True)
class Line:
    """One line of a row: support for the advice, or a limit of it."""

    grade: str  # law, report, our run, or a run that is incomplete or not settled
    scale: str
    says: str
    source: str
    link: str
    limits: bool = False  # it speaks against the advice, or bounds it

    def __str__(self) -> str:
        return f"But: {self.says}" if self.limits else self.says


class Decisions:
    """The table: HTML with links to cards and papers, or text."""

    def __init__(self, rows: Mapping[tuple[str, str], Sequence[Line]]):
        fallen = [advice for advice, of in rows.items() if all(line.limits for line in of)]
        self.rows = {advice: of for advice, of in rows.items() if advice not in fallen}
        named = "; ".join(map(" ".join, fallen))
        self.below = f"Advice for which no evidence is left: {named}." if named else ""

    def to_html(self) -> str:
        """Draw the table; a line links to its card or its paper."""
        heads = "".join(f'<th scope="col">{head.capitalize()}</th>' for head in HEADS[2:])
        rows = "".join(_draw_row(*advice, lines) for advice, lines in self.rows.items())
        below = f"<p>{html.escape(self.below)}</p>" if self.below else ""
        return (
            f'<div class="labkit-table"><table class="labkit-decisions"><thead><tr>{heads}</tr>'
            f"</thead>{rows}</table></div>{below}"
        )

    def __str__(self) -> str:
        rows = [
            (*advice, line.grade, line.scale, f"{line} ({line.source})")
            for advice, lines in self.rows.items()
            for line in lines
        ]
        return "\n".join([*map(" | ".join, [HEADS, *rows]), self.below]).rstrip()

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.to_html(), "text/plain": str(self)}, raw=True)


def read_advice(table: str) -> Rows:
    """Read the rows of one table of data/decisions.csv.

    Raises:
        ValueError: the file is missing or damaged, or a role is neither because nor but.
    """
    rows: Rows = {}
    for given in published("decisions", project_root() / "data"):
        line = {name: str(cell or "") for name, cell in given.items()}
        if line["role"] not in ("because", "but"):
            raise ValueError(
                f"data/decisions.csv: a role must be 'because' or 'but', got {line['role']!r}"
            )
        if line["table"] == table:
            rows.setdefault((line["when"], line["choose"]), []).append(line)
    return rows


def decisions(advice: Rows, claims: Claims) -> Decisions:
    """Look up the surviving evidence for each row: first what supports it, then its limits.

    Raises:
        ValueError: a paper's citation is not a link whose text ends in the year.
    """
    survivors = find_survivors(claims)

    def read_line(cited: Cited) -> Line | None:
        limits, named = cited["role"] == "but", cited["claim"]
        if not named:
            return _read_report(cited, limits)
        claim = claims.get(named)
        if claim is None or claim["verdict"] == "out-of-range":
            return None
        law, refuted = claim["sort"] == "law", claim["verdict"] == "contradicted"
        settled = law or named in survivors
        if not limits and (refuted or not settled):
            return None
        said = find_sentence(claim)
        if refuted or not settled:
            said = str(claim["statement"])  # the result, which may contradict the claim
        link = f"{claim['chapter']}.ipynb#claim-{named}"
        short = "runs incomplete" if is_waiting(claim) else "not settled"
        run = "our run" if settled else f"our run, {short}"
        grade, scale = ("law", "any size") if law else (run, _scale_of(claim))
        return Line(grade, scale, said, named, link, limits)

    found = {row: list(filter(None, map(read_line, of))) for row, of in advice.items()}
    return Decisions({row: sorted(of, key=lambda line: line.limits) for row, of in found.items()})


def _read_report(cited: Cited, limits: bool) -> Line:
    """Read a paper's result, and the size of its runs."""
    work = CITATION.fullmatch(cited["work"])
    if work is None:
        raise ValueError(
            "data/decisions.csv: a work must be cited as [Holm (1979)](https://…), got "
            f"{cited['work']!r}"
        )
    return Line("report", cited["scale"], cited["says"], work["text"], work["url"], limits)


def _scale_of(claim: Mapping[str, Any]) -> str:
    """Return the size of a finding's models; for the ladder, by rung."""
    if not (rungs := claim.get("rungs")):
        return "small models"
    sizes = {regime.parameters(ladder.build_base_run(rung, "pre")) for rung in rungs}
    return ", ".join(dict.fromkeys(f"{size / 1e6:.2g} M" for size in sorted(sizes))) + " parameters"


def _draw_row(when: str, choose: str, lines: Sequence[Line]) -> str:
    """Draw a row: situation and choice, and below them the lines of evidence."""
    said = f"{html.escape(when)} <strong>{html.escape(choose)}</strong>"
    drawn = [f'<tr><th colspan="{len(HEADS) - 2}" scope="rowgroup">{said}</th></tr>']
    for line in lines:
        says, source, link = map(html.escape, (str(line), line.source, line.link))
        # A card's sentence is its link; a paper is named. `press.site.page` makes .ipynb .html.
        evidence = f'<a href="{link}">{says}</a>'
        if line.grade == "report":
            evidence = f'{says} <a href="{link}">{source}</a>'
        drawn.append(
            f"<tr><td>{line.grade}</td><td>{html.escape(line.scale)}</td><td>{evidence}</td></tr>"
        )
    return f"<tbody>{''.join(drawn)}</tbody>"
