"""Read what a student handed in: the code cells of an .ipynb or .py, within limits, executing none.

A file may be anything: a picture, an empty file, a bomb. Whatever it is, this gives cells or says
in a sentence why there are none.
"""

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from press.homework.sandbox.answer import clean

ENDINGS = (".ipynb", ".py")
MOST_BYTES = 20_000_000
MOST_CODE = 400_000
MOST_CELLS = 2_000
MOST_ANSWER = 20_000  # characters of a cell that a person reads
CELL = re.compile(r"^# *%%(?!%)(.*)$", re.MULTILINE)


class Unreadable(Exception):
    """There are no cells; the text tells the student why, and what to hand in instead."""


@dataclass(frozen=True)
class Submission:
    """The code cells, in order, what could not be read, and the text of cells that have an id."""

    cells: tuple[str, ...]
    problems: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)


def read(path: Path) -> Submission:
    """Read a notebook (nbformat 4) or a Python file; Unreadable says why not."""
    text, answers = _text(path), {}
    if path.suffix == ".py":
        cells = _python_cells(text)
        problems: list[str] = []
    else:
        cells, problems, answers = _notebook_cells(text)
    if len(cells) > MOST_CELLS:
        raise Unreadable(f"a submission has at most {MOST_CELLS} code cells, this has {len(cells)}")
    if (size := sum(map(len, cells))) > MOST_CODE:
        raise Unreadable(
            f"the code cells hold at most {MOST_CODE} characters together, these hold {size}; "
            "take out data that was pasted into the code"
        )
    if not any(cell.strip() for cell in (*cells, *answers.values())):
        raise Unreadable("the file holds no code; was it saved before it was handed in?")
    return Submission(tuple(cells), tuple(problems), answers)


def _text(path: Path) -> str:
    if path.suffix not in ENDINGS:
        raise Unreadable(f"a submission ends in {' or '.join(ENDINGS)}, got {path.name[-40:]!r}")
    try:
        # Neither a link to another's file nor a pipe that never ends.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(f"the file cannot be opened ({error.strerror})") from None
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable("a submission is a plain file, and this is none")
        if about.st_size > MOST_BYTES:
            raise Unreadable(
                f"a submission has at most {MOST_BYTES // 10**6} MB, this has "
                f"{about.st_size / 1e6:.0f} MB; clear the outputs, save, and hand it in again"
            )
        with os.fdopen(number, "rb", closefd=False) as file:
            raw = file.read(MOST_BYTES)
    finally:
        os.close(number)
    if not raw.strip():
        raise Unreadable("the file is empty; save the notebook and hand it in again")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable("the file is not text; hand in the notebook itself") from None


def _python_cells(text: str) -> list[str]:
    """Cells in percent format; a file without such marks is one cell."""
    marks = [*CELL.finditer(text)]
    if not marks:
        return [text]
    cells = [text[: marks[0].start()]]
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        if "[markdown]" not in mark[1]:
            cells.append(text[mark.end() : end])
    return cells


def _notebook_cells(text: str) -> tuple[list[str], list[str], dict[str, str]]:
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise Unreadable("the file is nested too deeply to be a notebook") from None
    except ValueError:
        raise Unreadable(
            "the file is not a whole notebook: its JSON is damaged; download it again from "
            "JupyterLab and hand that in"
        ) from None
    cells: list[str] = []
    problems: list[str] = []
    answers: dict[str, str] = {}
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(found, list):
        raise Unreadable("the file is JSON, but no notebook (nbformat 4): it has no cells")
    for number, cell in enumerate(found, start=1):
        source = cell.get("source", "") if isinstance(cell, dict) else None
        if isinstance(source, list) and all(isinstance(line, str) for line in source):
            source = "".join(source)
        code = isinstance(cell, dict) and cell.get("cell_type") == "code"
        if not isinstance(cell, dict) or (code and not isinstance(source, str)):
            problems.append(f"cell {number} of the file is damaged and was left out")
        elif isinstance(source, str):
            cells += [source] if code else []
            try:  # what nbgrader calls the cell, if it is one that was handed out
                name = cell["metadata"]["nbgrader"]["grade_id"]
            except (KeyError, TypeError):
                continue
            if isinstance(name, str):
                answers[name] = clean(answers.get(name, "") + source, MOST_ANSWER, keep="\n")
    return cells, problems, answers
