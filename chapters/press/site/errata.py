"""Mistakes of papers and other sources: data/errata.csv, checked and shown.

errata.csv   source,at,says,right,where: the source's key in references.bib, or its title, or a link
             to code; the place in it; what it says; what is right; and the places of the book
             (anchors.py) that show it, with `;` between them
"""

import re
from itertools import groupby
from pathlib import Path

from press.book.facts import format_table
from press.site.anchors import link_numbered, place_of
from press.site.outline import Book
from press.site.wordlists import Row, read_rows

ERRATA = ("source", "at", "says", "right", "where")


def read_errata(root: Path) -> list[Row]:
    """Read the table."""
    return read_rows(root, "errata.csv", ERRATA)


def read_works(root: Path) -> dict[str, str]:
    """Read the bibliography: each entry by its key."""
    text = (root / "chapters" / "references.bib").read_text(encoding="utf-8")
    return {m[1]: m[0] for m in re.finditer(r"(?ms)^@\w+\{([^,\s]+),.*?^\}", text)}


def format_tables(root: Path, book: Book) -> str:
    """Write a table for each source, in the order of the rows."""
    entries = read_works(root)
    parts = []
    for source, own in groupby(read_errata(root), key=lambda row: row["source"]):
        rows = []
        for row in own:
            shown = "<br>".join(link_numbered(place_of(p), book) for p in row["where"].split(";"))
            rows.append((row["at"], row["says"], row["right"], shown))
        table = format_table(("where", "what it says", "what is right", "shown in"), rows)
        head = format_heading(source, entries[source]) if source in entries else f"## {source}"
        parts.append(f"{head}\n\n{table}")
    return "\n\n".join(parts) or "No mistake yet."


def format_heading(key: str, entry: str) -> str:
    """Name a work by authors and year, then its title with the citation."""
    field = {
        name: re.sub(r"[{}]", "", value)
        for name, value in re.findall(r"(?m)^\s*(\w+)\s*=\s*\{(.*)\},?$", entry)
    }
    names = [author.partition(",")[0] for author in field["author"].split(" and ")]
    shown = f"{names[0]} et al." if len(names) > 2 or "others" in names else " and ".join(names)
    return f"## {shown} ({field['year']})\n\n*{field['title']}* {{cite:p}}`{key}`"
