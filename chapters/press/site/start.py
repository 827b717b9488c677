"""Keep chapters/START.ipynb true: what a reader opens first, with every chapter in order."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat

from press.book.chapters import KERNEL, find_chapters
from press.book.facts import format_table
from press.site.outline import Book, read_outlines

START = Path("chapters") / "START.ipynb"
ABOUT = """# Normalization in Transformers: a Lab Book

Every transformer normalizes its activations, and papers disagree about how, where and why. Each
chapter asks one such question, derives what to expect, and measures it. All results are here
already: read first, run later."""
HOW = """## How to run

Open a chapter, then choose *Run All Cells*. Its runs are stored with the book, so this takes
seconds. Change a cell and run it again; what nobody has trained yet, your machine trains. A folded
cell opens with a click on its three dots.

**No module named `labkit`?** It comes with the book: `pip install path/to/the/book`, the folder
that has `pyproject.toml`. A chapter that you downloaded alone needs the same, and a restart of its
kernel."""


def write_start(root: Path, *, check: bool = False) -> list[str]:
    """Write the notebook anew where it differs; with `check`, only look."""
    notebooks = {
        chapter.name: json.loads(chapter.twin.read_text(encoding="utf-8"))
        for chapter in find_chapters(root)
        if chapter.twin.is_file()
    }
    text, path = format_start(read_outlines(notebooks)), root / START
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return []
    if not check:
        path.write_text(text, encoding="utf-8")
    return ["START.ipynb"]


def format_start(book: Book) -> str:
    """Write what the book is, its chapters with their minutes, and how to run them."""
    rows = []
    for one in book.values():
        link = f"[{int(one.number)} · {one.title}]({one.name}.ipynb)"
        rows.append((link, one.minutes, " ".join(one.questions)))
    chapters = f"## Chapters\n\n{format_table(('chapter', 'minutes', 'it asks'), rows)}"
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": KERNEL})
    for number, source in enumerate((ABOUT, chapters, HOW)):
        cell = nbformat.v4.new_markdown_cell(source, id=f"start-{number}")
        notebook.cells.append(cell)
    return nbformat.writes(notebook) + "\n"
