"""Rehearse a homework before its release: run the key and the unedited notebook here.

The key's public checks pass and its hidden tests give the points of each tag; the untouched
notebook runs without a traceback in any check and earns nothing.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.check.public import checks_passed, out_of_time
from press.homework import notebook
from press.homework.cells import Cell
from press.homework.definitions import read_definitions
from press.homework.grading.grade import list_asked_names, make_draw
from press.homework.grading.private_test import Faulty, run_private_test
from press.homework.private import Private, Question, RubricPart
from press.homework.regions import hide_solutions, keep_solutions
from press.homework.source import Homework
from press.homework.trusted import Trusted, execute_cell
from press.homework.verdicts import Part


@dataclass(frozen=True)
class Rehearsal:
    """The results of a rehearsal: the rubric's parts, errors that prevent a release, warnings."""

    parts: tuple[RubricPart, ...]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]


def rehearse_homework(
    homework: Homework, private: Private, variants: Sequence[Mapping[str, Any]]
) -> Rehearsal:
    """Run a homework with the numbers of each variant; the rubric is that of the first."""
    # As in a worker: kernels are interpreted. Triton reads this when it is first imported.
    os.environ.setdefault("TRITON_INTERPRET", "1")
    rubric: list[RubricPart] = []
    warnings: list[str] = []
    for number, given in enumerate(variants):
        key, stubs = (
            _list_code(homework, given, keep_solutions),
            _list_code(homework, given, hide_solutions),
        )
        faults, told = _run_key(homework, key)
        warnings += told
        if number == 0:
            untouched, told = _run_untouched(homework, stubs)
            faults, warnings = faults + untouched, warnings + told
        for one, asked in zip(private.questions, homework.questions, strict=True):
            if asked.by_hand:
                continue
            line = asked.test.line
            found, wrong = _check_points(private, one, line, list(key.values()), given)
            faults += wrong or _check_stubs(private, one, line, list(stubs.values()), given)
            rubric += found if number == 0 else []
        if faults:  # other numbers would mostly say the same again
            numbers = f" (numbers: {dict(given)})" if number else ""
            return Rehearsal((), tuple(fault + numbers for fault in faults), ())
    return Rehearsal(tuple(rubric), (), tuple(dict.fromkeys(warnings)))


def _list_code(
    homework: Homework, given: Mapping[str, Any], part: Callable[[str, str], str]
) -> dict[Cell, str]:
    """Return the code cells of a notebook."""
    return {
        cell: notebook.write_cell(homework, cell, given, part)
        for cell in homework.cells
        if cell.kind == "code"
    }


def _run_cells(
    name: str, texts: Mapping[Cell, str], namespace: dict[str, Any]
) -> Iterator[tuple[Cell, str, Exception | None]]:
    """Run the cells in order: return each cell, its output, and the error it raised."""
    for cell, text in texts.items():
        try:
            yield cell, execute_cell(text, f"{name}, line {cell.line}", namespace), None
        except Exception as error:
            yield cell, "", error


def _run_key(homework: Homework, texts: Mapping[Cell, str]) -> tuple[list[str], list[str]]:
    """Run the key; report cells that fail and public checks that do not pass: errors, warnings."""
    faults, warnings, namespace = [], [], {}
    for cell, printed, error in _run_cells(f"{homework.name} key", texts, namespace):
        where = f"line {cell.line}: "
        if error is not None:
            # What follows would fail for the same cause.
            fault = f"{where}the key must run, but this cell raised {_describe_error(error)}"
            return [*faults, fault], warnings
        if cell.role != "test" or checks_passed(printed, cell.question):
            continue
        if out_of_time(printed):  # a second chance
            printed = execute_cell(texts[cell], f"{homework.name} key again", namespace)
        if out_of_time(printed):
            warnings.append(
                f"{where}the public checks of {cell.question} ran out of time on the key, so it "
                "is not known whether they pass; release again when the machine is less busy"
            )
        elif not checks_passed(printed, cell.question):
            faults.append(
                f"{where}the public checks of {cell.question} must pass on the key, but they "
                f"say: {printed.strip() or 'nothing'}"
            )
    return faults, warnings


def _run_untouched(homework: Homework, texts: Mapping[Cell, str]) -> tuple[list[str], list[str]]:
    """Run the notebook as it is distributed: errors, and warnings."""
    faults, warnings = [], []
    for cell, printed, error in _run_cells(f"{homework.name} untouched", texts, {}):
        where = f"line {cell.line}: "
        if error is not None and cell.role == "test":
            faults.append(
                f"{where}on the untouched notebook the checks of {cell.question} raise "
                f"{_describe_error(error)}; pass functions to public(), as in lambda: …"
            )
        elif error is not None and not isinstance(error, NotImplementedError | NameError):
            faults.append(
                f"{where}in the untouched notebook this cell raises {_describe_error(error)}; a "
                "cell that uses an answer must do without it, or leave it at NotImplementedError"
            )
        elif cell.role == "test" and checks_passed(printed, cell.question):
            warnings.append(
                f"{where}the public checks of {cell.question} pass on the untouched notebook"
            )
    return faults, warnings


def _check_points(
    private: Private, one: Question, line: int, cells: Sequence[str], given: Mapping[str, Any]
) -> tuple[list[RubricPart], list[str]]:
    """Test the reference solution: return the parts of the rubric, and what is wrong with them."""
    where = f"line {line}: "
    try:
        found = _examine_cells(private, one, cells, given)
    except Faulty as error:
        return [], [f"{where}on the key, {error}"]
    faults = [
        f"{where}part {part.name!r} of {one.id} fails on the key: {part.message}"
        for part in found
        if not part.verdict.ok
    ]
    total = sum(part.points for part in found)
    if abs(total - one.points) > 1e-6:
        faults.append(
            f"{where}{one.id} is tagged points:{one.points}, but its parts add up to {total:g}; "
            "change the tag or a part"
        )
    return [RubricPart(one.id, part.name, part.points, part.says) for part in found], faults


def _check_stubs(
    private: Private, one: Question, line: int, cells: Sequence[str], given: Mapping[str, Any]
) -> list[str]:
    """Check that the stubs earn no points."""
    where = f"line {line}: "
    try:
        found = _examine_cells(private, one, cells, given)
    except Faulty as error:
        return [f"{where}where nothing is answered yet, {error}; it must accept a failed answer"]
    return [
        f"{where}part {part.name!r} of {one.id} is earned by the untouched notebook; make it "
        "fail when the answer is missing"
        for part in found
        if part.verdict.ok and part.points
    ]


def _examine_cells(
    private: Private, one: Question, cells: Sequence[str], given: Mapping[str, Any]
) -> list[Part]:
    """Examine trusted cells in the same way as the grader examines a submission."""
    program = read_definitions(cells).build_program(list_asked_names(one, private.probes))
    student = Trusted(program.text, private.probes, private.packages)
    return run_private_test(one.test, one.id, student, make_draw(private, one), given)


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
