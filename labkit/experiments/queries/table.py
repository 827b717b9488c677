"""Rows as text: a list of runs, one run in full, several side by side."""

import re
from collections.abc import Sequence
from typing import Any

from labkit.experiments.durations import format_duration
from labkit.experiments.queries.entries import Entry, Shelf
from labkit.experiments.queries.fields import ORIGIN, TIMES, Row, check_known, flat, get, row_of

# Names of fields, short or full.
COLUMNS = ("key", "what", "recipe", "norm", "dim", "depth", "lr", "seed", "steps",
           "loss", "test", "seconds", "device", "age")  # fmt: skip
SHOWN = 8  # letters of a key
ITEMS = 6  # of a list
_NUMBER = re.compile(r"–|[-+]?[\d.]+(e[-+]?\d+)?( MiB)?")


def list_text(rows: Sequence[Row], columns: Sequence[str] = COLUMNS) -> str:
    """Draw a table, one row a run."""
    if rows:
        check_known(columns, rows)
    return grid([list(columns), *([cell(row, name) for name in columns] for row in rows)])


def count_text(shelf: Shelf, shown: int, chosen: int) -> str:
    """Say in a line or two how many runs there are, and what else lies in the store."""
    stale = len(shelf.of("stale"))
    lines = [f"{shown} of {chosen} runs" + ("; --limit 0 shows all" if shown < chosen else "")]
    if not shelf.entries:
        lines = ["no runs are stored here yet; `labkit book build` trains the book's"]
    elif not chosen:
        lines = ["no such runs"]
    others = [
        (stale, "stale, of an older schema (--all lists them)"),
        (len(shelf.damaged), "damaged"),
        (len(shelf.writing), "not finished writing"),
        (len(shelf.locks), "locked by somebody at work, or killed"),
        (len(shelf.foreign), "no entries of a store"),
    ]
    if any(count for count, _ in others):
        rest = ", ".join(f"{count} {what}" for count, what in others if count)
        lines.append(f"besides: {rest}; `labkit runs gc --dry-run` says what could go")
    return "\n".join(lines)


def show_text(entry: Entry) -> str:
    """Write one entry in full: its run, losses, probes, provenance, how it was made."""
    row, run = row_of(entry), entry.run
    parts: list[tuple[str, dict[str, Any]]] = [
        (name, part if isinstance(part, dict) else {"": part}) for name, part in run.items()
    ]
    parts += [
        ("losses", _losses(row, entry.record["losses"])),
        ("time", {name: value for name in TIMES if (value := row[name]) is not None}),
        (
            "measured",
            {name: _brief(value) for name, value in flat(entry.record.get("probes") or {}).items()},
        ),
        ("provenance", entry.record.get("provenance") or {}),
        ("made", entry.made),
    ]
    lines = [f"{entry.key}", f"  {row['what']}; {entry.state}{entry.why and f': {entry.why}'}"]
    lines.append(f"  {entry.file.size:,} bytes, {format_duration(max(0.0, entry.age))} old")
    for name, values in parts:
        told = [f"{k}={_value(v)}" if k else _value(v) for k, v in values.items()]
        lines += _wrapped(name, told)
    return "\n".join(lines)


def compare_text(entries: Sequence[Entry]) -> str:
    """Set runs side by side: the fields in which they differ, then their results."""
    rows = [row_of(entry) for entry in entries]
    names = list(dict.fromkeys(name for row in rows for name in row))
    configs = {f"{part}." for part in ("model", "data", "train")}

    def differs(name: str) -> bool:
        return any(row.get(name) != rows[0].get(name) for row in rows)

    def section(title: str, chosen: list[str]) -> list[list[str]]:
        if not chosen:
            return [[f"({title}: no difference)"]]
        return [[name, *(cell(row, name) for row in rows)] for name in chosen]

    config = [n for n in names if n in ("seed", "probes") or n.startswith(tuple(configs))]
    origin = [n for n in names if n.startswith(ORIGIN) and n not in ("key", "age", "bytes")]
    results = [n for n in names if n not in config and not n.startswith(ORIGIN) and n != "what"]
    head = [["key", *(row["key"][:SHOWN] for row in rows)]]
    return "\n\n".join(
        grid([*head, *section(title, chosen)])
        for title, chosen in (
            ("run", [name for name in config if differs(name)]),
            ("results", [name for name in results if any(n.get(name) is not None for n in rows)]),
            ("origin", [name for name in origin if differs(name)]),
        )
    )


def cell(row: Row, name: str) -> str:
    """Write one value as it stands in a table."""
    value = get(row, name)
    if name == "key":
        return value[:SHOWN]
    if name == "loss" and row.get("diverged_at") is not None:
        return f"diverged at {row['diverged_at']}"
    if value is None:
        return "–"
    if name in ("peak", "bytes") or name.endswith("_bytes"):
        return f"{value / 2**20:.3g} MiB"
    if name == "age":
        return format_duration(value) if value >= 0 else "in the future"
    return _value(value)


def grid(rows: Sequence[Sequence[str]]) -> str:
    """Line columns up: the first to the left, numbers to the right."""
    count = max(map(len, rows))
    wide = [max(len(row[i]) for row in rows if i < len(row)) for i in range(count)]
    right = [
        all(_NUMBER.fullmatch(row[i]) for row in rows[1:] if i < len(row)) for i in range(count)
    ]
    return "\n".join(
        "  ".join(
            f"{text:>{wide[i]}}" if right[i] else f"{text:<{wide[i]}}" for i, text in enumerate(row)
        ).rstrip()
        for row in rows
    )


def _losses(row: Row, losses: list[float]) -> dict[str, Any]:
    told = {name: row[f"loss.{name}"] for name in ("first", "lowest")}
    return {
        "steps": f"{len(losses)} of {row.get('train.steps')}",
        **told,
        "last": row["loss"],
        **({"diverged_at": row["diverged_at"]} if row["diverged_at"] is not None else {}),
    }


def _brief(value: Any) -> Any:
    if isinstance(value, list) and len(value) > ITEMS:
        return f"[{_value(value[0])}, …, {_value(value[-1])}; {len(value)} values]"
    return value


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _wrapped(name: str, words: Sequence[str], wide: int = 100) -> list[str]:
    """Fill lines with words behind a name."""
    lines, line = [], f"  {name:<11}"
    for word in words:
        if len(line) + len(word) + 1 > wide and line.strip() != name:
            lines.append(line.rstrip())
            line = " " * 13
        line += f"{word}  "
    return [*lines, line.rstrip()]
