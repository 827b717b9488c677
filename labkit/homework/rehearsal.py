"""Rehearse a homework before it is released: run the key and the untouched notebook, here.

The key's public checks pass and its hidden tests give the points of each tag; the untouched
notebook runs without a traceback in any check and earns nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.homework import notebook, regions
from labkit.homework.definitions import final
from labkit.homework.draw import Draw
from labkit.homework.judge import Part
from labkit.homework.private import RubricPart
from labkit.homework.public import checks_passed
from labkit.homework.source import Cell, Homework, Question
from labkit.homework.trusted import Trusted, execute


@dataclass(frozen=True)
class Rehearsal:
    """What the runs showed: the rubric's parts, faults that forbid a release, and warnings."""

    parts: tuple[RubricPart, ...]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


def rehearse(homework: Homework, variants: Sequence[Mapping[str, Any]]) -> Rehearsal:
    """Run a homework with the numbers of each variant; the first one's parts are the rubric."""
    faults: list[str] = []
    warnings: list[str] = []
    rubric: list[RubricPart] = []
    for number, given in enumerate(variants):
        key, stubs = _texts(homework, given, regions.for_key), _texts(homework, given, _stub)
        found = list(_key(homework, key))
        if number == 0:
            untouched, passing = _untouched(homework, stubs)
            found += untouched
            warnings += passing
        for question in homework.questions:
            parts, wrong = _points(homework, question, list(key.values()), given)
            found += wrong or _stubs_earn(homework, question, list(stubs.values()), given)
            if number == 0:
                rubric += parts
        if found:
            with_numbers = f" (with {dict(given)})" if given and number else ""
            faults += [fault + with_numbers for fault in found]
            break  # other numbers would mostly say the same again
    return Rehearsal(tuple(rubric), tuple(faults), tuple(warnings))


def _stub(source: str, question: str) -> str:
    return regions.for_student(source, question)


def _texts(homework: Homework, given: Mapping[str, Any], part: Any) -> dict[Cell, str]:
    """Give the code cells of a notebook, without the settings."""
    return {
        cell: notebook.text_of(cell, given, part)
        for cell in homework.cells
        if cell.kind == "code" and cell.role != "homework"
    }


def _run(name: str, texts: Mapping[Cell, str]) -> Iterator[tuple[Cell, str, Exception | None]]:
    """Run the cells one after the other: the cell, what it printed, and the error it raised."""
    namespace: dict[str, Any] = {}
    for cell, text in texts.items():
        try:
            yield cell, execute(text, f"{name}, line {cell.line}", namespace), None
        except Exception as error:
            yield cell, "", error


def _key(homework: Homework, texts: Mapping[Cell, str]) -> Iterator[str]:
    for cell, printed, error in _run(f"{homework.name} key", texts):
        where = f"line {cell.line}: "
        if error is not None:
            yield f"{where}the key must run, but this cell raised {_told(error)}"
            return  # what follows would fail for the same cause
        if cell.role == "test" and not checks_passed(printed, cell.question):
            yield (
                f"{where}the public checks of {cell.question} must pass on the key, but they "
                f"say: {printed.strip() or 'nothing'}"
            )


def _untouched(homework: Homework, texts: Mapping[Cell, str]) -> tuple[list[str], list[str]]:
    """Run the notebook as it is handed out: faults, and warnings."""
    faults, warnings = [], []
    for cell, printed, error in _run(f"{homework.name} untouched", texts):
        where = f"line {cell.line}: "
        if error is not None and cell.role == "test":
            faults.append(
                f"{where}on the untouched notebook the checks of {cell.question} raise "
                f"{_told(error)}; hand functions to public(): lambda: …"
            )
        elif error is not None and not isinstance(error, NotImplementedError | NameError):
            faults.append(
                f"{where}in the untouched notebook this cell raises {_told(error)}; a cell that "
                "uses an answer must do without it, or leave it at NotImplementedError"
            )
        elif cell.role == "test" and checks_passed(printed, cell.question):
            warnings.append(
                f"{where}the public checks of {cell.question} pass on the untouched notebook"
            )
    return faults, warnings


def _points(
    homework: Homework, question: Question, cells: Sequence[str], given: Mapping[str, Any]
) -> tuple[list[RubricPart], list[str]]:
    """Test the reference solution: the parts of the rubric, and what is wrong with them."""
    where = f"line {question.test.line}: "
    try:
        parts = _parts(homework, question, cells, given)
    except Exception as error:
        return [], [f"{where}the hidden test of {question.id} raised {_told(error)} on the key"]
    faults = [
        f"{where}part {part.name!r} of {question.id} fails on the key: {part.message}"
        for part in parts
        if not part.verdict.ok
    ]
    total = sum(part.points for part in parts)
    if total != question.points:
        faults.append(
            f"{where}{question.id} is tagged points:{question.points}, but its parts make "
            f"{total:g}; change the tag or a part"
        )
    names = [part.name for part in parts]
    if len({*names}) < len(names):
        faults.append(f"{where}the parts of {question.id} need names of their own; got {names}")
    return [RubricPart(question.id, part.name, part.points, part.says) for part in parts], faults


def _stubs_earn(
    homework: Homework, question: Question, cells: Sequence[str], given: Mapping[str, Any]
) -> list[str]:
    where = f"line {question.test.line}: "
    try:
        parts = _parts(homework, question, cells, given)
    except Exception as error:
        return [
            f"{where}the hidden test of {question.id} raised {_told(error)} where nothing is "
            "answered yet; it must take an answer that failed"
        ]
    return [
        f"{where}part {part.name!r} of {question.id} is earned by the untouched notebook; an "
        "answer that is not there earns nothing"
        for part in parts
        if part.verdict.ok and part.points
    ]


def _parts(
    homework: Homework, question: Question, cells: Sequence[str], given: Mapping[str, Any]
) -> list[Part]:
    student = Trusted(final(cells).text, homework.probes, f"{homework.name} {question.id}")
    draw = Draw(f"{homework.name}/{question.id}/rehearsal")
    names = tools()
    execute(question.hidden, f"{homework.name} test of {question.id}", names)
    return list(names[f"test_{question.id}"](student, draw, given))


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
