"""Read the cell tagged `homework`: HOMEWORK = {"title", "about", "packages", "minutes"}."""

import ast
from collections.abc import Sequence
from typing import Any

from press.homework.cells import Cell

TYPES = {"title": str, "about": str, "packages": list, "minutes": int}
EXAMPLE = (
    'HOMEWORK = {"title": "Norms from scratch", "about": "…", "packages": ["torch"], "minutes": 90}'
)


def read_settings(cells: Sequence[Cell]) -> dict[str, Any]:
    """Read the settings; ValueError states what is missing or invalid."""
    found = [cell for cell in cells if cell.role == "homework"]
    if len(found) != 1 or found[0] is not next(c for c in cells if c.kind == "code"):
        raise ValueError(
            "the first code cell, and no other, must be tagged `homework` and contain the "
            f"settings; got {len(found)} such cells; write {EXAMPLE}"
        )
    cell = found[0]
    told = _parse_literal(cell.source)
    where = f"line {cell.line}: "
    if told is None:
        raise ValueError(f"{where}the `homework` cell must be one assignment of a dict: {EXAMPLE}")
    if set(told) != set(TYPES):
        raise ValueError(
            f"{where}HOMEWORK must have the keys {', '.join(TYPES)}; got "
            f"{', '.join(map(str, told))}"
        )
    for key, kind in TYPES.items():
        if type(told[key]) is not kind or not told[key]:
            raise ValueError(
                f"{where}HOMEWORK[{key!r}] must have type {kind.__name__} and not be empty; got "
                f"{told[key]!r}"
            )
    wrong = [name for name in told["packages"] if not str(name).isidentifier()]
    if wrong:
        raise ValueError(
            f'{where}HOMEWORK["packages"] must list names that a submission may import, such as '
            f'"torch"; got {wrong[0]!r}'
        )
    return told


def _parse_literal(source: str) -> dict[Any, Any] | None:
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return None
    match body:
        case [ast.Assign(targets=[ast.Name(id="HOMEWORK")], value=ast.Dict() as value)]:
            try:
                return ast.literal_eval(value)
            except ValueError:
                return None
    return None
