"""table: rows of words and numbers, laid out alike in JupyterLab, on the site and in print."""

from collections.abc import Mapping, Sequence
from typing import Any


class Table:
    """Rows with the same columns; shown as a table, printed as Markdown."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], digits: int = 3) -> None:
        if not rows:
            raise ValueError("a table needs at least one row, got none")
        self.columns = list(rows[0])
        for i, row in enumerate(rows):
            if list(row) != self.columns:
                raise ValueError(
                    f"every row of a table has the same columns, {self.columns}; "
                    f"row {i} has {list(row)}"
                )
        self.rows = [[_format_cell(row[column], digits) for column in self.columns] for row in rows]

    def _repr_markdown_(self) -> str:
        cells = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)

    __repr__ = _repr_markdown_


def table(rows: Sequence[Mapping[str, Any]], *, digits: int = 3) -> Table:
    """Show rows, each a mapping from column to value; numbers get `digits` significant digits."""
    return Table(rows, digits)


def _format_cell(value: Any, digits: int) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return str(value).replace("|", "\\|").replace("\n", " ")
