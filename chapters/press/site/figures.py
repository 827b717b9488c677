"""Number a chapter's figures, give them addresses, and write their data to files.

*Figure 4.3* is the third figure of chapter 4, a slider among them. Its address, #figure-NAME, and
its table, _static/data/CHAPTER/NAME.csv, come from the name that the chapter gives it, so that they
stay when words or neighbours change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from press.book.chapters import format_number, read_number
from press.book.facts import Json, join_text, output_kind
from press.book.files import Red

TABLE = "text/csv"
FOLDER = "_static/data"


class Place(NamedTuple):
    """The position of a figure in the book."""

    number: str
    anchor: str
    table: str  # the address of its CSV, from its page; empty where it shows no numbers


def number_figures(chapter: str, notebook: Json) -> Iterator[Place]:
    """Yield the places of a chapter's figures, in order; raise Red if two have one name."""
    names: list[str] = []
    for output in list_pictures(notebook):
        name = read_name(output) or f"unnamed-{len(names) + 1}"
        if name in names:
            raise Red(
                f"a figure's name must be unique, but {chapter} has two figures {name!r}; "
                "rename one: .named(…)"
            )
        names.append(name)
        table = f"{FOLDER}/{chapter}/{name}.csv" if TABLE in output["data"] else ""
        number = f"{format_number(read_number(chapter))}.{len(names)}"
        yield Place(number, f"figure-{name}", table)


def is_picture(output: Json) -> bool:
    """Return whether an output is a figure or a slider."""
    return output_kind(output) in ("figure", "slider")


def read_name(output: Json) -> str:
    """Read the name of a figure; empty if it has none."""
    return output["metadata"]["labkit"].get("name", "")


def list_pictures(notebook: Json) -> list[Json]:
    """List the outputs of a notebook that are figures or sliders."""
    outputs = (output for cell in notebook["cells"] for output in cell.get("outputs", []))
    return list(filter(is_picture, outputs))


def list_tables(chapter: str, notebook: Json) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each figure's table; a byte order mark identifies it as UTF-8."""
    places = number_figures(chapter, notebook)
    for output, place in zip(list_pictures(notebook), places, strict=True):
        if place.table:
            yield place.table, join_text(output["data"][TABLE]).encode("utf-8-sig")


def own_ids(markup: str, anchor: str) -> str:
    """Make the ids inside a drawing unique to the figure."""
    return re.sub(r'( id="|url\(#|href="#)(?=[wn]-)', rf"\1{anchor}-", markup)
