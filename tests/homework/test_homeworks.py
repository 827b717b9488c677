"""Each homework, released and graded: the reference, the unedited notebook, wrong ones.

The wrong solutions are in wrong/hwN.py, right ones that are not the reference in right/hwN.py;
every submission has a student's own numbers. Wrong ones are graded as it really is: definitions, a
sandbox, the private tests.
"""

import json
import runpy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from press.homework import notebook, source
from press.homework.definitions import read_definitions
from press.homework.draw import Draw
from press.homework.grading.grade import Grader, grade_submission
from press.homework.grading.private_test import run_private_test
from press.homework.private import Private
from press.homework.regions import hide_solutions, keep_solutions
from press.homework.release import draft_private, write_release
from press.homework.sandbox import Answer, Sandbox
from press.homework.source import Homework
from press.homework.trusted import Trusted
from press.homework.variants import draw_variants

HERE = Path(__file__).parent
SOURCES = sorted((HERE.parents[1] / "chapters" / "homework").glob("hw*.py"))


def handed_out(
    homework: Homework, private: Private, student: str, part: Callable[[str, str], str]
) -> list[dict[str, Any]]:
    """Return the cells of a student's notebook, with stubs or with the reference solution."""
    numbers = draw_variants(private, student)
    return json.loads(notebook.write_notebook(homework, numbers, student, part))["cells"]


def replaced(cells: list[dict[str, Any]], answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the cells with other answers: code instead of the reference, or edits of it.

    Code stands in the question's first cell, and its others are empty; an edit is a pair of texts,
    (what stands there once, what replaces it).
    """
    for question, answer in answers.items():
        mine = [cell for cell in cells if _is_answer(cell, question)]
        if isinstance(answer, str):
            texts = [answer, *("" for _ in mine[1:])]
        else:
            texts = ["".join(cell["source"]) for cell in mine]
            for old, new in answer:
                assert sum(text.count(old) for text in texts) == 1, f"{question}: {old!r}"
                texts = [text.replace(old, new) for text in texts]
        for cell, text in zip(mine, texts, strict=True):
            cell["source"] = text
    return cells


def _is_answer(cell: Mapping[str, Any], question: str) -> bool:
    about = cell["metadata"].get("nbgrader", {})
    return bool(about.get("solution")) and about["grade_id"].partition("-")[0] == question


def submissions(
    homework: Homework, private: Private, wrong: tuple[dict[str, Any], ...]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Return the cells of each submission, by its name, which is also the student's."""
    yield "reference", handed_out(homework, private, "reference", keep_solutions)
    yield "untouched", handed_out(homework, private, "untouched", hide_solutions)
    for number, each in enumerate(wrong):
        name = f"wrong-{number}"
        yield name, replaced(handed_out(homework, private, name, keep_solutions), each["replace"])


@pytest.mark.slow
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_each_solution_gets_the_points_and_words_it_deserves(path, tmp_path):
    wrong = runpy.run_path(str(HERE / "wrong" / f"{path.stem.partition('_')[0]}.py"))["WRONG"]
    homework = source.read_homework(path)
    names = ("reference", "untouched", *(f"wrong-{number}" for number in range(len(wrong))))
    private = replace(write_release(path, tmp_path / "release").private, students=names)
    most = {question.id: question.points for question in private.questions}
    results = {}
    with Sandbox(packages=private.packages) as sandbox:
        for name, cells in submissions(homework, private, wrong):
            file = tmp_path / f"{name}.ipynb"
            file.write_text(
                json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})
            )
            results[name] = grade_submission(file, name, sandbox, Grader(private, ""))

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
    assert {each["failure"] for each in results["untouched"]["questions"]} == {"not begun"}
    assert set(told(results["untouched"])) == {
        "Not begun: the line that you must replace is still there."
    }


def told(result: Mapping[str, Any], question: str | None = None) -> list[str]:
    """Return the messages to a student, for one question or for all."""
    return [
        part["says"]
        for each in result["questions"]
        if question in (None, each["id"])
        for part in each["parts"]
        if part["says"]
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_a_homework_has_points_questions_and_wrong_solutions_enough(path):
    homework = source.read_homework(path)
    wrong = runpy.run_path(str(HERE / "wrong" / f"{path.stem.partition('_')[0]}.py"))["WRONG"]
    points = {question.id: question.points for question in homework.questions}
    assert 4 <= len(points) <= 7 and 10 <= sum(points.values()) <= 22
    missed = [{q for q in each["points"] if each["points"][q] < points[q]} for each in wrong]
    assert [set(each["says"]) for each in wrong] == missed
    assert len(wrong) >= 2 and set.union(*missed) == set(points), "each question is missed by one"


class Odd:
    """A student whose every answer is the same odd value."""

    def __init__(self, value: Any):
        self.answer = Answer(value)

    def call(self, name: str, *args: Any, **kwargs: Any) -> Answer:
        return self.answer

    probe = call


ODD = {
    "nothing": None,
    "a word": "0.5",
    "a bool": True,
    "a huge number": 10**400,
    "not a number": float("nan"),
    "no items": [],
    "many items": [[[], None], "x", -1],
    "a dict": {"first": None, "trained": "x"},
    "a number in a tensor": torch.tensor(0.25),
    "NaN": torch.full((3, 5), torch.nan),
    "no entries": torch.zeros(0, 4),
    "complex": torch.ones(2, 2, dtype=torch.complex64),
    "bools": torch.ones(4, 4, dtype=torch.bool),
    "pairs": (torch.zeros(2, 3), torch.zeros(3, 2)),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_an_odd_answer_earns_nothing_and_breaks_no_test(path, value):
    homework = source.read_homework(path)
    numbers = draw_variants(draft_private(homework), "")
    for question in homework.questions:
        found = run_private_test(question.hidden, question.id, Odd(value), Draw("odd"), numbers)
        assert sum(part.points for part in found) == question.points
        assert [part.name for part in found if part.verdict.ok] == []
        assert all(part.message for part in found), "a student would not know what is missing"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_students_have_numbers_of_their_own_and_a_test_asks_for_them(path):
    homework = source.read_homework(path)
    private = draft_private(homework)
    class_of_ten = [draw_variants(private, f"student-{number}") for number in range(10)]
    assert len({json.dumps(numbers) for numbers in class_of_ten}) > 3
    asked = "".join(question.hidden for question in homework.questions)
    assert any(f'given["{name}"]' in asked for name in private.variants)


RIGHT = [
    pytest.param(path, each["replace"], id=f"{path.stem[:3]}, {each['name']}")
    for path in SOURCES
    for each in runpy.run_path(str(HERE / "right" / f"{path.stem[:3]}.py"))["RIGHT"]
]


@pytest.mark.parametrize(("path", "answers"), RIGHT)
def test_another_right_solution_earns_every_point(path, answers):
    """A grader can be strict and still accept other right solutions."""
    homework = source.read_homework(path)
    private = draft_private(homework)
    cells = replaced(handed_out(homework, private, "a student", keep_solutions), answers)
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    student = Trusted(
        read_definitions(code).build_program().text, homework.probes, homework.packages
    )
    numbers = draw_variants(private, "a student")
    lost = {
        f"{question.id}, {part.name}": part.message
        for question in homework.questions
        for part in run_private_test(
            question.hidden, question.id, student, Draw(question.id), numbers
        )
        if not part.verdict.ok
    }
    assert lost == {}
