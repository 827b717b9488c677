"""The course's homeworks, released: students' files contain no solution and no hidden test.

The byte search here reads the sources by itself, line by line, and plants a canary in every region.
"""

import asyncio
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from labkit.check.public import out_of_time
from press.book.execute import manage_kernel
from press.homework import leaks, notebook, source, variants
from press.homework.regions import hide_solutions, keep_solutions
from press.homework.release import draft_private, write_release
from tests.homework.release_toy import files_of

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "chapters" / "homework").glob("hw*.py"))
HOMEWORK = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
CANARY = "canary_7f3a_"
STUDENTS = ("ada", "bob")


def regions_of(text):
    """List the lines of each region as (kind, number, line), without the markers."""
    found, kind = [], ""
    for number, line in enumerate(text.split("\n"), start=1):
        mark = re.match(r"\s*### (BEGIN|END) (SOLUTION|HIDDEN TESTS)", line)
        if mark:
            kind = mark[2] if mark[1] == "BEGIN" else ""
        elif kind:
            found.append((kind, number, line.strip()))
    return found


def with_canaries(path, folder):
    """Copy a homework with an additional comment in every region."""
    lines = []
    for number, line in enumerate(path.read_text().split("\n"), start=1):
        lines.append(line)
        mark = re.match(r"(\s*)### BEGIN SOLUTION", line)
        if mark:
            lines.append(f"{mark[1]}# {CANARY}solution_{number}")
        elif line.startswith("def test_"):  # of a hidden test only its definitions are kept
            lines.append(f"    # {CANARY}hidden_{number}")
    copy = folder / path.name
    copy.write_text("\n".join(lines))
    return copy


@pytest.mark.slow
@HOMEWORK
def test_no_byte_of_a_solution_or_hidden_test_reaches_a_student(path, tmp_path):
    done = write_release(with_canaries(path, tmp_path), tmp_path / "out", STUDENTS, seed=3)
    assert done.different == len(STUDENTS)
    idle = [text for text in done.warnings if "ran out of time" not in text]
    assert idle == [], "no public check passes before anything is written"
    given_out = files_of(tmp_path / "out" / "student")
    assert sorted(given_out) == sorted(
        f"{name}/{file}" for name in STUDENTS for file in (f"{path.stem}.ipynb", "AI_ASSISTANTS.md")
    ), "text files only: nothing that could hold more than a search sees"
    everything = b"\n".join(given_out.values())
    assert CANARY.encode() not in everything
    secret = [row for row in regions_of(path.read_text()) if not leaks.is_trivial(row[2])]
    assert {kind for kind, _, _ in secret} == {"SOLUTION", "HIDDEN TESTS"}
    leaked = [
        number
        for _, number, line in secret
        if any(
            form.encode() in everything
            for form in (line, json.dumps(line)[1:-1], json.dumps(line, ensure_ascii=False)[1:-1])
        )
    ]
    assert leaked == [], "lines of the source that a student can read"
    # The search would have seen them: the canaries are where they belong.
    key = (tmp_path / f"out/key/{path.stem}.ipynb").read_text()
    private = (tmp_path / f"out/private/{path.stem}.json").read_text()
    planted = (tmp_path / path.name).read_text().count(CANARY)
    assert key.count(CANARY + "solution") + private.count(CANARY + "hidden") == planted
    assert CANARY + "hidden" not in key and CANARY + "solution" not in private


@pytest.mark.slow
def test_keys_run_in_jupyter_and_untouched_notebooks_stop_at_their_stubs_only():
    # One kernel for all ten notebooks, with its names cleared between them: torch starts once.
    together, halves = nbformat.v4.new_notebook(), []
    for path in SOURCES:
        homework = source.read_homework(path)
        values = variants.draw_variants(draft_private(homework))
        for part in (keep_solutions, hide_solutions):
            cells = nbformat.reads(
                notebook.write_notebook(homework, values, part=part), as_version=4
            ).cells
            key = part is keep_solutions
            halves.append((path.stem, key, len(together.cells) + 1, len(cells)))
            together.cells += [nbformat.v4.new_code_cell("%reset -f"), *cells]
    ran = run(together).cells
    for name, key, start, count in halves:
        for number, cell in enumerate(ran[start : start + count], start=1):
            if cell.cell_type == "code":
                said = fault(cell, key)
                assert not said, f"{name}, {'key' if key else 'untouched'}, cell {number}: {said}"


def run(together):
    """Execute a notebook to its end, even if cells raise errors."""
    for number, cell in enumerate(together.cells):
        cell.id = f"all-{number}"
    with manage_kernel() as manager:
        client = NotebookClient(together, km=manager, allow_errors=True, timeout=300)
        return asyncio.run(client.async_execute(cwd=str(ROOT), cleanup_kc=True))


def fault(cell, key):
    """Describe forbidden content in a cell's outputs."""
    about = cell.metadata.get("nbgrader", {})
    errors = [output for output in cell.outputs if output.output_type == "error"]
    printed = "".join(output.get("text", "") for output in cell.outputs)
    raised = "".join(f"it raised {error.ename}: {error.evalue}" for error in errors)
    if about.get("grade"):
        question = about["grade_id"].removeprefix("test-")
        passed = f"{question}: public checks passed" in printed.splitlines()
        # A check has seconds, and a busy machine may need more.
        right = passed == key or (key and out_of_time(printed))
        well = right and not errors and printed.startswith(f"{question}: ")
        return "" if well else f"the public checks say {printed!r} {raised}"
    allowed = () if key else ("NotImplementedError", "NameError")
    return raised if errors and errors[0].ename not in allowed else ""
