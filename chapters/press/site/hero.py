"""The top of a chapter's page: number and title, then the question beside the first figure.

A chapter types a title, **Question.**, **In short.** and one figure before its first section. The
page puts the question, how the claims fared, what reading and running cost and **In short.** beside
the figure, so that all of it stands on the first screen; the imports follow, folded. Without
**In short.** the tally stands alone. Where the chapter asks its reader to predict, **In short.**
would give the answers away, and is folded.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from press.book.chapters import format_number
from press.book.declared import sum_costs
from press.book.facts import Json
from press.book.folds import is_fold, merge_folds
from press.site.claim_cards import draw_tally
from press.site.outline import Outline
from press.site.page import is_figure
from press.site.predictions import LIST

SECTION = re.compile(r"^## ", re.M)
SHORT = "**In short.**"
FOLDED = """<details class="labkit-short"><summary>In short (contains spoilers)</summary>

{answer}

</details>"""

ASKED = """{heading}

<div class="labkit-hero{beside}">

<div class="labkit-asks">

{question}

{facts}

{told}

</div>"""


def format_facts(chapter: Outline, notebook: Json, launch: str = "") -> str:
    """Write how a chapter's claims fared, how long it reads, what it ran, and link its notebook.

    `launch` has links that open it where it runs.
    """
    cost = sum_costs(notebook)
    minutes = max(1, round(cost["cpu_seconds"] / 60))
    ran = f"{cost['runs']:,} runs, {minutes:,} CPU-min"
    parts = [
        link_tally(chapter.claims.values(), chapter.number),
        f"{chapter.minutes} min to read",
        ran if cost["runs"] else "",
        f"{{download}}`notebook <notebooks/{chapter.name}.ipynb>`",
        f"open in {launch}" if launch else "",
    ]
    return ":::{div} labkit-facts\n" + " · ".join(filter(None, parts)) + "\n:::"


def link_tally(claims: Collection[Json], number: str) -> str:
    """Count a chapter's verdicts, and link them to its part of the scoreboard."""
    if not claims:
        return ""
    address = f"scoreboard.html#f:chapter={number}"
    return f'<a href="{address}">{len(claims)} claims: {draw_tally(claims)}</a>'


def build_top(cells: list[Json], number: str, facts: str) -> list[Json]:
    """Lay out what stands before a page's first section."""
    first = next((i for i, cell in enumerate(cells) if has_section(cell)), len(cells))
    top, rest = cells[:first], cells[first:]
    start = next((cell for cell in top if cell["source"].startswith("# ")), None)
    if start is None:
        return cells
    title, _, prose = start["source"].removeprefix("# ").partition("\n")
    question, short, answer = prose.strip().partition(SHORT)
    figure = next((cell for cell in top if short and is_figure(cell)), None)
    others = [cell for cell in top if cell is not start and cell is not figure]
    code = merge_folds(cell for cell in others if is_fold(cell))
    others = [cell for cell in others if not is_fold(cell)]

    def markdown(part: str, source: str) -> Json:
        return {**start, "id": f"{start['id']}-{part}", "source": source.strip()}

    heading = f"# {format_number(number)} · {title}"
    if not short:
        source = f'{heading}\n\n<div class="labkit-hero">\n\n{facts}\n\n</div>\n\n{question}'
        return [markdown("top", source), *others, *code, *rest]
    asks = any(LIST in cell["source"] for cell in rest)
    told = FOLDED.format(answer=answer.strip()) if asks else f"{short}{answer}"
    source = ASKED.format(
        heading=heading, question=question.strip(), facts=facts, told=told,
        beside=" labkit-beside" if figure else "",
    )  # fmt: skip
    pictures = [figure] if figure else []
    end = markdown("end", "</div>")
    return [markdown("top", source), *pictures, *code, end, *others, *rest]


def has_section(cell: Json) -> bool:
    """Return whether a cell begins or holds a section."""
    return cell["cell_type"] == "markdown" and bool(SECTION.search(cell["source"]))
