"""Read a submission: the code cells of an .ipynb or .py, within limits, executing none.

A file may be anything: a picture, an empty file, a bomb. Whatever it is, this gives cells or says
in a sentence why there are none.
"""

import json
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from press.book.percent import cells_of
from press.homework.sandbox.answer import clean_text

ENDINGS = (".ipynb", ".py")
MOST_BYTES = 20_000_000
MOST_CODE = 400_000
MOST_CELLS = 2_000
LONGEST_NAME = 80
MOST_ANSWER = 20_000  # characters of a cell that a person reads


class Unreadable(Exception):
    """There is nothing to grade; the message tells the student why, and what to hand in instead.

    `status` says it in a word or two, for the table of scores.
    """

    status = "not readable"


class OtherHomework(Unreadable):
    """The file belongs to another homework: `name`, or an unknown one."""

    def __init__(self, text: str, name: str = ""):
        super().__init__(text)
        self.status = f"another homework: {name}" if name else "another homework?"


@dataclass(frozen=True)
class Submission:
    """The code cells, in order, what could not be read, and the source of cells that have an id.

    `homework` is the one that the notebook was released for, "" where it does not say.
    """

    cells: tuple[str, ...]
    problems: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    homework: str = ""


def read_submission(path: Path) -> Submission:
    """Read a notebook (nbformat 4) or a Python file; Unreadable says why it cannot be read."""
    return parse_submission(_read_bytes(path), path.suffix)


def parse_submission(raw: bytes, ending: str) -> Submission:
    """Read the bytes of a notebook or of a Python file; Unreadable says why they cannot be read."""
    text, answers, homework = _decode(raw), {}, ""
    if ending == ".py":
        # What stands before the first mark is a cell, too.
        marked = cells_of(f"# %%\n{text}")
        cells = [cell.source for cell in marked if cell.kind == "code"]
        problems: list[str] = []
    else:
        notebook = _parse_notebook(text)
        cells, problems, answers = _read_notebook_cells(notebook)
        homework = _find_homework(notebook)
    if len(cells) > MOST_CELLS:
        raise Unreadable(
            f"a submission may have at most {MOST_CELLS} code cells, but this one has "
            f"{len(cells)}; merge or remove cells"
        )
    if (size := sum(map(len, cells))) > MOST_CODE:
        raise Unreadable(
            f"the code cells may have at most {MOST_CODE} characters in total, but these have "
            f"{size}; remove data that was pasted into the code"
        )
    if not any(cell.strip() for cell in (*cells, *answers.values())):
        raise Unreadable(
            "a submission must contain code, but this file has none; save the notebook before "
            "you hand it in"
        )
    return Submission(tuple(cells), tuple(problems), answers, homework)


def name_other_homework(handed_in: Submission, homework: str) -> str:
    """Return the homework that a notebook names, if it is not `homework`, or hw1 for short."""
    name = handed_in.homework
    return "" if homework in (name, name.partition("_")[0]) else name


def check_homework(
    handed_in: Submission, homework: str, asked: Collection[str], defined: Collection[str]
) -> None:
    """Raise OtherHomework for a file that does not belong to this homework, which uses some names.

    A notebook that says so is believed, unless it defines all that is asked for: a student may
    have pasted every answer into it.
    """
    name = name_other_homework(handed_in, homework)
    if name and not set(asked) <= set(defined):
        raise OtherHomework(
            f"a submission of {homework} must be the notebook of {homework}, but this is the "
            f"notebook of {name}; hand in the right one",
            name,
        )
    unknown = not handed_in.homework and not handed_in.answers
    if unknown and asked and not set(asked) & set(defined):
        raise OtherHomework(
            f"a submission must define names that {homework} asks for, but this file defines "
            "none, so it is most likely another homework's"
        )


def _read_bytes(path: Path) -> bytes:
    if path.suffix not in ENDINGS:
        raise Unreadable(
            f"the name of a submission must end in {' or '.join(ENDINGS)}, got {path.name[-40:]!r}"
        )
    try:
        # Neither a link to another's file nor a pipe that never ends.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise Unreadable(
            f"a submission must be readable, but this file cannot be opened ({error.strerror})"
        ) from None
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable(
                "a submission must be a regular file, but this is not one; hand in the file itself"
            )
        if about.st_size > MOST_BYTES:
            raise Unreadable(
                f"a submission may have at most {MOST_BYTES // 10**6} MB, but this one has "
                f"{about.st_size / 1e6:.0f} MB; clear the outputs, save, and hand it in again"
            )
        with os.fdopen(number, "rb", closefd=False) as file:
            return file.read(MOST_BYTES)
    finally:
        os.close(number)


def _decode(raw: bytes) -> str:
    if not raw.strip():
        raise Unreadable(
            "a submission must not be empty, but this file is; save the notebook and hand it in "
            "again"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unreadable(
            "a submission must be text, but this file is not; hand in the notebook itself"
        ) from None


def _find_homework(notebook: Mapping[str, Any]) -> str:
    """Return the homework that a release wrote into the notebook; "" if there is none."""
    try:
        name = notebook["metadata"]["labkit"]["homework"]
    except (KeyError, TypeError):
        return ""
    return clean_text(name, LONGEST_NAME) if isinstance(name, str) else ""


def _parse_notebook(text: str) -> Mapping[str, Any]:
    try:
        notebook = json.loads(text)
    except RecursionError:
        raise Unreadable(
            "a notebook must not be deeply nested, but this file is; hand in the notebook itself"
        ) from None
    except ValueError:
        raise Unreadable(
            "a submission must be a complete notebook, but this file's JSON is damaged; download "
            "it again from JupyterLab and hand that in"
        ) from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise Unreadable(
            "a notebook (nbformat 4) must have cells, but this JSON file has none; hand in the "
            "notebook itself"
        )
    return notebook


def _read_notebook_cells(
    notebook: Mapping[str, Any],
) -> tuple[list[str], list[str], dict[str, str]]:
    cells: list[str] = []
    problems: list[str] = []
    answers: dict[str, str] = {}
    for number, cell in enumerate(notebook["cells"], start=1):
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
                answers[name] = clean_text(answers.get(name, "") + source, MOST_ANSWER, keep="\n")
    return cells, problems, answers
