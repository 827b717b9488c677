"""Filters over rows: a field, a comparison, a value of the field's own type.

model.recipe=post   train.lr>=1e-3   seed=0   probes=landscape   test.loss=none   age<2d

A number is compared as a number, true and false as such, a name as text (only = and !=). A list
equals what is among its items. `none` is a value that is null; a run without the field never fits.
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.experiments.durations import parse_duration
from labkit.experiments.queries.fields import Row, check_known, get, has

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FILTER = re.compile(r"\s*([^\s=!<>]+)\s*(==|!=|<=|>=|=|<|>)\s*([^=!<>].*?)\s*")
_NONE = ("none", "null")
_BOOL = {"true": True, "false": False}


@dataclass(frozen=True)
class Filter:
    """One condition on a row."""

    field: str
    sign: str  # a key of COMPARE
    value: str

    def fits(self, row: Row) -> bool:
        """Say whether a row meets it; ValueError where the value is not of the field's type."""
        if not has(row, self.field):
            return False
        there, compare = get(row, self.field), COMPARE[self.sign]
        equality = compare in (operator.eq, operator.ne)
        null = self.value.lower() in _NONE and not isinstance(there, str)  # a norm is called none
        if there is None or null:
            return equality and compare(there is None, null)
        if isinstance(there, list):
            self._only_equality(equality, "a list")
            among = any(_same(item, self.value) for item in there)
            return among == (compare is operator.eq)
        if isinstance(there, bool):
            self._only_equality(equality, "true or false")
            if self.value.lower() not in _BOOL:
                raise ValueError(f"{self.field} is true or false, got {self.value!r}")
            return compare(there, _BOOL[self.value.lower()])
        if isinstance(there, int | float):
            return compare(there, self._number())
        self._only_equality(equality, "a name")
        return compare(str(there), self.value)

    def _number(self) -> float:
        if self.field == "age":
            return parse_duration(self.value)
        try:
            # whole numbers exactly: a seed may have more digits than a float
            return int(self.value) if re.fullmatch(r"[+-]?\d+", self.value) else float(self.value)
        except ValueError:
            raise ValueError(f"{self.field} is a number, got {self.value!r}") from None

    def _only_equality(self, equality: bool, kind: str) -> None:
        if not equality:
            raise ValueError(
                f"{self.field} is {kind}: compare it with = or !=, not with {self.sign}"
            )


def parse(text: str) -> Filter:
    """Read a filter such as "train.lr>=1e-3"."""
    found = _FILTER.fullmatch(text)
    if not found:
        raise ValueError(
            "a filter is a field, one of = != < <= > >=, and a value, such as 'train.lr>=1e-3'; "
            f"got {text!r}"
        )
    return Filter(*found.groups())


def select(rows: Sequence[Row], filters: Sequence[str]) -> list[Row]:
    """Keep the rows that meet every filter."""
    wanted = [parse(text) for text in filters]
    if rows:
        check_known([each.field for each in wanted], rows)
    return [row for row in rows if all(each.fits(row) for each in wanted)]


def order(rows: Sequence[Row], field: str, descending: bool = False) -> list[Row]:
    """Sort by one field, numbers before names; rows without a value come last."""
    if rows:
        check_known([field], rows)
    there = [row for row in rows if get(row, field) is not None]
    there.sort(key=lambda row: _rank(get(row, field)), reverse=descending)
    return there + [row for row in rows if get(row, field) is None]


def _rank(value: Any) -> tuple[int, float, str]:
    number = isinstance(value, int | float)
    return (0, value, "") if number else (1, 0.0, str(value))


def _same(item: Any, text: str) -> bool:
    if isinstance(item, int | float) and not isinstance(item, bool):
        try:
            return item == float(text)
        except ValueError:
            return False
    return str(item).lower() == text.lower() if isinstance(item, bool) else str(item) == text
