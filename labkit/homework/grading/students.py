"""Students: ids that are safe as file names, and a roster that knows their other names.

    id,canvas,email                 the column `id` names the student in the release;
    ann,4711,ann@example.org        every other value is another name in a download
"""

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")


def is_id(text: str) -> bool:
    """Whether a text names a student: letters, digits and . _ @ + -, at most 64, no path."""
    return ID.fullmatch(text) is not None and ".." not in text


@dataclass(frozen=True)
class Roster:
    """The students of a class; `other` is {another name, in lower case: id}."""

    ids: tuple[str, ...] = ()
    other: dict[str, str] = field(default_factory=dict)
    # {id: {column: value}}, as the file has it
    rows: dict[str, dict[str, str]] = field(default_factory=dict)

    def id_of(self, names: Iterable[str]) -> str | None:
        """The student that one of these names stands for; without a roster, the first that is one.

        With a roster a name that it does not hold is nobody.
        """
        for name in names:
            key = " ".join(name.split()).lower()
            if key in self.other:
                return self.other[key]
            if not self.ids and is_id(name):
                return name
        return None


def read(path: Path | None, ids: Iterable[str] = ()) -> Roster:
    """Read a roster's CSV, or make one of ids alone; ValueError names what is wrong with it."""
    if path is None:
        known = tuple(sorted(set(ids)))
        return Roster(known, {each.lower(): each for each in known}, {each: {} for each in known})
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} must be a roster, a CSV in UTF-8 ({error})") from error
    if not rows or "id" not in rows[0]:
        raise ValueError(f"{path} must be a roster with a column `id` and a line per student")
    other: dict[str, str] = {}
    kept: dict[str, dict[str, str]] = {}
    for number, row in enumerate(rows, start=2):
        values = {key: " ".join((row[key] or "").split()) for key in row if isinstance(key, str)}
        one = values["id"]
        if not is_id(one) or one in kept:
            raise ValueError(f"{path}, line {number}: an id is there once and {_rule()}: {one!r}")
        kept[one] = values
        for name in values.values():
            if name and other.setdefault(name.lower(), one) != one:
                # Two of one name: neither is found by it.
                other[name.lower()] = ""
    return Roster(tuple(sorted(kept)), {name: one for name, one in other.items() if one}, kept)


def _rule() -> str:
    return "has letters, digits and . _ @ + - only, at most 64, a letter or digit first"
