"""The book's words and symbols: data/glossary.csv and data/notation.csv, and their pages.

glossary.csv   term,said,where,meaning: where is the place (anchors.py) that explains the term, said
               how the text there says it when not by the term itself
notation.csv   group,symbol,meaning,shape,code,where: a symbol as LaTeX, the chapters that use it
"""

import csv
from itertools import groupby
from pathlib import Path

from press.book.facts import format_table
from press.book.files import Red
from press.site.anchors import Place, link_numbered, link_place, place_of
from press.site.outline import Book

Row = dict[str, str]
GLOSSARY = ("term", "said", "where", "meaning")
NOTATION = ("group", "symbol", "meaning", "shape", "code", "where")


def read_rows(root: Path, name: str, header: tuple[str, ...]) -> list[Row]:
    """Read a table of data/; an empty list where the book has none."""
    path = root / "data" / name
    if not path.is_file():
        return []
    lines = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    if not lines or tuple(lines[0]) != header:
        raise Red(f"data/{name} must begin with {','.join(header)}, got {lines[:1]}")
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header):
            raise Red(
                f"data/{name}:{number} must have {len(header)} cells (quote one with commas), "
                f"got {len(cells)}"
            )
    return [dict(zip(header, map(str.strip, cells), strict=True)) for cells in lines[1:]]


def format_glossary(root: Path, book: Book) -> str:
    """Write the terms in alphabetical order, each with a link to where it is defined."""
    terms = sorted(
        read_rows(root, "glossary.csv", GLOSSARY), key=lambda row: row["term"].casefold()
    )
    if not terms:
        return "No term yet."
    entries = [
        f"{row['term']}\n    {row['meaning']} → {link_numbered(place_of(row['where']), book)}"
        for row in terms
    ]
    return "```{glossary}\n" + "\n\n".join(entries) + "\n```"


def format_notation(root: Path, book: Book) -> str:
    """Write the symbols, a table for each group."""
    parts = []
    found = read_rows(root, "notation.csv", NOTATION)
    for group, own in groupby(found, key=lambda row: row["group"]):
        rows = []
        for row in own:
            used = ", ".join(_link_number(number, book) for number in row["where"].split())
            code = ", ".join(f"`{name}`" for name in row["code"].split(";") if name)
            symbol = row["symbol"].replace("|", r"\vert ")
            rows.append((f"${symbol}$", row["meaning"], row["shape"], code, used))
        table = format_table(("symbol", "meaning", "shape", "in code", "chapters"), rows)
        parts.append(f"## {group}\n\n{table}")
    return "\n\n".join(parts) or "No symbol yet."


def _link_number(number: str, book: Book) -> str:
    return link_place(Place(number), book, number) if number in book else number
