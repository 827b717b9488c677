"""Coverage of the book's sources, row by row, with the claims that test them.

data/coverage.csv   row,source,what,state,claims,note: a system or statement, "works" or "out of
                    range", the ids of its claims, and what the ids do not say
"""

import html
from collections.abc import Iterator, Mapping
from pathlib import Path

from labkit.experiments.card_html import LOOKS, TICK, describe_verdict, find_sentence
from press.book.facts import format_table
from press.book.files import read_rows
from press.site.links import Place, link_place
from press.site.outline import Book, Outline

ROWS = 80  # systems and statements of the four sources
WORKS, OUT_OF_RANGE = "works", "out of range"


def format_coverage(root: Path, book: Book) -> str:
    """Format the table: source, description, marks of its claims, and a note."""
    rows = []
    for row in read_rows(root, "coverage.csv"):
        marks = " ".join(mark_claim(name, book) for name in row["claims"].split())
        state = OUT_OF_RANGE if row["state"] == OUT_OF_RANGE else ""
        said = "; ".join(filter(None, [state, row["note"]]))
        rows.append((row["row"], row["what"], row["source"], marks, said))
    return format_table(("row", "system or statement", "source", "claims", "note"), rows)


def mark_claim(name: str, book: Book) -> str:
    """Link a claim by the mark of its verdict; hovering over it shows the sentence."""
    number, verdict = name.partition("-")[0], ""
    if number in book and name in book[number].claims:
        claim = book[number].claims[name]
        said, verdict = html.escape(find_sentence(claim)), claim["verdict"]
        mark = TICK if (claim["sort"], verdict) == ("law", "holds") else LOOKS[verdict][0]
        shown = link_place(Place(number, "claim", name), book, mark)
        title = f"{said} ({describe_verdict(claim)})"
        return f'<span class="labkit-mark labkit-verdict-{verdict}" title="{title}">{shown}</span>'
    return f"`{name}`"


def find_uncovered(root: Path, book: Mapping[str, Outline]) -> Iterator[str]:
    """Yield the errors of the table: missing rows, and rows without claims or a reason."""
    rows = read_rows(root, "coverage.csv")
    if rows and [row["row"] for row in rows] != [str(n) for n in range(1, ROWS + 1)]:
        yield f"has the rows {', '.join(row['row'] for row in rows)}; must be 1 to {ROWS}, in order"
    for row in rows:
        claims = row["claims"].split()
        if row["state"] not in (WORKS, OUT_OF_RANGE):
            yield f"row {row['row']} must be {WORKS} or {OUT_OF_RANGE}, got {row['state']!r}"
        if row["state"] == WORKS and not claims:
            yield f"row {row['row']} works, but names no claim"
        if row["state"] == OUT_OF_RANGE and not row["note"]:
            yield f"row {row['row']} is out of range, but its note gives no reason"
        for name in claims:
            chapter = book.get(name.partition("-")[0])
            if chapter is None or name not in chapter.claims:
                yield f"row {row['row']} names {name}, which no chapter makes"
