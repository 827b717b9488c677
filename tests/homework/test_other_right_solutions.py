"""A strict grader is not a narrow one: right solutions that are not the reference earn all.

They are in right/hwN.py, and run here as a release runs the reference.
"""

import runpy
from pathlib import Path

import pytest

from press.homework import notebook, source, variants
from press.homework.definitions import read
from press.homework.draw import Draw
from press.homework.grading.examine import parts
from press.homework.regions import for_key
from press.homework.trusted import Trusted

HERE = Path(__file__).parent
SOURCES = {
    path.stem.partition("_")[0]: path
    for path in sorted((HERE.parents[1] / "chapters" / "homework").glob("hw*.py"))
}
RIGHT = [
    pytest.param(path.stem, each["replace"], id=f"{path.stem}, {each['name']}")
    for path in sorted((HERE / "right").glob("hw*.py"))
    for each in runpy.run_path(str(path))["RIGHT"]
]


def numbers(homework: source.Homework) -> dict[str, object]:
    """A student's numbers."""
    return {
        name: variants.value_of(text, variants.Stream("a student", name))
        for cell in homework.cells
        if cell.role == "variant"
        for name, text in variants.sources(cell.source).items()
    }


@pytest.mark.parametrize("name, answers", RIGHT)
def test_another_right_solution_earns_every_point(name, answers):
    homework = source.read(SOURCES[name])
    given = numbers(homework)
    cells = [
        answers.get(cell.question) or notebook.text_of(homework, cell, given, for_key)
        if cell.role == "solution"
        else notebook.text_of(homework, cell, given, for_key)
        for cell in homework.cells
        if cell.kind == "code" and cell.role in ("", "variant", "solution")
    ]
    student = Trusted(read(cells).program().text, homework.probes, homework.packages)
    lost = {
        f"{question.id}, {part.name}": part.message
        for question in homework.questions
        for part in parts(question.hidden, question.id, student, Draw(question.id), given)
        if not part.verdict.ok
    }
    assert lost == {}
