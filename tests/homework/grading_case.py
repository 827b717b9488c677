"""A homework of two questions for the tests of grading, with submissions."""

import io
import zipfile
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

from press.homework.grading.digests import Grader
from press.homework.grading.grade import grade_submission
from press.homework.private import Private, Question, RubricPart, load_private
from press.homework.trusted import Trusted

NAME = "hw8_small"

RMS = """def rms_norm(x, eps=EPS):
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps)
"""
SHARES = """def shares(counts):
    whole = total(counts)
    return [count / whole for count in counts]
"""
TOTAL = "def total(counts):\n    return sum(counts)\n"
CELLS = ("import torch\n", "EPS = 0.5\n", RMS, TOTAL, SHARES)

TEST_1 = """def rms(x, eps):
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps)


def test_q1(student, draw, given):
    x = draw.normal(3, 8)
    got = student.call("rms_norm", x, eps=0.25)
    yield part("values", 2, close(got, rms(x, 0.25)), says="Is the mean over the last axis?")
    default = student.call("rms_norm", x)
    yield part("default", 1, close(default, rms(x, given["EPS"])), says="Is eps yours?")
"""
TEST_2 = """def test_q2(student, draw, given):
    counts = [draw.integers(1, 90) for _ in range(4)]
    got = student.call("shares", counts)
    yield part("shares", 1, close(got, [c / sum(counts) for c in counts]), says="A share of all.")
    yield part("one", 1, holds(got, lambda v: abs(sum(v) - 1) < 1e-6), says="They add up to 1.")
"""
RUBRIC = (("q1", "values", 2), ("q1", "default", 1), ("q2", "shares", 1), ("q2", "one", 1))


def private(**changes) -> Private:
    """Return the private half; `test_q1=` or `test_q2=` replaces a test."""
    tests = {"q1": changes.pop("test_q1", TEST_1), "q2": changes.pop("test_q2", TEST_2)}
    told = {
        "homework": NAME,
        "title": "A small homework",
        "packages": ("torch", "math"),
        "questions": (
            Question("q1", 3, tests["q1"], ("rms_norm",)),
            Question("q2", 2, tests["q2"], ("shares",)),
        ),
        "probes": "",
        "variants": {"EPS": "draw.choice([0.5])"},
        "rubric": tuple(RubricPart(q, name, points, "") for q, name, points in RUBRIC),
        "seed": 3,
        "students": (),
        **changes,
    }
    return Private(**told).seal()


def released(folder: Path, **changes) -> Path:
    """Write the private half of a release to folder/release."""
    path = folder / "release" / "private" / f"{NAME}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(private(**changes).to_json(), encoding="utf-8")
    return path


def notebook(cells=CELLS, **about: str) -> str:
    """Return a notebook of code cells, as JSON; `about` is what a release writes into it."""
    made = [new_code_cell(cell, id=f"cell-{number}") for number, cell in enumerate(cells)]
    return nbformat.writes(new_notebook(cells=made, metadata={"labkit": about}))


def write(folder: Path, student: str, cells=CELLS, **about: str) -> Path:
    """Write a student's notebook to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{student}.ipynb"
    path.write_text(notebook(cells, **about), encoding="utf-8")
    return path


def zipped(members: Mapping[str, bytes | str], compression=zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of files."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


class InProcess:
    """Unconfined workers, for submissions that these tests wrote themselves."""

    @contextmanager
    def open_worker(self, program, probes=""):
        yield Trusted(program, probes, ("torch", "math"))


def graded(path: Path, student="ann", homework=None, before=None, code="1"):
    """Return the result of a file, with the student's code run in this process."""
    grader = Grader(homework or private(), code)
    return grade_submission(path, student, InProcess(), grader, before)


def points(result) -> dict[str, float]:
    """Return the points by question."""
    return {each["id"]: each["points"] for each in result["questions"]}


def says(result) -> str:
    """Return all messages to a student as one string."""
    told = [part["says"] for each in result["questions"] for part in each["parts"]]
    return "\n".join([*result["problems"], *told])


def in_process(tasks, _, settings, *__):
    """Return examiners that grade in this process."""
    homework = load_private(Path(settings["private"]))
    for task in tasks:
        yield task, graded(Path(task["path"]), task["student"], homework), ""
