"""Read a homework's source: a text in percent format with the tasks, the solutions and the tests.

    # %% tags=["solution:q1"]             what students write, with ### BEGIN SOLUTION … END
    # %% tags=["test:q1", "points:2"]     public checks, then ### BEGIN HIDDEN TESTS … END
    # %% tags=["variant"]                 NAME = draw.choice([…]): other numbers for each student
    # %% tags=["probe:q1"]                def probe_…(student, …), not secret, beside the submission
    # %% tags=["homework"]                HOMEWORK = {"title", "about", "packages", "minutes"}

Cells without a tag reach students as they are. What is wrong with a source is said by
labkit.homework.mistakes, all of it at once.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.book.percent import START, cells_of
from labkit.homework import regions

ROLES = ("homework", "variant", "solution", "test", "probe")
OF_A_QUESTION = ("solution", "test", "probe")


@dataclass(frozen=True)
class Cell:
    """One cell: "code" or "markdown", its text, its tags, and the number of its first line."""

    kind: str
    source: str
    tags: tuple[str, ...]
    line: int

    @property
    def role(self) -> str:
        """Say what the cell is for; "" when it is for everybody as it stands."""
        return next((r for r in ROLES for tag in self.tags if tag.partition(":")[0] == r), "")

    @property
    def question(self) -> str:
        """Name the question that a solution, a test or a probe belongs to."""
        return next(iter(self._after(OF_A_QUESTION)), "")

    @property
    def points(self) -> int | None:
        """Read the points of a test."""
        told = next(iter(self._after(("points",))), "")
        return int(told) if told.isdecimal() else None

    def _after(self, words: tuple[str, ...]) -> Iterator[str]:
        for tag in self.tags:
            word, _, rest = tag.partition(":")
            if word in words:
                yield rest


@dataclass(frozen=True)
class Question:
    """One question: its points, the cells that answer it, the cell that tests it."""

    id: str
    points: int
    solutions: tuple[Cell, ...]
    test: Cell

    @property
    def wanted(self) -> tuple[str, ...]:
        """List the names that an answer must define: those of its solution cells, at top level."""
        names = [
            name
            for cell in self.solutions
            for name in defined(regions.only(cell.source, regions.OPEN, regions.SOLUTION))
        ]
        return tuple(dict.fromkeys(names))

    @property
    def hidden(self) -> str:
        """Give the source of the hidden test."""
        return regions.only(self.test.source, regions.HIDDEN)


@dataclass(frozen=True)
class Homework:
    """A homework whose source is sound."""

    name: str
    path: Path
    title: str
    about: str
    packages: tuple[str, ...]
    minutes: int
    cells: tuple[Cell, ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        """List the questions, in the order of their tests."""
        found = []
        for test in (cell for cell in self.cells if cell.role == "test"):
            answers = [
                cell
                for cell in self.cells
                if cell.role == "solution" and cell.question == test.question
            ]
            found.append(Question(test.question, test.points or 0, tuple(answers), test))
        return tuple(found)

    @property
    def probes(self) -> str:
        """Join the probe cells."""
        return "\n\n\n".join(cell.source for cell in self.cells if cell.role == "probe")


def read(path: Path) -> Homework:
    """Read a homework; ValueError names every mistake of its source, each with its line."""
    from labkit.homework import mistakes, settings  # they need Cell

    if not path.is_file() or not re.fullmatch(r"[a-z][a-z0-9_]*\.py", path.name):
        raise ValueError(
            f"a homework's source is a file like chapters/homework/hw1_norms.py (small letters, "
            f"digits, _); got {path}{'' if path.is_file() else ', which is not there'}"
        )
    cells = cells_in(path.read_text(encoding="utf-8"))
    found = mistakes.find(cells)
    if found:
        raise ValueError("\n".join(f"{path.name}, {mistake}" for mistake in found))
    told = settings.read(cells)
    return Homework(
        name=path.stem,
        path=path,
        title=told["title"],
        about=told["about"],
        packages=tuple(told["packages"]),
        minutes=told["minutes"],
        cells=tuple(cells),
    )


def cells_in(text: str) -> list[Cell]:
    """Part a text into cells that know their lines."""
    found = []
    for cell, mark in zip(cells_of(text), START.finditer(text), strict=True):
        body = text[mark.end() :]
        blank = len(body) - len(body.lstrip("\n"))
        line = text.count("\n", 0, mark.end()) + 1 + blank
        found.append(Cell(cell.kind, cell.source, tuple(sorted(cell.tags)), line))
    return found


def defined(source: str) -> list[str]:
    """List the names of functions, classes and simple assignments at the top level of a source."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            targets = [
                each
                for target in node.targets
                for each in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])
            ]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
    return names
