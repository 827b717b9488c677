"""The top of a chapter's page: number and title, then the question next to the first figure.

A chapter types a title, **Question.**, what it says in short, and one figure before its first
section. The page puts the question, how the claims fared, what reading and running cost and the
short answer beside the figure, so that all of it stands on the first screen; the imports follow,
folded. A chapter that asks its reader to predict folds the short answer, which would give the
results away; an appendix leaves it open. Without one the tally stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from press.book.chapters import format_number
from press.book.declared import sum_costs
from press.book.facts import Json
from press.book.folds import is_fold, merge_folds
from press.site.claim_cards import count_held, count_others
from press.site.outline import Outline
from press.site.page import is_figure

SECTION = re.compile(r"^## ", re.M)
OPEN = "**In short.**"
FOLDED = "<details><summary>In short (contains spoilers)</summary>"
SHORT = re.compile(f"{re.escape(OPEN)}|{re.escape(FOLDED)}")

ASKED = """{heading}

<div class="labkit-hero{beside}">

<div class="labkit-asks">

{question}

{facts}

{told}

</div>"""


def format_facts(chapter: Outline, notebook: Json, launch: str = "") -> str:
    """Format a chapter's verdicts, reading time and runs, with a link to its notebook.

    `launch` has links that open it where it runs.
    """
    cost = sum_costs(notebook)
    minutes = max(1, round(cost["cpu_seconds"] / 60))
    ran = f"{cost['runs']:,} recorded runs ({minutes:,} CPU-minutes)"
    parts = [
        link_tally(chapter.claims.values(), chapter.number),
        f"{chapter.minutes} min to read",
        ran if cost["runs"] else "",
        f"{{download}}`notebook <notebooks/{chapter.name}.ipynb>`",
        f"open in {launch}" if launch else "",
    ]
    return '<div class="labkit-facts">\n\n' + " · ".join(filter(None, parts)) + "\n\n</div>"


def link_tally(claims: Collection[Json], number: str) -> str:
    """Count a chapter's verdicts, and link them to its section of the scoreboard."""
    if not claims:
        return ""
    address = f"scoreboard.html#f:chapter={number}"
    said = ", ".join(filter(None, [count_held(claims), *count_others(claims)]))
    return f'<a href="{address}">{said}</a>'


def build_top(cells: list[Json], number: str, facts: str) -> list[Json]:
    """Lay out everything before a page's first section."""
    first = next((i for i, cell in enumerate(cells) if has_section(cell)), len(cells))
    top, rest = cells[:first], cells[first:]
    start = next((cell for cell in top if cell["source"].startswith("# ")), None)
    if start is None:
        return cells
    title, _, prose = start["source"].removeprefix("# ").partition("\n")
    short = SHORT.search(prose)
    question, told = (prose[: short.start()], prose[short.start() :]) if short else (prose, "")
    figure = next((cell for cell in top if short and is_figure(cell)), None)
    others = [cell for cell in top if cell is not start and cell is not figure]
    code = merge_folds(cell for cell in others if is_fold(cell))
    others = [cell for cell in others if not is_fold(cell)]

    def markdown(part: str, source: str) -> Json:
        return {**start, "id": f"{start['id']}-{part}", "source": source.strip()}

    heading = f"# {format_number(number)} · {title}"
    if not short:
        source = (
            f'{heading}\n\n<div class="labkit-hero">\n\n{facts}\n\n</div>\n\n{question.strip()}'
        )
        return [markdown("top", source), *others, *code, *rest]
    told = told.strip().replace("<details>", '<details class="labkit-short">', 1)
    source = ASKED.format(
        heading=heading, question=question.strip(), facts=facts, told=told,
        beside=" labkit-beside" if figure else "",
    )  # fmt: skip
    pictures = [figure] if figure else []
    end = markdown("end", "</div>")
    return [markdown("top", source), *pictures, *code, end, *others, *rest]


def has_section(cell: Json) -> bool:
    """Return whether a cell contains a section heading."""
    return cell["cell_type"] == "markdown" and bool(SECTION.search(cell["source"]))
