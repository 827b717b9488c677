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
from labkit.statistics.recorded import Claims, find_survivors
from labkit.system.root import project_root

HEADS = ("when", "choose", "grade", "scale", "evidence")
CITATION = re.compile(r"\[(?P<text>.+ \(\d{4}\))\]\((?P<url>https?://\S+)\)")


@dataclass(frozen=True)
class Report:
    """A paper's result, and the size of its runs."""

    work: str  # [Holm (1979)](https://…)
    says: str
    scale: str


@dataclass(frozen=True)
class Advice:
    """One row: a situation, the choice, the evidence for it, and its limits."""

    when: str
    choose: str
    because: tuple[str | Report, ...]  # ids of claims that hold, and reports
    but: tuple[str | Report, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line of a row: support for the advice, or a limit of it."""

    grade: str  # law, report, our run, or a run that is not settled
    scale: str
    says: str
    source: str
    link: str
    limits: bool = False  # it speaks against the advice, or bounds it

    def __str__(self) -> str:
        return f"But: {self.says}" if self.limits else self.says


Row = tuple[Advice, list[Line]]


class Decisions:
    """The table: HTML with links to cards and papers, or text."""

    def __init__(self, rows: Sequence[Row]):
        self.rows = [(advice, of) for advice, of in rows if not all(line.limits for line in of)]
        fallen = [advice for advice, of in rows if all(line.limits for line in of)]
        named = "; ".join(f"{advice.when} {advice.choose}" for advice in fallen)
        self.below = f"Advice for which no evidence is left: {named}." if named else ""

    def to_html(self) -> str:
        """Draw the table; a line links to its card or its paper."""
        heads = "".join(f'<th scope="col">{head.capitalize()}</th>' for head in HEADS[2:])
        rows = "".join(_draw_row(advice, lines) for advice, lines in self.rows)
        below = f"<p>{html.escape(self.below)}</p>" if self.below else ""
        return (
            f'<div class="labkit-table"><table class="labkit-decisions"><thead><tr>{heads}</tr>'
            f"</thead>{rows}</table></div>{below}"
        )

    def __str__(self) -> str:
        rows = [
            (advice.when, advice.choose, line.grade, line.scale, f"{line} ({line.source})")
            for advice, lines in self.rows
            for line in lines
        ]
        return "\n".join([*map(" | ".join, [HEADS, *rows]), self.below]).rstrip()

    __repr__ = __str__

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.to_html(), "text/plain": str(self)}, raw=True)


def read_advice(table: str) -> list[Advice]:
    """Read the rows of one table of data/decisions.csv.

    Raises:
        ValueError: the file is missing or damaged, or a role is neither because nor but.
    """
    rows: dict[tuple[str, str], dict[str, list[str | Report]]] = {}
    for given in published("decisions", project_root() / "data"):
        line = {name: str(cell or "") for name, cell in given.items()}
        if line["table"] != table:
            continue
        row = rows.setdefault((line["when"], line["choose"]), {"because": [], "but": []})
        if line["role"] not in row:
            raise ValueError(
                f"data/decisions.csv: a role must be 'because' or 'but', got {line['role']!r}"
            )
        named = line["claim"] or Report(line["work"], line["says"], line["scale"])
        row[line["role"]].append(named)
    return [
        Advice(when, choose, tuple(row["because"]), tuple(row["but"]))
        for (when, choose), row in rows.items()
    ]


def decisions(advice: Sequence[Advice], claims: Claims) -> Decisions:
    """Look up the surviving evidence for each row.

    Raises:
        ValueError: a paper's citation is not a link whose text ends in the year.
    """
    survivors = find_survivors(claims)

    def read_line(named: str | Report, limits: bool) -> Line | None:
        if isinstance(named, Report):
            cited = CITATION.fullmatch(named.work)
            if cited is None:
                raise ValueError(
                    "data/decisions.csv: a work must be cited as [Holm (1979)](https://…), got "
                    f"{named.work!r}"
                )
            return Line("report", named.scale, named.says, cited["text"], cited["url"], limits)
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
        run = "our run" if settled else "our run, not settled"
        grade, scale = ("law", "any size") if law else (run, _scale_of(claim))
        return Line(grade, scale, said, named, link, limits)

    def read_row(row: Advice) -> Row:
        named = [(name, False) for name in row.because] + [(name, True) for name in row.but]
        return row, [line for name, limits in named if (line := read_line(name, limits))]

    return Decisions([read_row(row) for row in advice])


def _scale_of(claim: Mapping[str, Any]) -> str:
    """Return the size of a finding's models; for the ladder, by rung."""
    if not (rungs := claim.get("rungs")):
        return "small models"
    sizes = {regime.parameters(ladder.build_base_run(rung, "pre")) for rung in rungs}
    return ", ".join(dict.fromkeys(f"{size / 1e6:.2g} M" for size in sorted(sizes))) + " parameters"


def _draw_row(advice: Advice, lines: Sequence[Line]) -> str:
    """Draw a row: situation and choice, and below them the lines of evidence."""
    said = f"{html.escape(advice.when)} <strong>{html.escape(advice.choose)}</strong>"
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
