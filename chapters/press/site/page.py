"""Turn an executed notebook into the notebook that the site shows.

Volatile outputs and parameters go; a figure gets its alternative text, its caption and a line of
provenance; a claim card gets an anchor; a solution is folded, and so is most code (folds.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from labkit.display import CLAIM
from press.book.facts import Json, escape_markdown, join_text, output_kind, provenance_line
from press.site.claim_cards import draw_in_chapter
from press.site.folds import Folder, merge_folds, only_closes
from press.site.predictions import fold_answers

HIDDEN_TAGS = {"parameters", "injected-parameters", "remove-cell"}
UNANSWERED = "not answered yet"  # says labkit.check of an exercise's stub
# What a page shows of an output that comes in several forms, best first.
MIME_TYPES = (
    "text/html",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/latex",
    "text/plain",
)


def build_page(
    notebook: Json,
    build: Mapping[str, Any] | None = None,
    claims: Mapping[str, Json] | None = None,
) -> Json:
    """Turn an executed notebook into the notebook that the site shows."""
    cells: list[Json] = []
    folder = Folder()
    for cell in notebook["cells"]:
        tags = set(cell.get("metadata", {}).get("tags", []))
        if tags & HIDDEN_TAGS:
            continue
        if cell["cell_type"] == "code":
            if only_closes(join_text(cell["source"])):
                continue
            shown = list(code_cells(cell, build or {}, folder.must_fold(cell)))
            cells += fold_cells(shown, f"{cell['id']}-fold") if "solution" in tags else shown
        else:
            source = join_text(cell["source"])
            folder.read_heading(source)
            cells.append({**cell, "source": fold_answers(source, claims or {})})
    cells = merge_folds(cells)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def code_cells(cell: Json, build: Mapping[str, Any], fold: bool) -> Iterator[Json]:
    """Split a cell at its figures: MyST-NB takes alternative text and caption once per cell.

    Folded code stands below all that it made; of a cell that only claims, inside its last card.
    """
    tags = list(cell.get("metadata", {}).get("tags", []))
    outputs = cell.get("outputs", [])
    inside = fold and only_claims(outputs)
    groups = output_groups(put_code_inside(cell) if inside else outputs, build)
    code = {
        "cell_type": "code",
        "id": cell["id"],
        "execution_count": None,
        "metadata": {"tags": tags},
        "source": join_text(cell["source"]),
        "outputs": [],
    }
    if fold:
        code["metadata"] = {"tags": [*tags, "hide-input"]}
    else:
        code |= show_outputs(*groups.pop(0), tags)
    below = [
        # MyST-NB skips a cell without source, outputs and all.
        {**code, "id": f"{cell['id']}-{number}", "source": "# output"}
        | show_outputs(*group, [*tags, "remove-input"])
        for number, group in enumerate(groups, start=1)
        if group[0]
    ]
    if inside:
        yield from below
    else:
        yield from ([*below, code] if fold else [code, *below])


def only_claims(outputs: list[Json]) -> bool:
    """Return whether a cell shows cards and nothing else."""
    shown = [output for output in outputs if shown_output(output)]
    return bool(shown) and all(output_kind(output) == "claim" for output in shown)


def put_code_inside(cell: Json) -> list[Json]:
    """Give a cell's code to the last of its cards, which opens on it."""
    *others, last = (output for output in cell["outputs"] if shown_output(output))
    return [*others, {**last, "code": join_text(cell["source"])}]


def show_outputs(outputs: list[Json], mystnb: Json, tags: list[str]) -> Json:
    """Return the part of a cell that shows these outputs, with MyST-NB's options for a figure."""
    return {
        "metadata": {"tags": tags, "mystnb": mystnb} if mystnb else {"tags": tags},
        "outputs": outputs,
    }


def output_groups(outputs: list[Json], build: Mapping[str, Any]) -> list[tuple[list[Json], Json]]:
    """Group outputs so that a figure stands alone, with its options for MyST-NB."""
    groups: list[tuple[list[Json], Json]] = [([], {})]
    caption_due = False
    for output in outputs:
        if caption_due and output_kind(output) == "caption":
            continue  # it stands in the figure itself
        caption_due = False
        clean = shown_output(output)
        if clean is None:
            continue
        if output_kind(output) == "figure":
            group = ([clean], figure_options(output, build))
            groups = [*groups, group] if groups != [([], {})] else [group]
            caption_due = True
        elif groups[-1][1]:
            groups.append(([clean], {}))
        else:
            groups[-1][0].append(clean)
    return groups


def shown_output(output: Json) -> Json | None:
    """Keep what a reader should see of an output, in one form; None drops it."""
    if output["output_type"] == "stream":
        return output if output["name"] == "stdout" else None
    if output["output_type"] == "error":
        return output
    data = {mime: output["data"][mime] for mime in MIME_TYPES if mime in output["data"]}
    widget = any("widget-view" in mime for mime in output["data"])
    if output_kind(output) == "volatile" or widget or not data:
        return None
    if UNANSWERED in join_text(data.get("text/html", "")):
        return None  # nobody can answer on a page
    mime, content = next(iter(data.items()))
    if output_kind(output) == "figure":
        mime, content = next((m, c) for m, c in data.items() if m.startswith("image/"))
    if output_kind(output) == "claim":
        content = draw_in_chapter(output["data"][CLAIM], output.get("code", ""))
    if mime == "text/html":  # a notebook that links to another links to its page
        content = re.sub(r'(href="\d\d_\w+)\.ipynb#', r"\1.html#", join_text(content))
    size = output.get("metadata", {}).get(mime)
    metadata = {mime: size} if size else {}
    return {
        "output_type": "display_data",
        "data": {mime: join_text(content)},
        "metadata": metadata,
    }


def figure_options(output: Json, build: Mapping[str, Any]) -> Json:
    """Return MyST-NB a figure's alternative text, and its caption with the provenance below."""
    figure = output["metadata"]["labkit"]
    facts = escape_markdown(provenance_line(figure.get("provenance"), build))
    caption = "\n\n".join(filter(None, [figure.get("caption", "").strip(), facts and f"[{facts}]"]))
    if facts:
        caption += "{.labkit-provenance}"
    return {
        "image": {"alt": " ".join(join_text(output["data"]["text/plain"]).split())},
        "figure": {"caption": caption, "classes": "labkit-figure"},
    }


def is_figure(cell: Json) -> bool:
    """Return whether a cell of the page shows a figure."""
    return "mystnb" in cell["metadata"]


def fold_cells(cells: list[Json], identifier: str) -> list[Json]:
    """Wrap a solution's cells in a fold that opens without JavaScript."""
    start = '<details class="labkit-solution"><summary>Solution</summary>'
    return [
        {"cell_type": "markdown", "id": f"{identifier}-0", "metadata": {}, "source": start},
        *cells,
        {"cell_type": "markdown", "id": f"{identifier}-1", "metadata": {}, "source": "</details>"},
    ]
