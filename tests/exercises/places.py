"""Positions of the exercises in a chapter: starters, checks and solutions in code."""

import ast
import re
from dataclasses import dataclass, replace

from press.book.chapters import Chapter
from press.book.percent import TextCell, cells_of

NUMBER = re.compile(
    r"(?m)^(?:#{2,5} +(?:Exercise +)?|\*\*(?:Exercise +)?)(\d+[a-z]?)\b(?=[.:) ]|\*\*)"
)


@dataclass(frozen=True)
class Place:
    """The position of an exercise in a chapter: its starter, its check and its solution."""

    number: str
    starter: TextCell
    check: TextCell | None = None
    solution: TextCell | None = None


def find_exercises(chapter: Chapter) -> dict[str, Place]:
    """Find the exercises: starter, the next cell that ends in a check, and code solution."""
    found: dict[str, Place] = {}
    number = None
    for cell in cells_of(chapter.source.read_text(encoding="utf-8")):
        for line in cell.source.splitlines() if cell.kind == "markdown" else ():
            if match := NUMBER.match(line):
                number = match.group(1)
            elif line.startswith("## "):
                number = None
        if cell.kind != "code":
            continue
        place = found.get(number or "")
        if "exercise" in cell.tags:
            if number is None or place:
                raise ValueError(
                    f"{chapter.name}: every cell tagged `exercise` follows a number of its own, as "
                    f'in "**3 (in code).**" or "### 3. …"; cell {cell.index} follows '
                    f"{number or 'none'} {'again' if place else ''}"
                )
            found[number] = Place(number, cell)
        elif place and "solution" in cell.tags:
            found[place.number] = replace(place, solution=place.solution or cell)
        elif place and _ends_in_check(cell.source):
            found[place.number] = replace(place, check=place.check or cell)
    return found


def _ends_in_check(source: str) -> bool:
    last = ast.parse(source).body[-1:]
    return any(isinstance(n, ast.Expr) and re.search("check|report", ast.unparse(n)) for n in last)
