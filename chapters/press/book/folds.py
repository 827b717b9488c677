"""Decide which code of a chapter a page or notebook shows, and which code is folded.

Open stay the cells with the tag "mechanism", which are the idea itself, listings (`show`), and the
stubs of exercises. Folded is what serves them: set-up, runs, readers of records, claims, drawings
(below them), and the checks of answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from press.book.facts import join_text

MECHANISM = "mechanism"


class Folder:
    """Fold a chapter's code cells, in order; it must also be given the Markdown cells."""

    def __init__(self) -> None:
        self.in_exercises = False

    def read_heading(self, markdown: str) -> None:
        """Record whether the exercises begin or end here."""
        for line in markdown.splitlines():
            if line.startswith("## "):
                self.in_exercises = line.strip("# ").casefold().startswith("exercises")

    def must_fold(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a cell's code is folded."""
        if is_task(cell):
            return False  # a stub is the reader's to fill; a solution has a fold of its own
        if self.in_exercises:
            return True
        tags = cell.get("metadata", {}).get("tags", [])
        shows = "show" in find_calls(ast.parse(join_text(cell["source"])))
        return not (MECHANISM in tags or shows)


def count_open_lines(notebook: Mapping[str, Any]) -> int:
    """Count the lines of code that a page shows unfolded, without the stubs of exercises."""
    folder, lines = Folder(), 0
    for cell in notebook["cells"]:
        source = join_text(cell["source"])
        if cell["cell_type"] == "markdown":
            folder.read_heading(source)
        elif cell["cell_type"] == "code" and not (is_task(cell) or folder.must_fold(cell)):
            listed = "".join(
                join_text(output["data"].get("text/plain", ""))
                for output in cell.get("outputs", [])
                if "show" in find_calls(ast.parse(source)) and "data" in output
            )
            lines += sum(bool(line.strip()) for line in f"{source}\n{listed}".splitlines())
    return lines


def find_calls(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions and classes that are called by a plain name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def is_task(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell is an exercise's stub or its solution."""
    return bool({"exercise", "solution"} & set(cell.get("metadata", {}).get("tags", [])))


def only_closes(source: str) -> bool:
    """Return whether a cell only closes the chapter's lab."""
    return ast.unparse(ast.parse(source)) == "lab.close()"


def merge_folds(cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge adjacent folds."""
    merged: list[dict[str, Any]] = []
    for cell in cells:
        before = merged[-1] if merged else {}
        if is_fold(cell) and is_fold(before):
            merged[-1] = {**before, "source": f"{before['source']}\n\n{cell['source']}"}
        else:
            merged.append(cell)
    return merged


def is_fold(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the page contains only folded code."""
    return "hide-input" in cell.get("metadata", {}).get("tags", []) and not cell["outputs"]
