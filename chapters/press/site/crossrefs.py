"""Join the chapters up: their references become links, and each ends on where its threads go.

data/crossrefs.csv   at,to,thread: two places (anchors.py) of different chapters, and the thread
                     that runs between them, in words that fit both ends
"""

from __future__ import annotations

from pathlib import Path

from press.book.facts import Json, escape_markdown
from press.site.anchors import Place, link_place, place_of
from press.site.links import link_references
from press.site.outline import Book, Outline
from press.site.wordlists import Row, read_rows

THREADS = ("at", "to", "thread")
END = "## References"
TITLE = "## Elsewhere in this book"


def read_threads(root: Path) -> list[Row]:
    """Read the table of threads."""
    return read_rows(root, "crossrefs.csv", THREADS)


def join_up(notebook: Json, chapter: Outline, book: Book, root: Path) -> None:
    """Make the references of a chapter's page links, and put its threads before its end."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    for cell in cells:
        cell["source"] = link_references(cell["source"], book)
    if not cells or not (block := list_threads(chapter, book, root)):
        return
    last = next((cell for cell in reversed(cells) if END in cell["source"]), cells[-1])
    before, mark, after = last["source"].partition(END)
    last["source"] = f"{before.rstrip()}\n\n{TITLE}\n\n{block}\n\n{mark}{after}".strip()


def list_threads(chapter: Outline, book: Book, root: Path) -> str:
    """List the threads that lead out of a chapter, to those before it and those after it."""
    found: dict[str, list[tuple[str, str]]] = {"earlier": [], "later": []}
    for row in read_threads(root):
        ends = [place_of(row["at"]), place_of(row["to"])]
        for here, there in (ends, ends[::-1]):
            if here.number == chapter.number and there.number in book:
                when = "earlier" if there.number < here.number else "later"
                said = f"{name_place(there, book)}: {link_references(row['thread'], book)}"
                found[when].append((there.number, said))
    items = [f"- *{when}*, {said}" for when, own in found.items() for _, said in sorted(set(own))]
    return "\n".join(items)


def name_place(place: Place, book: Book) -> str:
    """Name a place by its chapter too: DeepNorm, “The bounded update”."""
    title = link_place(Place(place.number), book, escape_markdown(book[place.number].title))
    return title if place.kind != "heading" else f"{title}, “{link_place(place, book)}”"
