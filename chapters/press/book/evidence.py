"""The decision table: what to choose when, and the evidence that is left for it.

A row is advice for a situation. What speaks for it, and what limits it, is of three grades:

    law      a claim that is algebra or a count: at any size
    report   a paper's runs, with their scale
    our run  a finding of this book that survives Holm's correction in its chapter

data/decisions.csv has the rows, a line for each piece of evidence: what speaks for the advice
(`because`) and what limits it (`but`), a claim by its id or a paper by its key in references.bib.
Nothing about a claim is typed there but its id: sentence, verdict and scale come from
data/ledger/<size>.json, so the table changes when the ledger does. What does not survive is left
out, or said to be open where it would limit the advice; a row that nothing speaks for any more is
not a row, and is named below the table.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from press.book.citations import read_works
from press.book.files import Red, read_rows
from press.book.holm import find_survivors
from press.book.ledger import load_recorded

Claims = Mapping[str, Mapping[str, Any]]
HEADS = ("when", "choose", "grade", "scale", "evidence")


@dataclass(frozen=True)
class Report:
    """What a paper reports, by its key in references.bib, and how large its runs were."""

    work: str
    says: str
    scale: str


@dataclass(frozen=True)
class Advice:
    """One row: a situation, what to choose in it, what speaks for that and what limits it."""

    when: str
    choose: str
    because: tuple[str | Report, ...]  # ids of claims that hold, and reports
    but: tuple[str | Report, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """One line of a row."""

    grade: str  # law, report, our run
    scale: str
    says: str
    source: str
    link: str
    limits: bool = False  # it speaks against the advice, or bounds it

    def __str__(self) -> str:
        return f"But: {self.says}" if self.limits else self.says


Row = tuple[Advice, list[Evidence]]


class Decisions:
    """The table: HTML with links to cards and papers, or text."""

    def __init__(self, rows: Sequence[Row]):
        self.rows = [(advice, lines) for advice, lines in rows if not all(e.limits for e in lines)]
        fallen = [advice for advice, lines in rows if all(line.limits for line in lines)]
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
    """Read the rows of one table of data/decisions.csv."""
    lines = [line for line in read_rows(_find_root(), "decisions.csv") if line["table"] == table]
    rows: dict[tuple[str, str], dict[str, list[str | Report]]] = {}
    for line in lines:
        row = rows.setdefault((line["when"], line["choose"]), {"because": [], "but": []})
        if line["role"] not in row:
            raise Red(f"data/decisions.csv: a role must be because or but, got {line['role']!r}")
        named = line["claim"] or Report(line["work"], line["says"], line["scale"])
        row[line["role"]].append(named)
    return [
        Advice(when, choose, tuple(row["because"]), tuple(row["but"]))
        for (when, choose), row in rows.items()
    ]


def decisions(advice: Sequence[Advice], claims: Claims) -> Decisions:
    """Look up what is left of the evidence for each row."""
    survivors = find_survivors(claims)
    works = read_works(_find_root() / "chapters")

    def read_line(named: str | Report, limits: bool) -> Evidence | None:
        if isinstance(named, Report):
            work = works[named.work]
            source = f"{work.authors} ({work.year})"
            return Evidence("report", named.scale, named.says, source, work.url, limits)
        claim = claims.get(named)
        if claim is None or claim["verdict"] == "out-of-range":
            return None
        law, refuted = claim["sort"] == "law", claim["verdict"] == "contradicted"
        settled = law or named in survivors
        if not limits and (refuted or not settled):
            return None
        said = str(claim["said"])
        if not settled:
            said = f"not settled: {said}"
        elif refuted:
            said = str(claim["statement"])  # what was found
        link = f"{claim['chapter']}.ipynb#claim-{named}"
        grade, scale = ("law", "any size") if law else ("our run", _scale_of(claim))
        return Evidence(grade, scale, said, named, link, limits)

    def read_row(row: Advice) -> Row:
        named = [(name, False) for name in row.because] + [(name, True) for name in row.but]
        return row, [line for name, limits in named if (line := read_line(name, limits))]

    return Decisions([read_row(row) for row in advice])


def recorded() -> dict[str, dict[str, Any]]:
    """Read the recorded claims of the book that is being executed."""
    return load_recorded(_find_root(), "book")["claims"]


def _find_root() -> Path:
    from labkit.system.root import project_root

    return project_root()


def _scale_of(claim: Mapping[str, Any]) -> str:
    """Say how large the runs of a finding were: those of the ladder by rung."""
    if not (rungs := claim.get("rungs")):
        return "small models"
    from labkit.experiments import ladder, regime  # needs torch

    sizes = [regime.parameters(ladder.build_base_run(rung, "pre")) for rung in rungs]
    return " and ".join(f"{size / 1e6:.2g} M" for size in sizes) + " parameters"


def _draw_row(advice: Advice, lines: Sequence[Evidence]) -> str:
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
