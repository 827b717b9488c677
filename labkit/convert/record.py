"""Result of a conversion: one row per norm that was swapped or left, and how to undo it."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

_NUMBER = re.compile(r"(?<![^.])\d+(?![^.])")
Seat = tuple[nn.Module, str, nn.Module, nn.Module]  # parent, name in it, module before, after


@dataclass(frozen=True)
class Swapped:
    """One norm that was swapped; `same` describes the inputs on which the function is unchanged."""

    name: str
    old: str
    new: str
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    same: str = "another function"

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table row."""
        lists = (", ".join(entry) or "-" for entry in (self.kept, self.dropped, self.fresh))
        return self.name, self.old, self.new, *lists, self.same


@dataclass(frozen=True)
class Left:
    """One norm that was left in place, and why."""

    name: str
    norm: str
    reason: str

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table row."""
        return self.name, self.norm, self.reason


class Conversion:
    """The result of `convert` or `fold_norms`: `swapped`, `left`, `notes` and `undo()`."""

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
        self.model = model
        self._seats, self._switches = seats, switches
        self._undone = False

    def undo(self) -> nn.Module:
        """Restore the original modules, with the weights they had; return the model."""
        if self._undone:
            raise RuntimeError(
                "a conversion can be undone only once, but this one already was; convert again"
            )
        for parent, name, _, new in self._seats:
            if parent._modules.get(name) is not new:
                raise RuntimeError(
                    "undo must find the module that the conversion put in place, but finds a "
                    f"different one at {name!r} of {type(parent).__name__}; undo later "
                    "conversions first"
                )
        for parent, name, old, _ in self._seats:
            parent._modules[name] = old
        for module, name, value in self._switches:
            setattr(module, name, value)
        self._undone, self.notes = True, ()
        return self.model

    def __str__(self) -> str:
        undone = " (undone)" if self._undone else ""
        lines = [f"{len(self.swapped)} swapped, {len(self.left)} left{undone}"]
        swapped = ("name", "old", "new", "kept", "dropped", "new values", "function")
        for head, rows in ((swapped, self.swapped), (("left", "norm", "reason"), self.left)):
            table = [head, *_gather_rows(rows)] if rows else []
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines += [
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                for row in table
            ]
        return "\n".join(line.rstrip() for line in [*lines, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _gather_rows(rows: Iterable[Swapped | Left]) -> list[tuple[str, ...]]:
    """Return the table rows; more than three that differ only in numbers become one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        name, *rest = row.cells
        alike.setdefault((_NUMBER.sub("*", name), *rest), []).append(name)
    table = []
    for (_, *rest), names in alike.items():
        if names[3:]:
            names = [f"{names[0]} … {names[-1]} ({len(names)})"]
        table += [(name, *rest) for name in names]
    return table
