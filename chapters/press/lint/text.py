"""A chapter as the rules read it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from press.book import chapters
from press.book.cells import code_cells
from press.book.chapters import Chapter
from press.book.percent import TextCell


@dataclass(frozen=True)
class Text:
    """A chapter: its source, its twin, and its recorded claims."""

    chapter: Chapter
    source: str
    twin: Mapping[str, Any]
    ledger: Mapping[str, Mapping[str, Any]]  # the claims of all chapters, as recorded

    @classmethod
    def read(cls, chapter: Chapter, ledger: Mapping[str, Mapping[str, Any]]) -> "Text":
        """Read a chapter and its twin."""
        twin = json.loads(chapter.twin.read_text(encoding="utf-8"))
        return cls(chapter, chapter.source.read_text(encoding="utf-8"), twin, ledger)

    @property
    def name(self) -> str:
        """The chapter's name, as in 04_qk_norm."""
        return self.chapter.name

    @cached_property
    def prose(self) -> list[str]:
        """The Markdown cells."""
        cells = chapters.read_chapter(self.chapter).cells
        return [cell.source for cell in cells if cell.cell_type == "markdown"]

    @cached_property
    def code(self) -> list[TextCell]:
        """The code cells."""
        return code_cells(self.chapter)
