"""Help readers who run a chapter's cells one by one in JupyterLab.

A kernel loads this as an IPython extension where `lab.py` started JupyterLab; no build does. A cell
that lacks a name says that the cells above define it. A cell that answers an exercise is checked at
once: the folded check below it runs too, and reports where the answer was typed.
"""

import ast
import json
import os
import re
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any

CHECK = re.compile(r"\bcheck[._]")


def load_ipython_extension(shell: Any) -> None:
    """Add both kinds of help to a kernel's shell."""
    helper = Helper(shell)
    shell.events.register("pre_run_cell", helper.note_cell)
    shell.events.register("post_run_cell", helper.check_answer)
    shell.set_custom_exc((NameError,), helper.explain_missing)


class Helper:
    """Track which cell of the notebook's file runs, and which cells surround it."""

    def __init__(self, shell: Any) -> None:
        self.shell, self.running = shell, None

    def note_cell(self, info: Any) -> None:
        """Record which cell runs."""
        self.running = info.cell_id

    def explain_missing(
        self, shell: Any, kind: type, error: NameError, trace: TracebackType, tb_offset: Any = None
    ) -> None:
        """Show a NameError, and point out a cell above that defines the name, if there is one."""
        above = takewhile(lambda cell: cell["id"] != self.running, read_cells())
        if any(re.search(rf"\b{error.name}\b", _join_source(cell)) for cell in above):
            error.add_note(
                f"Cells above this one define {error.name}. Choose Run > Run All Above Selected "
                "Cell, then run this cell again."
            )
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    def check_answer(self, result: Any) -> None:
        """Run the check below a cell that answers an exercise."""
        if not result.success or has_open_place(result.info.raw_cell):
            return
        for source, cell_id in find_check(read_cells(), result.info.cell_id):
            self.shell.run_cell(source, store_history=False, cell_id=cell_id)


def read_cells() -> list[dict[str, Any]]:
    """Read the code cells of the notebook that this kernel runs; none if there is no file."""
    try:
        path = Path(os.environ.get("JPY_SESSION_NAME", "")).with_suffix(".ipynb")
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def find_check(cells: list[dict[str, Any]], stub: str) -> list[tuple[str, str]]:
    """Find the folded cells that check the exercise of a stub, by its id: their sources and ids."""
    at = next((i for i, cell in enumerate(cells) if cell["id"] == stub), len(cells))
    if "exercise" not in _read_tags(*cells[at : at + 1]):
        return []
    found = []
    for cell in cells[at + 1 : at + 3]:
        folded = cell["metadata"].get("jupyter", {}).get("source_hidden")
        if not folded or "solution" in _read_tags(cell):
            break
        found.append((source := _join_source(cell), cell["id"]))
        if CHECK.search(source):
            return found
    return []


def has_open_place(source: str) -> bool:
    """Return whether a stub still contains its `...`."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return True
    return any(isinstance(node, ast.Constant) and node.value in (..., "…") for node in nodes)


def _read_tags(*cells: dict[str, Any]) -> list[str]:
    return [tag for cell in cells for tag in cell["metadata"].get("tags", [])]


def _join_source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])
