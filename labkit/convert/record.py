"""What a conversion returns: one row per norm swapped or left, and the way back."""

import html
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
Seat = tuple[nn.Module, str, nn.Module, nn.Module]  # parent, name in it, module before, after


@dataclass(frozen=True)
class Swapped:
    """One norm that was exchanged; `same` says on which inputs the function is unchanged."""

    name: str
    old: str
    new: str
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    same: str = "another function"


@dataclass(frozen=True)
class Left:
    """One norm that stays as it was, and why."""

    name: str
    norm: str
    reason: str


class Conversion:
    """The outcome of `convert` or `fold_norms`: `swapped`, `left`, `notes` and `undo()`.

    `model` is the model that was handed in, or the new norm where the model itself was one.
    """

    def __init__(
        self,
        model: nn.Module,
        swapped: Sequence[Swapped],
        left: Sequence[Left],
        seats: Sequence[Seat],
        switches: Sequence[tuple[nn.Module, str, Any]] = (),
        notes: Sequence[str] = (),
    ):
        self.swapped, self.left, self.notes = tuple(swapped), tuple(left), tuple(notes)
        self._given = self.model = model
        self._seats, self._switches = seats, switches
        self._undone = False

    def undo(self) -> nn.Module:
        """Put the very same module objects back, with the weights they had; return the model."""
        if self._undone:
            raise RuntimeError("this conversion has been undone already; convert again")
        for parent, name, _, new in self._seats:
            if parent._modules.get(name) is not new:
                raise RuntimeError(
                    f"undo finds another module at {name!r} of {type(parent).__name__} than the "
                    "conversion put there; undo later conversions first"
                )
        for parent, name, old, _ in self._seats:
            parent._modules[name] = old
        for module, name, value in self._switches:
            setattr(module, name, value)
        self._undone, self.model, self.notes = True, self._given, ()
        return self._given

    def __str__(self) -> str:
        lines = [self._format_summary()]
        for table in self._build_tables():
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                for row in table
            ]
        return "\n".join(line.rstrip() for line in [*lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _format_summary(self) -> str:
        return f"{len(self.swapped)} swapped, {len(self.left)} left" + (
            " (undone)" if self._undone else ""
        )

    def _build_tables(self) -> list[list[tuple[str, ...]]]:
        """List swapped and left norms, many alike in one row."""
        tables = []
        if self.swapped:
            head = ("name", "old", "new", "kept", "dropped", "new values", "function")
            tables.append([head, *_gather_rows(self.swapped, _swapped_cells)])
        if self.left:
            tables.append([("left", "norm", "reason"), *_gather_rows(self.left, _left_cells)])
        return tables


def _swapped_cells(row: Swapped) -> tuple[str, ...]:
    lists = (", ".join(entry) or "-" for entry in (row.kept, row.dropped, row.fresh))
    return row.name, row.old, row.new, *lists, row.same


def _left_cells(row: Left) -> tuple[str, ...]:
    return row.name, row.norm, row.reason


def _gather_rows(
    rows: Iterable[Any], cells: Callable[..., tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Write the rows; of more than three that differ in the numbers of their names, the ends."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        pattern = _NUMBER.sub("*", row.name)
        alike.setdefault(cells(replace(row, name=pattern)), []).append(row.name)
    return [
        (shown, *rest)
        for (_, *rest), names in alike.items()
        for shown in (
            [f"{names[0]} … {names[-1]} ({len(names)})"]
            if names[3:]
            else [name or "(the model)" for name in names]
        )
    ]
