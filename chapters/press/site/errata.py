"""Mistakes of papers and other sources: data/errata.csv, checked and shown.

errata.csv   source,at,says,right,where: the source's key in references.bib, or its title, or a link
             to code; the place in it; what it says; what is right; and the places of the book
             (anchors.py) that show it, with `;` between them
"""

from itertools import groupby
from pathlib import Path

from press.book.citations import Work, read_works
from press.book.facts import format_table
from press.site.anchors import link_numbered, place_of
from press.site.outline import Book
from press.site.wordlists import Row, read_rows

ERRATA = ("source", "at", "says", "right", "where")


def read_errata(root: Path) -> list[Row]:
    """Read the table."""
    return read_rows(root, "errata.csv", ERRATA)


def format_tables(root: Path, book: Book) -> str:
    """Write a table for each source, in the order of the rows."""
    works = read_works(root / "chapters")
    parts = []
    for source, own in groupby(read_errata(root), key=lambda row: row["source"]):
        rows = []
        for row in own:
            shown = "<br>".join(link_numbered(place_of(p), book) for p in row["where"].split(";"))
            rows.append((row["at"], row["says"], row["right"], shown))
        table = format_table(("where", "what it says", "what is right", "shown in"), rows)
        head = format_heading(works[source]) if source in works else f"## {source}"
        parts.append(f"{head}\n\n{table}")
    return "\n\n".join(parts) or "No mistake yet."


def format_heading(work: Work) -> str:
    """Name a work by authors and year, then its title, linked."""
    return f"## {work.authors} ({work.year})\n\n*[{work.title}]({work.url})*"
