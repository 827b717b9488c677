"""Which code of a chapter a page or notebook shows at once, and which is folded.

Open stay implementations, the runs that a chapter asks for, listings and the stubs of exercises.
Folded are claims, what draws a figure or a table (below it), set-up, and the checks of answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from labkit.display import EXERCISE
from press.book.facts import join_text, output_kind

OPENING = {"Experiment", "Run", "show"}  # calls that show what the chapter does


class Folder:
    """Fold a chapter's code cells, met in order; it must see the Markdown cells too."""

    def __init__(self) -> None:
        self.in_exercises = False

    def read_heading(self, markdown: str) -> None:
        """Note whether the exercises begin or end here."""
        for line in markdown.splitlines():
            if line.startswith("## "):
                self.in_exercises = line.strip("# ").casefold().startswith("exercises")

    def must_fold(self, cell: Mapping[str, Any]) -> bool:
        """Return whether a cell's code is folded."""
        if is_task(cell):
            return False  # a stub is the reader's to fill; a solution has a fold of its own
        outputs = cell.get("outputs", [])
        kinds = {output_kind(output) for output in outputs}
        asks = any(EXERCISE in output.get("data", {}) for output in outputs)
        if self.in_exercises or asks or kinds & {"claim", "figure", "exercise"}:
            return True
        tree = ast.parse(join_text(cell["source"]))
        called = set(find_calls(tree))
        if "Lab" in called or draws(tree) or checks(tree):
            return True
        defines = any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body)
        return not (defines or called & OPENING)


def count_open_lines(notebook: Mapping[str, Any]) -> int:
    """Count the lines of code that a page shows at once, the stubs of exercises left out."""
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
    """Yield the names of the plain functions and classes that are called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


def draws(tree: ast.Module) -> bool:
    """Return whether a cell ends in what it draws: a figure, a slider, a table."""
    match tree.body[-1:]:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name("plots"))))]:
            return True
    return False


def checks(tree: ast.AST) -> bool:
    """Return whether a cell holds an answer against the right one."""
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return bool(called & {"check.answer", "check.function"})


def is_task(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell is an exercise's stub or its solution."""
    return bool({"exercise", "solution"} & set(cell.get("metadata", {}).get("tags", [])))


def only_closes(source: str) -> bool:
    """Return whether a cell does nothing but close the chapter's lab."""
    return ast.unparse(ast.parse(source)) == "lab.close()"


def merge_folds(cells: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merge folds that follow each other with nothing between them."""
    merged: list[dict[str, Any]] = []
    for cell in cells:
        before = merged[-1] if merged else {}
        if is_fold(cell) and is_fold(before):
            merged[-1] = {**before, "source": f"{before['source']}\n\n{cell['source']}"}
        else:
            merged.append(cell)
    return merged


def is_fold(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell of the page is folded code alone."""
    return "hide-input" in cell.get("metadata", {}).get("tags", []) and not cell["outputs"]
