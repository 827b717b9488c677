"""Join the chapters up: their references become links, and each ends on where its threads go.

data/crossrefs.csv   at,to,thread: two places (places.py) of different chapters, and the thread that
                     runs between them, in words that fit both ends
"""

from __future__ import annotations

from pathlib import Path

from press.book.facts import Json, escape_markdown
from press.site.links import linked
from press.site.outline import Book, Outline
from press.site.places import Place, link, place_of
from press.site.wordlists import Row, rows

THREADS = ("at", "to", "thread")
END = "## References"
TITLE = "## Elsewhere in this book"


def threads(root: Path) -> list[Row]:
    """Read the table of threads."""
    return rows(root, "crossrefs.csv", THREADS)


def join_up(notebook: Json, chapter: Outline, book: Book, root: Path) -> None:
    """Make the references of a chapter's page links, and put its threads before its end."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    for cell in cells:
        cell["source"] = linked(cell["source"], book)
    if not cells or not (block := elsewhere(chapter, book, root)):
        return
    last = next((cell for cell in reversed(cells) if END in cell["source"]), cells[-1])
    before, mark, after = last["source"].partition(END)
    last["source"] = f"{before.rstrip()}\n\n{TITLE}\n\n{block}\n\n{mark}{after}".strip()


def elsewhere(chapter: Outline, book: Book, root: Path) -> str:
    """List the threads that lead out of a chapter, to those before it and those after it."""
    found: dict[str, list[tuple[str, str]]] = {"earlier": [], "later": []}
    for row in threads(root):
        ends = [place_of(row["at"]), place_of(row["to"])]
        for here, there in (ends, ends[::-1]):
            if here.number == chapter.number and there.number in book:
                when = "earlier" if there.number < here.number else "later"
                said = f"{name(there, book)}: {linked(row['thread'], book)}"
                found[when].append((there.number, said))
    items = [f"- *{when}*, {said}" for when, own in found.items() for _, said in sorted(set(own))]
    return "\n".join(items)


def name(place: Place, book: Book) -> str:
    """Name a place by its chapter too: DeepNorm, “The bounded update”."""
    title = link(Place(place.number), book, escape_markdown(book[place.number].title))
    return title if place.kind != "heading" else f"{title}, “{link(place, book)}”"
