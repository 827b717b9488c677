"""Numbers that papers printed: the tables in data/papers, read with their numbers as numbers."""

import csv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "data" / "papers"

Cell = float | str | None


def published(name: str, folder: Path = FOLDER) -> list[dict[str, Cell]]:
    """Read the table data/papers/<name>.csv, a dict a row.

    What reads as a number becomes a float, an empty cell None; the rest stays text. Where a table
    was printed, and what its columns mean, stands in data/papers/README.md.

    Raises:
        ValueError: there is no such table (the message lists those there are), or a row has not
            as many cells as the head.
    """
    path = folder / f"{name}.csv"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.csv"))) or "none"
        raise ValueError(f"the folder {folder.name} has no table {name!r}; it has {known}")
    with path.open(encoding="utf-8", newline="") as lines:
        head, *rows = csv.reader(lines)
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise ValueError(
                f"every row of {path.name} has {len(head)} cells, as its head has; "
                f"row {number} has {len(row)}: complete it, an empty cell is allowed"
            )
    return [dict(zip(head, map(_parse_cell, row), strict=True)) for row in rows]


def _parse_cell(text: str) -> Cell:
    text = text.strip()
    try:
        return float(text) if text else None
    except ValueError:
        return text
