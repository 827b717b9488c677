"""Tables: rows of words and numbers, with the same layout in JupyterLab, site and print."""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from .alt import format_power


class Table:
    """Rows with the same columns; shown as a table, printed as Markdown."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], digits: int = 3) -> None:
        if not rows:
            raise ValueError("a table needs at least one row, got none")
        self.columns = list(rows[0])
        for i, row in enumerate(rows):
            if list(row) != self.columns:
                raise ValueError(
                    f"every row of a table must have the same columns, {self.columns}, but row "
                    f"{i} has {list(row)}"
                )
        # Numbers are right-aligned, with their digits in columns.
        self.rules = [
            "--:" if all(_is_number(row[column]) for row in rows) else "---"
            for column in self.columns
        ]
        self.rows = [[_format_cell(row[column], digits) for column in self.columns] for row in rows]

    def _repr_markdown_(self) -> str:
        cells = [self.columns, self.rules, *self.rows]
        return "\n".join(f"| {' | '.join(map(str, row))} |" for row in cells)

    __repr__ = _repr_markdown_


def table(rows: Iterable[Mapping[str, Any]], *, digits: int = 3) -> Table:
    """Show rows, each a mapping from column to value; numbers get `digits` significant digits."""
    return Table([*rows], digits)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _format_cell(value: Any, digits: int) -> str:
    """Format 126,000 and 1.29·10⁻⁵, with a true minus and without programming notation."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        short = float(f"{value:.{digits}g}")
        if not isfinite(short) or 1e-4 <= abs(short) < 10**digits or not short:
            return f"{value:.{digits}g}".replace("-", "−")
        return f"{short:,.0f}" if 1 <= abs(short) < 1e7 else format_power(short)
    return str(value).replace("|", "\\|").replace("\n", " ")
