"""Mark the figures and cards that depend on stale runs, and add a line below the page's title.

A cell rests on the runs that it asked for, and on those of every cell whose names it reads. (Lab
notes in an output that no page shows which runs a cell asked for.)
"""

import ast
import symtable
from collections.abc import Mapping
from typing import Any

from press.book.facts import Json, join_text, output_kind

MARK = (
    '<p class="labkit-stale" style="border-left: 4px solid #c60; padding-left: 0.9em">'
    "<b>Stale.</b> What follows rests on recorded runs that today's code no longer computes; "
    "<code>make runs</code> trains them again.</p>"
)


def resting_on(notebook: Json, stale: Mapping[str, Any]) -> list[int]:
    """List the indices of the cells that depend on a stale run."""
    tainted: set[str] = set()
    found = []
    for place, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        made, read = names_of(join_text(cell["source"]))
        if asked_for(cell) & stale.keys() or read & tainted:
            found.append(place)
            tainted |= made
        else:
            tainted -= made - read  # made anew out of something else
    return found


def asked_for(cell: Json) -> set[str]:
    """List the keys of the runs that a cell requested."""
    notes = (out.get("metadata", {}).get("labkit", {}) for out in cell.get("outputs", []))
    return {key for note in notes for key in note.get("keys", ())}


def names_of(source: str) -> tuple[set[str], set[str]]:
    """List the names that a cell assigns or may change, and those that it reads.

    Names inside a function or a comprehension count only if they are the cell's own.
    """
    try:
        tree, table = ast.parse(source), symtable.symtable(source, "<cell>", "exec")
    except SyntaxError:
        return set(), set()
    symbols = table.get_symbols()
    made = {one.get_name() for one in symbols if one.is_assigned() or one.is_imported()}
    known = {one.get_name() for one in symbols}
    inner = list(table.get_children())
    for one in inner:
        inner += one.get_children()
        known |= {symbol.get_name() for symbol in one.get_symbols() if symbol.is_global()}
    read = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            read |= {node.id} & known
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            made |= {one.id for one in ast.walk(node.value) if isinstance(one, ast.Name)} & known
    return made, read


def shown_by(notebook: Json, places: list[int]) -> list[str]:
    """List the cards and count the figures that cells show."""
    outputs = [out for place in places for out in notebook["cells"][place].get("outputs", [])]
    cards = [out["metadata"]["labkit"]["id"] for out in outputs if output_kind(out) == "claim"]
    figures = sum(output_kind(out) == "figure" for out in outputs)
    return [*cards, f"{figures} figure{'s' * (figures != 1)}"] if outputs else []


def mark_notebook(notebook: Json, stale: Mapping[str, Any]) -> tuple[Json, str]:
    """Mark outputs that depend on stale runs; return the line that says so, if there are any."""
    places = resting_on(notebook, stale)
    if not places:
        return notebook, ""
    mark = {"output_type": "display_data", "data": {"text/html": MARK}, "metadata": {}}
    cells = [
        {**cell, "outputs": [mark, *cell["outputs"]]}
        if place in places
        and any(output_kind(out) in ("claim", "figure") for out in cell["outputs"])
        else cell
        for place, cell in enumerate(notebook["cells"])
    ]
    line = (
        f"**Stale:** {', '.join(shown_by(notebook, places))} of this page rest on recorded runs "
        "that today's code no longer computes."
    )
    return {**notebook, "cells": cells}, line
