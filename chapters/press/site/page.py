"""Convert an executed notebook to the notebook that the site shows.

Volatile outputs and parameters go; a figure gets its alternative text, its caption and a small sign
that opens its provenance; a claim card gets an anchor; a solution is folded, and so is most code
(folds.py).
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from labkit.display import CLAIM
from press.book.chapters import NUMBER
from press.book.facts import Json, join_text, output_kind, provenance_line
from press.book.folds import Folder, merge_folds, only_closes
from press.site.claim_cards import draw_in_chapter
from press.site.exercises import place_boxes
from press.site.figures import Place, is_picture, number_figures, own_ids
from press.site.predictions import draw_questions

FIGURE = "labkit-figure"  # the tag of a cell of the page that shows one
HIDDEN_TAGS = {"parameters", "injected-parameters", "remove-cell"}
# What every point and line of a figure is made of, at the end of its caption.
DRAWN_FROM = re.compile(
    r"\s(?=(?:\([^()]*seeds?[^()]*\) )?(?:Thin lines|Points): [^;]*seeds?[;:])(?!.*grey: )"
)
UNANSWERED = "not answered yet"  # says labkit.check of an exercise's stub
# What a page shows of an output that comes in several forms, best first.
MIME_TYPES = (
    "text/html",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/latex",
    "text/plain",
)
DRAWN = """<figure class="labkit-figure" id="{anchor}"{explorer}>

```{{raw}} html
{picture}
```

<figcaption>

<a class="labkit-number" href="#{anchor}">Figure {number}</a> {caption}

<div class="labkit-foot">{links}<details class="labkit-provenance">\
<summary>how it was made</summary>
{facts}</details></div></figcaption></figure>"""
LINK = '<a class="labkit-permalink" href="#{anchor}" aria-label="Link to Figure {number}">¶</a>'
DATA = '<a href="{table}" download aria-label="data of Figure {number} (CSV)">data</a>'


def build_page(
    name: str,
    notebook: Json,
    build: Mapping[str, Any] | None = None,
    claims: Mapping[str, Json] | None = None,
    launch: str = "",
) -> Json:
    """Convert a chapter's executed notebook to the notebook that the site shows.

    `launch` has links that open it where it runs.
    """
    cells: list[Json] = []
    visible = [cell for cell in notebook["cells"] if not HIDDEN_TAGS & read_tags(cell)]
    places = number_figures(name, {"cells": visible})
    folder, questions = Folder(), count(1)
    for cell in place_boxes(visible, launch):
        if cell["cell_type"] == "code":
            if only_closes(join_text(cell["source"])):
                continue
            shown = list(code_cells(cell, build or {}, folder.must_fold(cell), places))
            if "solution" in read_tags(cell):
                shown = fold_cells(shown, f"{cell['id']}-fold")
            cells += shown
        else:
            source = join_text(cell["source"])
            folder.read_heading(source)
            cells.append({**cell, "source": draw_questions(source, claims or {}, questions)})
    cells = merge_folds(cells)
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def read_tags(cell: Json) -> set[str]:
    """Read the tags of a cell."""
    return set(cell.get("metadata", {}).get("tags", []))


def code_cells(
    cell: Json, build: Mapping[str, Any], fold: bool, places: Iterator[Place]
) -> Iterator[Json]:
    """Split a cell at its figures, which become Markdown between its outputs.

    Folded code stands below all that it made; of a cell that only claims, inside its last card.
    """
    tags = list(cell.get("metadata", {}).get("tags", []))
    outputs = cell.get("outputs", [])
    inside = fold and only_claims(outputs)
    first, *groups = output_groups(put_code_inside(cell) if inside else outputs)
    code = {
        "cell_type": "code",
        "id": cell["id"],
        "execution_count": None,
        "metadata": {"tags": [*tags, "hide-input"] if fold else tags},
        "source": join_text(cell["source"]),
        "outputs": [] if fold else first,
    }
    below = []
    for number, group in enumerate([first, *groups] if fold else groups, start=1):
        # MyST-NB skips a cell without source, outputs and all.
        part = {**code, "id": f"{cell['id']}-{number}", "source": "# output", "outputs": group}
        if group and is_picture(group[0]):
            source = draw_figure(group[0], build, next(places))
            figure = {"source": source, "metadata": {"tags": [FIGURE]}}
            below.append({"cell_type": "markdown", "id": part["id"], **figure})
        elif group:
            below.append({**part, "metadata": {"tags": [*tags, "remove-input"]}})
    if inside:
        yield from below
    else:
        yield from ([*below, code] if fold else [code, *below])


def only_claims(outputs: list[Json]) -> bool:
    """Return whether a cell shows only cards."""
    shown = [output for output in outputs if is_shown(output)]
    return bool(shown) and all(output_kind(output) == "claim" for output in shown)


def put_code_inside(cell: Json) -> list[Json]:
    """Move a cell's code into the last of its cards."""
    *others, last = (output for output in cell["outputs"] if is_shown(output))
    return [*others, {**last, "code": join_text(cell["source"])}]


def output_groups(outputs: list[Json]) -> list[list[Json]]:
    """Group outputs so that each figure is alone; the first group has no figure."""
    groups: list[list[Json]] = [[]]
    caption_due = False
    for output in outputs:
        if caption_due and output_kind(output) == "caption":
            continue  # it stands in the figure itself
        caption_due = is_picture(output)
        if caption_due:
            groups += [[output], []]
        elif is_shown(output):
            groups[-1].append(clean_output(output))
    return groups


def is_shown(output: Json) -> bool:
    """Return whether a reader should see an output, in whatever format."""
    if output["output_type"] == "stream":
        return output["name"] == "stdout"
    if output["output_type"] == "error":
        return True
    data = output["data"]
    if output_kind(output) == "volatile" or any("widget-view" in mime for mime in data):
        return False
    # Nobody can answer an exercise's stub on a page, so its check says nothing there.
    asks = "text/html" in data and UNANSWERED in join_text(data["text/html"])
    return not asks and any(mime in data for mime in MIME_TYPES)


def clean_output(output: Json) -> Json:
    """Keep one format of an output that is shown."""
    if "data" not in output:
        return output
    mime = next(mime for mime in MIME_TYPES if mime in output["data"])
    content = output["data"][mime]
    if output_kind(output) == "claim":
        content = draw_in_chapter(output["data"][CLAIM], output.get("code", ""))
    if mime == "text/html":  # a notebook that links to another links to its page
        content = re.sub(rf'(href="{NUMBER}_\w+)\.ipynb#', r"\1.html#", join_text(content))
    size = output.get("metadata", {}).get(mime)
    metadata = {mime: size} if size else {}
    return {
        "output_type": "display_data",
        "data": {mime: join_text(content)},
        "metadata": metadata,
    }


def is_figure(cell: Json) -> bool:
    """Return whether a cell of the page shows a figure or a slider."""
    return FIGURE in cell["metadata"].get("tags", [])


def fold_cells(cells: list[Json], identifier: str) -> list[Json]:
    """Wrap a solution's cells in a fold that opens without JavaScript."""
    start = '<details class="labkit-solution"><summary>Solution</summary>'
    return [
        {"cell_type": "markdown", "id": f"{identifier}-0", "metadata": {}, "source": start},
        *cells,
        {"cell_type": "markdown", "id": f"{identifier}-1", "metadata": {}, "source": "</details>"},
    ]


def draw_figure(output: Json, build: Mapping[str, Any], place: Place) -> str:
    """Write a figure in Markdown: its drawings, or the twin's PNG if the build made none.

    A drawing stands in the page itself, so that its colours can be the page's.
    """
    about, data = output["metadata"]["labkit"], output["data"]
    if "text/html" in data:
        picture = own_ids(join_text(data["text/html"]).strip(), place.anchor)
    else:
        alt = html.escape(" ".join(join_text(data["text/plain"]).split()))
        coded = "".join(join_text(data["image/png"]).split())
        picture = f'<img alt="{alt}" src="data:image/png;base64,{coded}">'
    caption, *drawn = DRAWN_FROM.split(about["caption"].strip(), maxsplit=1)
    facts = html.escape(" ".join([*drawn, provenance_line(about.get("provenance"), build)]))
    address = about.get("explorer")
    explorer = f' data-explorer="{html.escape(address)}"' if address else ""
    links = (LINK + DATA if place.table else LINK).format(**place._asdict())
    return DRAWN.format(
        **place._asdict(), explorer=explorer, picture=picture, caption=caption,
        links=links, facts=facts,
    )  # fmt: skip
