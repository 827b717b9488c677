"""Cut out of a chapter what one cell needs: to test a claim or an exercise without the rest.

    part = slice_of(chapter, claim_cell(chapter, "03-one-formula"))
    (outcome,) = execute([part], profile="cpu")      # in a fresh process, see alone.py

A cell is needed when it makes, or may change in place, a name that a needed cell reads. What
cannot be seen in the text counts as a change, so a slice may hold too much, not too little.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from labkit.book import chapters
from labkit.book.chapters import Chapter
from labkit.book.effects import Names
from labkit.book.names import known, names_of
from labkit.book.percent import cells_of

NUMBER = re.compile(
    r"(?m)^(?:#{2,5} +(?:Exercise +)?|\*\*(?:Exercise +)?)(\d+[a-z]?)\b(?=[.:) ]|\*\*)"
)


@dataclass(frozen=True)
class Cell:
    """One code cell: where it stands among all cells, its text and tags, the exercise around it."""

    index: int
    source: str
    tags: frozenset[str]
    exercise: str | None


@dataclass(frozen=True)
class Slice:
    """The cells to run, in their order; the last ones are what was asked for."""

    chapter: str
    cells: tuple[Cell, ...]

    def replaced(self, sources: Mapping[int, str]) -> "Slice":
        """Give cells another text, by index."""
        cells = (replace(cell, source=sources.get(cell.index, cell.source)) for cell in self.cells)
        return Slice(self.chapter, tuple(cells))


@dataclass(frozen=True)
class Exercise:
    """An exercise as it stands in a chapter: its starter, its check and its solution."""

    number: str
    starter: Cell
    check: Cell | None
    solution: Cell | None


def code_cells(chapter: Chapter) -> list[Cell]:
    """List a chapter's code cells, each with the number of the exercise that it belongs to."""
    return list(_code_cells(chapter, chapter.source.read_bytes()))


@cache
def _code_cells(chapter: Chapter, text: bytes) -> tuple[Cell, ...]:
    number, cells = None, []
    for index, cell in enumerate(cells_of(text.decode())):
        if cell.kind == "markdown":
            found = None
            for line in cell.source.splitlines():
                if match := NUMBER.match(line):
                    found = match.group(1)
                elif line.startswith("## "):
                    number = found = None
            number = found or number
        elif cell.kind == "code":
            cells.append(Cell(index, cell.source, cell.tags, number))
    return tuple(cells)


def claim_cells(chapter: Chapter) -> dict[str, Cell]:
    """Find the cell of each claim whose id is written out."""
    found = {}
    for cell in code_cells(chapter):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                first = node.args[0] if node.args else None
                if node.func.id == "claim" and isinstance(first, ast.Constant):
                    found[str(first.value)] = cell
    return found


def claim_cell(chapter: Chapter, name: str) -> Cell:
    """Find the cell that makes a claim."""
    found = claim_cells(chapter)
    if name not in found:
        listing = ", ".join(found) or "none"
        raise ValueError(f"{chapter.name} has no claim {name!r} written out; it has {listing}")
    return found[name]


def exercise_numbers(chapter: Chapter) -> list[str]:
    """List the exercises of the section of that name, those to be done on paper too."""
    inside, found = False, []
    for cell in cells_of(chapter.source.read_text(encoding="utf-8")):
        for line in cell.source.splitlines() if cell.kind == "markdown" else ():
            if line.startswith("## "):
                inside = line.strip("# ").casefold().startswith("exercises")
            elif inside and (match := NUMBER.match(line)):
                found.append(match.group(1))
    return found


def exercises(chapter: Chapter) -> dict[str, Exercise]:
    """Find the exercises: starter, the check that follows it, the solution where it is code.

    The check is the first cell after the starter that ends in an expression with a check in it,
    else the starter itself.
    """
    cells = code_cells(chapter)
    found: dict[str, Exercise] = {}
    for place, cell in enumerate(cells):
        if "exercise" not in cell.tags:
            continue
        if cell.exercise is None or cell.exercise in found:
            raise ValueError(
                f"{chapter.name}: every cell tagged `exercise` follows a number of its own, as in "
                f'"**3 (in code).**" or "### 3. …"; cell {cell.index} follows '
                f"{cell.exercise or 'none'} {'again' if cell.exercise else ''}"
            )
        rest = []
        for other in cells[place + 1 :]:
            if "exercise" in other.tags or other.exercise != cell.exercise:
                break
            rest.append(other)
        checks = [c for c in rest if "solution" not in c.tags and _ends_in_check(c.source)]
        solution = next((c for c in rest if "solution" in c.tags), None)
        check = checks[0] if checks else cell if _ends_in_check(cell.source) else None
        found[cell.exercise] = Exercise(cell.exercise, cell, check, solution)
    return found


def _ends_in_check(source: str) -> bool:
    body = ast.parse(source).body
    return bool(
        body
        and isinstance(body[-1], ast.Expr)
        and re.search(r"check|report", ast.unparse(body[-1]))
    )


def slice_of(chapter: Chapter, *wanted: Cell, sources: Mapping[int, str] | None = None) -> Slice:
    """Cut out the cells that these need; `sources` replaces texts of cells before the cut."""
    cells = Slice(chapter.name, tuple(code_cells(chapter))).replaced(sources or {}).cells
    all_names = _read(tuple(cell.source for cell in cells))
    read = {cell.index: names for cell, names in zip(cells, all_names, strict=True)}
    keep = {cell.index for cell in cells if "parameters" in cell.tags}
    keep |= {cell.index for cell in wanted}
    shares, later = _joined(read.values())
    changes = _changes(read)
    needed: set[str] = set()
    for cell in reversed(cells):
        names = read[cell.index]
        changed = names.binds | changes[cell.index]
        if cell.index in keep or (cell.index < max(keep) and changed & needed):
            keep.add(cell.index)
            called = _with_later(names.reads, shares, later) - names.reads - names.binds
            needed = needed - names.kills | names.uses | called
    return Slice(chapter.name, tuple(cell for cell in cells if cell.index in keep))


@lru_cache(maxsize=32)  # of a few chapters, as they are and with another text in a cell
def _read(sources: tuple[str, ...]) -> tuple[Names, ...]:
    """Read cells, each with all others in mind."""
    about = known(sources)
    return tuple(names_of(source, about) for source in sources)


def _changes(read: Mapping[int, Names]) -> dict[int, set[str]]:
    """List, by cell, the names whose objects it may change: those it touches, and those that
    share an object with one of them at this point of the chapter, in either direction."""
    held: dict[str, set[str]] = {}  # by name, what its object may be part of
    found = {}
    for index, names in read.items():
        before = {name: set() if name in names.kills else parts for name, parts in held.items()}
        for _ in range(2):  # a cell may pass an object on
            for name, parts in names.shares.items():
                more = set().union(*(held.get(part, set()) for part in parts))
                before[name] = before.get(name, set()) | parts | more
            held = before
        up = names.touches.union(*(held.get(name, set()) for name in names.touches))
        down = {name for name, parts in held.items() if parts & up} if up else set()
        found[index] = up | down
    return found


def _joined(read: Iterable[Names]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    shares: dict[str, set[str]] = {}
    later: dict[str, set[str]] = {}
    for names in read:
        for name, others in names.shares.items():
            shares.setdefault(name, set()).update(others)
        for name, others in names.later.items():
            later.setdefault(name, set()).update(others)
    return shares, later


def _with_later(
    uses: set[str], shares: dict[str, set[str]], later: dict[str, set[str]]
) -> set[str]:
    """Add what the functions among these names, or held by them, read when they are called."""
    found, waiting = set(uses), list(uses)
    while waiting:
        name = waiting.pop()
        held = {other for other in shares.get(name, ()) if other in later}
        new = (later.get(name, set()) | held) - found
        found |= new
        waiting += new
    return found


def book_chapter(root: Path, number: str) -> Chapter:
    """Find a chapter of a book by its number."""
    (chapter,) = chapters.choose(chapters.find(root), [number])
    return chapter
