"""Each homework, released and graded: the reference, the untouched notebook, three wrong ones.

The wrong solutions are in wrong/hwN.py; every submission has a student's own numbers. Grading is
the real one: definitions, a sandbox, the private tests.
"""

import json
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from labkit.homework import notebook, source
from labkit.homework.grading.grade import Grader, grade
from labkit.homework.private import Private
from labkit.homework.release import release
from labkit.homework.sandbox import Sandbox, available
from labkit.homework.source import Homework
from labkit.homework.variants import given

HERE = Path(__file__).parent
SOURCES = sorted((HERE.parents[1] / "chapters" / "homework").glob("hw*.py"))
# What is worth knowing of an instructor's machine: the strongest mode that works there.
MODE = next(mode for mode, missing in available().items() if not missing)
SECONDS = 3.0  # for a whole homework, beside starting the worker


def solved(homework: Homework, private: Private, student: str) -> list[dict[str, Any]]:
    """The cells of a student's notebook, filled in with the reference solution."""
    return json.loads(notebook.for_key(homework, given(private, student)))["cells"]


def untouched(homework: Homework, private: Private, student: str) -> list[dict[str, Any]]:
    """The cells of a student's notebook as it was handed out."""
    return json.loads(notebook.for_student(homework, given(private, student), student))["cells"]


def replaced(cells: list[dict[str, Any]], answers: Mapping[str, str]) -> list[dict[str, Any]]:
    """The cells with other answers: the first cell of a question has them, the others are empty."""
    waiting = dict(answers)
    for cell in cells:
        about = cell["metadata"].get("nbgrader", {})
        question = about.get("grade_id", "").partition("-")[0]
        if about.get("solution") and question in answers:
            cell["source"] = waiting.pop(question, "")
    assert not waiting, f"no solution cell for {sorted(waiting)}"
    return cells


def submissions(
    homework: Homework, private: Private, wrong: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each submission's name, which is its student's too, and its cells."""
    yield "reference", solved(homework, private, "reference")
    yield "untouched", untouched(homework, private, "untouched")
    for number, each in enumerate(wrong):
        name = f"wrong-{number}"
        yield name, replaced(solved(homework, private, name), each["replace"])


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_solution_gets_the_points_and_words_it_deserves(path, tmp_path):
    wrong = runpy.run_path(str(HERE / "wrong" / f"{path.stem.partition('_')[0]}.py"))["WRONG"]
    homework = source.read(path)
    names = ("reference", "untouched", *(f"wrong-{number}" for number in range(len(wrong))))
    private = replace(release(path, tmp_path / "release").private, students=names)
    most = {question.id: question.points for question in private.questions}
    results = {}
    with Sandbox(MODE, packages=private.packages) as sandbox:
        for name, cells in submissions(homework, private, wrong):
            file = tmp_path / f"{name}.ipynb"
            file.write_text(
                json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
            )
            results[name] = grade(file, name, private, sandbox, Grader(private, MODE, ""))

    points = {
        name: {question["id"]: question["points"] for question in result["questions"]}
        for name, result in results.items()
    }
    assert points == {
        "reference": most,
        "untouched": dict.fromkeys(most, 0),
        **{f"wrong-{number}": most | each["points"] for number, each in enumerate(wrong)},
    }, {name: told(result) for name, result in results.items()}
    for number, each in enumerate(wrong):
        for question, fragment in each["says"].items():
            said = told(results[f"wrong-{number}"], question)
            assert fragment in " ".join(said), f"{each['name']}, {question}: {said}"
    assert told(results["reference"]) == []


def told(result: Mapping[str, Any], question: str | None = None) -> list[str]:
    """What a student reads, of one question or of all."""
    return [
        part["says"]
        for each in result["questions"]
        if question in (None, each["id"])
        for part in each["parts"]
        if part["says"]
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_homework_has_points_questions_and_wrong_solutions_enough(path):
    homework = source.read(path)
    wrong = runpy.run_path(str(HERE / "wrong" / f"{path.stem.partition('_')[0]}.py"))["WRONG"]
    points = {question.id: question.points for question in homework.questions}
    assert 4 <= len(points) <= 7 and 10 <= sum(points.values()) <= 22
    assert len(wrong) == 3 and len({each["name"] for each in wrong}) == 3
    for each in wrong:
        assert sum((points | each["points"]).values()) < sum(points.values())
        assert set(each["says"]) == {q for q in each["points"] if each["points"][q] < points[q]}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_the_numbers_of_a_homework_differ_between_students(path, tmp_path):
    homework = source.read(path)
    cells = [cell for cell in homework.cells if cell.role == "variant"]
    assert cells, "no two students have different numbers"
    hidden = "".join(question.hidden for question in homework.questions)
    assert 'given["' in hidden, "no test asks for a student's own numbers"
