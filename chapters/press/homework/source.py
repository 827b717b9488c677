"""Read a homework's source: a percent-format file with tasks, solutions and tests.

    # %% tags=["solution:q1"]             what students write, with ### BEGIN SOLUTION … END
    # %% tags=["test:q1", "points:2"]     public checks, then ### BEGIN HIDDEN TESTS … END
    # %% [markdown] tags=["answer:q2", "points:3"]      marked by hand; a model answer in a region
    # %% tags=["variant"]                 NAME = draw.choice([…]): other numbers for each student
    # %% tags=["probe:q1"]                def probe_…(student, …), not secret, beside the submission
    # %% tags=["homework"]                HOMEWORK = {"title", "about", "packages", "minutes"}

Cells without a tag reach students as they are. A hidden test may use what the hidden tests above it
define. What is wrong with a source is said by press.homework.mistakes, all of it at once.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from press.homework import mistakes, regions, settings, variants
from press.homework.cells import WITH_POINTS, Cell, read_cells
from press.homework.definitions import read_definitions
from press.homework.statements import list_defined


@dataclass(frozen=True)
class Question:
    """One question: its points, the cells that answer it, the cell that tests it.

    `hidden` is the source of the hidden test, with what it uses of those above it. Of a question
    that is marked by hand, `test` is the cell with the answer.
    """

    id: str
    points: int
    solutions: tuple[Cell, ...]
    test: Cell
    hidden: str

    @property
    def by_hand(self) -> bool:
        """Return whether a person marks it."""
        return self.test.role == "answer"

    @property
    def wanted(self) -> tuple[str, ...]:
        """List the names that an answer must define: those of its solution cells, at top level."""
        names = [
            name
            for cell in self.solutions
            for name in list_defined(
                regions.keep_kinds(cell.source, regions.OPEN, regions.SOLUTION)
            )
        ]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Homework:
    """A homework whose source has no mistakes."""

    name: str
    path: Path
    title: str
    about: str
    packages: tuple[str, ...]
    minutes: int
    cells: tuple[Cell, ...]

    @property
    def questions(self) -> tuple[Question, ...]:
        """List the questions, in the order of their tests and of the answers marked by hand."""
        found, above = [], []
        for test in (cell for cell in self.cells if cell.role in WITH_POINTS):
            answers = [
                cell
                for cell in self.cells
                if cell.role == "solution" and cell.question == test.question
            ]
            hidden = ""
            if test.role == "test":
                above.append(regions.keep_kinds(test.source, regions.HIDDEN))
                hidden = read_definitions(above).build_program([f"test_{test.question}"]).text
            found.append(Question(test.question, test.points or 0, tuple(answers), test, hidden))
        return tuple(found)

    @property
    def variants(self) -> dict[str, str]:
        """List the draws of the variant cells by name: {NAME: "draw.choice(…)"}."""
        cells = (cell for cell in self.cells if cell.role == "variant")
        return {k: v for cell in cells for k, v in variants.read_sources(cell.source).items()}

    @property
    def probes(self) -> str:
        """Join the probe cells."""
        return "\n\n\n".join(cell.source for cell in self.cells if cell.role == "probe")


def read_homework(path: Path) -> Homework:
    """Read a homework; ValueError lists every mistake in its source, with line numbers."""
    if not path.is_file() or not re.fullmatch(r"[a-z][a-z0-9_]*\.py", path.name):
        raise ValueError(
            "a homework's source must be an existing file with a name like hw1_norms.py "
            "(lower-case letters, digits, _), got "
            f"{path}{'' if path.is_file() else ', which does not exist'}"
        )
    cells = read_cells(path.read_text(encoding="utf-8"))
    found = mistakes.find_mistakes(cells)
    if found:
        raise ValueError("\n".join(f"{path.name}, {mistake}" for mistake in found))
    told = settings.read_settings(cells)
    return Homework(
        name=path.stem,
        path=path,
        title=told["title"],
        about=told["about"],
        packages=tuple(told["packages"]),
        minutes=told["minutes"],
        cells=tuple(cells),
    )
