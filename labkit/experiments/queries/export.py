"""Rows as a file: CSV by the standard library, Parquet by pyarrow. One row a run.

Nested configs and probes' single values are columns named with dots. Other lists are JSON text,
but for the loss of every step, a column of lists that only Parquet has.
"""

import csv
import importlib.util
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labkit.experiments.queries.entries import Entry
from labkit.experiments.queries.fields import Row, known, row_of
from labkit.experiments.store import write_whole

CURVE = "losses"


def export(entries: Sequence[Entry], out: Path) -> None:
    """Write the entries to `out`, whole or not at all, as its ending says."""
    writers = {".csv": _csv, ".parquet": _parquet}
    if out.suffix not in writers:
        raise ValueError(
            f"the file's ending says what is written: .csv or .parquet; got {out.name!r}"
        )
    content = writers[out.suffix](entries)
    try:
        write_whole(out, content)
    except OSError as error:
        raise ValueError(f"{out} could not be written: {error}") from error


def _rows(entries: Sequence[Entry]) -> tuple[list[str], list[Row]]:
    rows = [row_of(entry) for entry in entries]
    return known(rows), rows


def _csv(entries: Sequence[Entry]) -> bytes:
    names, rows = _rows(entries)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def _parquet(entries: Sequence[Entry]) -> bytes:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(
            "Parquet needs pyarrow: install this project's extra `parquet`, or export to a .csv"
        )
    import pyarrow  # an extra
    import pyarrow.parquet

    names, rows = _rows(entries)
    columns = {name: pyarrow.array(_column([row.get(name) for row in rows])) for name in names}
    curves = [entry.record["losses"] for entry in entries]
    columns[CURVE] = pyarrow.array(curves, pyarrow.list_(pyarrow.float64()))
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _column(values: Sequence[Any]) -> list[Any]:
    """Bring values to one type: all numbers, all true or false, or else text."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    fits = all(-(2**63) <= value < 2**63 for value in there if type(value) is int)
    if kinds == {bool} or (kinds == {int} and fits):
        return list(values)
    if kinds == {float} or (kinds == {int, float} and fits):
        return [None if value is None else float(value) for value in values]
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    """Write what has no form of its own in a table as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
