"""Read a roster: a CSV with the column `id`, and optionally name, email or others."""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

# An id is the name of a folder on every system.
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
# Columns about a student's homework, see press.homework.grading.marks.
NO_NAMES = ("extension", "handed in")


@dataclass(frozen=True)
class Student:
    """A student: the id, and the other columns of the roster."""

    id: str
    others: dict[str, str]

    @property
    def names(self) -> list[str]:
        """List the student's names in the roster; times and numbers of days do not count."""
        return [each for key, each in self.others.items() if not key.startswith(NO_NAMES)]


def open_table(path: Path) -> csv.DictReader:
    """Open a CSV file; spreadsheets in much of Europe part columns by semicolons."""
    text = path.read_text(encoding="utf-8-sig")
    delimiter = ";" if ";" in text.partition("\n")[0] else ","
    return csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)


def read_roster(path: Path) -> tuple[Student, ...]:
    """Read the students in the roster's order; ValueError states the invalid line."""
    try:
        rows = open_table(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"a roster must be a CSV file in UTF-8, but {path} cannot be read: {error}"
        ) from error
    columns = [name.strip().lower() for name in rows.fieldnames or ()]
    if columns.count("id") != 1:
        raise ValueError(
            f"a roster must have exactly one column `id`, as in id,name,email, but {path} begins "
            f"with {rows.reader.dialect.delimiter.join(rows.fieldnames or ())!r}"
        )
    rows.fieldnames = columns
    found: list[Student] = []
    lines: dict[str, int] = {}
    for row in rows:
        told = {key: (value or "").strip() for key, value in row.items() if isinstance(key, str)}
        name = told.pop("id")
        where = f"{path}, line {rows.line_num}: "
        if not ID.fullmatch(name) or name.endswith("."):
            raise ValueError(
                f"{where}an id must consist of at most 64 letters, digits and . _ @ + -, begin "
                "with a letter or digit and not end in a dot, because it names a folder; got "
                f"{name!r}"
            )
        # One folder for ada and Ada on a disk that knows no difference.
        if name.casefold() in lines:
            first = lines[name.casefold()]
            raise ValueError(
                f"{where}every id must be unique, but {name!r} is already on line {first}; delete "
                "or rename one"
            )
        lines[name.casefold()] = rows.line_num
        found.append(Student(name, told))
    if not found:
        raise ValueError(
            f"a roster must list at least one student, but {path} lists none; add a line below "
            "the header, or release without --students"
        )
    return tuple(found)
