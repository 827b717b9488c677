"""Exercises that a page checks: a box in place of the stub, or a note on where it runs.

The report of a check carries what a page needs (labkit/check/report.py). The page keeps it encoded
in an element that only a script reads (chapters/_static/answers.js); the stub and the check stay,
for readers without script.
"""

from __future__ import annotations

import ast
import base64
import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import labkit
from labkit.display import EXERCISE
from press.book.facts import Json, join_text
from press.site import answers

BOX = '<div class="labkit-exercise" data-exercise="{data}"></div>'
# What Pyodide runs; the names are those under which the files import each other.
PRESS, LABKIT = Path(answers.__file__).parent, Path(str(labkit.__file__)).parent
PYTHON = {
    "torch_of_lists.py": PRESS / "torch_of_lists.py",
    "runner.py": PRESS / "runner.py",
    "labkit/check/compare.py": LABKIT / "check" / "compare.py",
    "labkit/check/calls.py": LABKIT / "check" / "calls.py",
}
ELSEWHERE = "labkit-elsewhere"


def place_boxes(cells: Sequence[Json], launch: str = "") -> Iterator[Json]:
    """Yield a notebook's cells; the output of a check becomes the box if a page can run it.

    Below the stub of an exercise that has none, a line says where it runs.
    """
    boxes = find_boxes(cells)
    boxed = {stub for stub, _ in boxes.values()}
    for index, cell in enumerate(cells):
        if index in boxes:
            _, box = boxes[index]
            yield {**cell, "outputs": [box if asks(o) else o for o in cell["outputs"]]}
            continue
        yield cell
        if is_stub(cell) and index not in boxed and runs(join_text(cell["source"])):
            yield write_note(cell["id"], launch)


def find_boxes(cells: Sequence[Json]) -> dict[int, tuple[int, Json]]:
    """Map the index of each check that a page can run to the index of its stub and its box."""
    found: dict[int, tuple[int, Json]] = {}
    stub = -1
    for index, cell in enumerate(cells):
        if is_stub(cell):
            stub = index
        elif stub >= 0 and cell["cell_type"] == "code":
            tasks = [task for output in cell["outputs"] if (task := asks(output))]
            if tasks and fits(tasks[0], join_text(cells[stub]["source"])):
                found[index], stub = (stub, draw_box(tasks[0])), -1
    return found


def is_stub(cell: Json) -> bool:
    """Return whether a cell is to be completed by a reader."""
    return cell["cell_type"] == "code" and "exercise" in cell.get("metadata", {}).get("tags", [])


def asks(output: Json) -> Json | None:
    """Return the task that the output of a check gives a page."""
    return output.get("data", {}).get(EXERCISE)


def fits(task: Json, stub: str) -> bool:
    """Return whether a stub matches what a task checks.

    By hand it is one answer, or several by key, under the name `yours`; in code it is functions.
    """
    tree = ast.parse(stub)
    if task["kind"] == "code":
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        return defined >= set(task["functions"])
    match tree.body:
        case [ast.Assign([ast.Name("yours")], ast.Dict(keys))]:
            return {ast.literal_eval(key) for key in keys if key} == {
                one["key"] for one in task["asks"]
            }
        case [ast.Assign([ast.Name("yours")], _)]:
            return [one["key"] for one in task["asks"]] == [""]
    return False


def runs(stub: str) -> bool:
    """Return whether a stub runs code; a space for a proof or a prediction does not."""
    return not all(
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for node in ast.parse(stub).body
    )


def draw_box(task: Json) -> Json:
    """Write the element that a script turns into a box; encoded, so that the answer is hidden."""
    coded = base64.b64encode(json.dumps(task, ensure_ascii=False).encode()).decode()
    data = {"text/html": BOX.format(data=html.escape(coded))}
    metadata = {"labkit": {"kind": "exercise"}}
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def write_note(identifier: str, launch: str) -> Json:
    """Write the note below a stub that a page cannot run."""
    where = f" or open it: {launch}" if launch else ""
    line = f"This cell needs PyTorch: [run it in JupyterLab](running.md){where}."
    source = f'<div class="{ELSEWHERE}">\n\n{line}\n\n</div>'
    return {"cell_type": "markdown", "id": f"{identifier}-where", "metadata": {}, "source": source}


def list_files() -> dict[str, bytes]:
    """Read the Python files that a page loads at the first check of code."""
    return {f"_static/answers/{name}": path.read_bytes() for name, path in PYTHON.items()}
