"""Numbers printed in papers: the tables in data/papers, with their numbers parsed."""

import csv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "data" / "papers"

Cell = float | str | None


def published(name: str, folder: Path = FOLDER) -> list[dict[str, Cell]]:
    """Read the table data/papers/<name>.csv, one dict per row.

    Cells that parse as numbers become floats, empty cells None, and the rest stays text. The source
    of each table, and the meaning of its columns, are in data/papers/README.md.

    Raises:
        ValueError: there is no such table (the message lists the existing ones), or a row and the
            header differ in length.
    """
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.csv"))) or "none"
        raise ValueError(f"the folder {folder.name} has no table {name!r}; choose one of {known}")
    with path.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise ValueError(
                f"every row of {path.name} must have {len(head)} cells, like its header; "
                f"row {number} has {len(row)}: complete it, an empty cell is allowed"
            )
    return [dict(zip(head, map(_parse_cell, row), strict=True)) for row in rows]


def _parse_cell(text: str) -> Cell:
    text = text.strip()
    try:
        return float(text) if text else None
    except ValueError:
        return text
