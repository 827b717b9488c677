"""Lint the book: report all errors of its text, ledger and tables at once, one per line.

    labkit book check content

A fault is "where: what is wrong, and what would be right". Each rule is a function that yields
them: of a chapter (chapter.py, numbers.py, said.py, summaries.py), of the ledger (ledger.py), of
the pages and tables around the chapters (pages.py).
"""

from collections.abc import Iterator
from pathlib import Path

from press.book.chapters import find_chapters
from press.book.ledger import load_recorded
from press.lint.chapter import CHAPTER
from press.lint.ledger import LEDGER
from press.lint.pages import PAGES, Around
from press.lint.text import Text
from press.site.outline import read_outlines


def lint(root: Path) -> Iterator[str]:
    """Yield every error of a book; a chapter without its twin is one, and is not checked."""
    claims = load_recorded(root, "book")["claims"]
    texts = []
    for chapter in find_chapters(root):
        if chapter.twin.is_file():
            texts.append(Text.read(chapter, claims))
        else:
            yield f"{chapter.name}: was not executed; `make book` writes its twin"
    book = read_outlines({text.name: text.twin for text in texts})
    for text in texts:
        for rule in CHAPTER:
            yield from (f"{text.name}: {fault}" for fault in rule(text))
    for rule in LEDGER:
        yield from (f"ledger: {fault}" for fault in rule(claims, texts))
    around = Around(root, book)
    for rule in PAGES:
        yield from rule(around)
