"""Make the notebooks of a homework: the student's with stubs, the key with solutions.

Cells carry nbgrader's metadata (schema 3): `q1` for what is answered, `test-q1` with its points
for what is graded, `q2` with its points for an answer that is marked by hand. Nothing in them
depends on when or where they were made.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from labkit.check.public import ALLOWED
from press.book.chapters import KERNEL, LANGUAGE
from press.homework import regions, variants
from press.homework.cells import WITH_POINTS, Cell
from press.homework.source import Homework

if TYPE_CHECKING:
    from nbformat import NotebookNode

SCHEMA = 3  # of nbgrader's metadata


def write_cell(
    homework: Homework, cell: Cell, values: Mapping[str, Any], part: Callable[[str, str], str]
) -> str:
    """Convert a cell to a notebook's cell, with the numbers drawn and its regions separated.

    Of the settings a student gets what may be imported; the public checks look there too.
    """
    if cell.role == "homework":
        return (
            "# An answer may import these and Python's basics such as math and random; one that "
            f"needs anything\n# else earns nothing.\n{ALLOWED} = {homework.packages!r}"
        )
    if cell.kind != "code":
        return part(cell.source, "") if cell.role == "answer" else cell.source
    drawn = (
        variants.write_literal_cell(cell.source, values) if cell.role == "variant" else cell.source
    )
    return part(drawn, cell.question)


def write_notebook(
    homework: Homework,
    values: Mapping[str, Any],
    student: str = "",
    part: Callable[[str, str], str] = regions.hide_solutions,
) -> str:
    """Write the notebook that a student gets: stubs, public checks, the student's own numbers.

    With `part=regions.keep_solutions` it is the key: the same with solutions. Hidden tests are in
    neither.
    """
    nbformat = _import_nbformat()
    about = {"homework": homework.name, **({"student": student} if student else {})}
    cells, seen = [], Counter()
    for number, cell in enumerate(_order_cells(homework.cells), start=1):
        make = nbformat.v4.new_code_cell if cell.kind == "code" else nbformat.v4.new_markdown_cell
        cells.append(
            make(
                write_cell(homework, cell, values, part),
                id=f"cell-{number:02d}",
                metadata=_describe_cell(cell, seen),
            )
        )
    metadata = {"kernelspec": KERNEL, "language_info": LANGUAGE, "labkit": about}
    made: NotebookNode = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def _order_cells(cells: Sequence[Cell]) -> list[Cell]:
    """Place the settings after the title and the student's numbers and before the imports."""
    settings = [cell for cell in cells if cell.role == "homework"]
    shown = [cell for cell in cells if cell.role != "homework"]
    first = next(
        n for n, cell in enumerate(shown) if cell.kind == "code" and cell.role != "variant"
    )
    return [*shown[:first], *settings, *shown[first:]]


def _describe_cell(cell: Cell, seen: Counter[str]) -> dict[str, Any]:
    """Write the metadata of a cell for nbgrader and JupyterLab; `seen` counts the ids so far."""
    if not cell.role:
        return {}
    solution, graded = cell.role in ("solution", "answer"), cell.role in WITH_POINTS
    names = {"test": f"test-{cell.question}", "homework": "imports"}
    name = cell.question if solution else names.get(cell.role, cell.role)
    seen[name] += 1
    about = {
        "cell_type": cell.kind,
        "grade": graded,
        "grade_id": name if seen[name] == 1 else f"{name}-{seen[name]}",
        "locked": not solution,
        "schema_version": SCHEMA,
        "solution": solution,
        "task": False,
        **({"points": cell.points} if graded else {}),
    }
    # As nbgrader locks cells: none of them can be deleted, and an answer alone can be edited.
    return {"nbgrader": about, "deletable": False, **({} if solution else {"editable": False})}


def _import_nbformat() -> Any:
    try:
        import nbformat  # of the extra `book`
    except ImportError as error:
        raise ValueError(
            "a release needs the package nbformat to write notebooks, which is not installed; "
            "run: pip install 'norm-lab-book[book]'"
        ) from error
    return nbformat
