"""What one cell of a chapter needs, and what comes out when only that is run."""

import pytest

from labkit.book.alone import execute
from labkit.book.slices import (
    book_chapter,
    claim_cell,
    claim_cells,
    code_cells,
    exercise_numbers,
    exercises,
    slice_of,
)
from tests.toy_book import make_book

HEAD = """# %% tags=["parameters"]
profile = "cpu"
seed = 0

# %%
import torch
from labkit import check
from labkit.experiments import claim
"""


def chapter(tmp_path, *cells):
    text = HEAD + "".join(
        cell if cell.startswith("\n# %%") else f"\n# %%\n{cell}" for cell in cells
    )
    return book_chapter(make_book(tmp_path / "book", c01_toy=text), "01")


def kept(found, wanted=-1):
    """Say which of the chapter's own cells the slice of one holds, counted after the head."""
    cells = code_cells(found)
    part = slice_of(found, cells[wanted])
    assert part.cells[0].index == 0, "the parameters are always there"
    place = {cell.index: i for i, cell in enumerate(cells)}
    return [place[cell.index] - 2 for cell in part.cells if place[cell.index] >= 2]


@pytest.mark.parametrize(
    "cells, wanted",
    [
        pytest.param(["a = 1", "b = 2", "c = a"], [0, 2], id="what is not read stays out"),
        pytest.param(["a = 1", "a = 2", "c = a"], [1, 2], id="the last definition counts"),
        pytest.param(["a = 1", "if seed:\n    a = 2", "c = a"], [0, 1, 2], id="perhaps is both"),
        pytest.param(["a = 1", "a += 1", "c = a"], [0, 1, 2], id="augmented"),
        pytest.param(["a = []", "a.append(1)", "c = a"], [0, 1, 2], id="append"),
        pytest.param(["a = []", "len(a)", "c = a"], [0, 2], id="a look is no change"),
        pytest.param(["a = {}", "a['x'] = 1", "c = a"], [0, 1, 2], id="part"),
        pytest.param(
            ["a = torch.ones(2)", "b = a[0:1]", "b.zero_()", "c = a"], [0, 1, 2, 3], id="a view"
        ),
        pytest.param(
            ["m = torch.nn.Linear(2, 2)", "for p in m.parameters():\n    p.data = 0", "c = m"],
            [0, 1, 2],
            id="a loop over its parts",
        ),
        pytest.param(
            ["m = torch.nn.BatchNorm1d(2)", "m(torch.ones(3, 2))", "c = m"],
            [0, 1, 2],
            id="a module that is called has a state",
        ),
        pytest.param(
            ["from labkit import train", "m = 1", "n = 2", "train(m)", "train(n)", "c = m"],
            [0, 1, 3, 5],
            id="a stranger may change its arguments",
        ),
        pytest.param(
            [
                "def f(x):\n    x.append(1)",
                "a = []",
                "def g(x): return len(x)",
                "g(a)",
                "f(a)",
                "a",
            ],
            [0, 1, 4, 5],
            id="functions of the chapter are looked into",
        ),
        pytest.param(
            ["def f(): return n", "n = 3", "n = 4", "c = f()"],
            [0, 2, 3],
            id="a function's globals count where it is called",
        ),
        pytest.param(
            ["n = 3", "f = lambda x: x + n", "d = {'f': f}", "c = d['f'](1)"],
            [0, 1, 2, 3],
            id="a function in a dictionary",
        ),
        pytest.param(
            ["x = 5", "y = [x for x in range(3)]", "c = y"],
            [1, 2],
            id="inner variables are not ours",
        ),
        pytest.param(
            ["for n in range(3): pass", "for n in range(2):\n    c = n"],
            [1],
            id="a loop's variable",
        ),
        pytest.param(
            [
                "n = 1",
                "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    b = n\n    c = b",
                "c",
            ],
            [0, 1, 2],
            id="a handler",
        ),
        pytest.param(
            ["import io", "n = 1", "with io.StringIO() as n:\n    pass", "c = n"],
            [0, 2, 3],
            id="a block that is held open",
        ),
        pytest.param(
            [
                "d = 1",
                "match d:\n    case [a, *b]:\n        d = 2\n    case x:\n        y = x",
                "y",
            ],
            [0, 1, 2],
            id="cases",
        ),
        pytest.param(["input = 1", "input = 2", "c = input"], [1, 2], id="a builtin's name"),
        pytest.param(
            ["n = 0", "def f():\n    global n\n    n = 1", "f()", "c = n"],
            [0, 1, 2, 3],
            id="a global",
        ),
        pytest.param(
            ["torch.manual_seed(1)", "torch.manual_seed(2)", "x = torch.randn(2)", "c = x"],
            [1, 2, 3],
            id="the last seed counts",
        ),
    ],
)
def test_a_slice_holds_what_its_cell_needs(tmp_path, cells, wanted):
    assert kept(chapter(tmp_path, *cells)) == wanted


def test_claims_are_found_by_their_ids(tmp_path):
    found = chapter(tmp_path, 'claim("01-a", "…", 1)', "a = 1", 'b = claim(\n    "01-b", "…", a)')
    assert list(claim_cells(found)) == ["01-a", "01-b"]
    with pytest.raises(ValueError, match=r"01_toy has no claim '01-c' written out; it has 01-a, "):
        claim_cell(found, "01-c")


EXERCISES = '''
# %% [markdown]
r"""
## Exercises

**1 (by hand).** How much is it?
"""

# %% tags=["exercise"]
yours = ...

# %%
check.answer(yours, 3.5, name="1", hint="add")

# %% [markdown]
r"""
### 2. In code
"""

# %% tags=["exercise"]
def double(x):
    return ...

# %%
def checked(function):
    return check.answer(function(2), 4, name="2", hint="twice")


checked(double).summary

# %% tags=["solution"]
def solved(x):
    return 2 * x


assert checked(solved).ok

# %% [markdown]
r"""
**3 (open).** Think.
"""

# %% tags=["exercise"]
prediction = ...

# %% [markdown]
r"""
## What you now know
"""

# %%
unrelated = 1
'''


PAPER = '''
# %% [markdown]
r"""
## Elsewhere

**4.** A numbered paragraph is no exercise.
"""
'''


def test_exercises_have_their_number_check_and_solution(tmp_path):
    found = exercises(chapter(tmp_path, EXERCISES))
    assert list(found) == ["1", "2", "3"]
    assert exercise_numbers(chapter(tmp_path / "b", EXERCISES + PAPER)) == ["1", "2", "3"]
    assert found["1"].check and "check.answer" in found["1"].check.source
    assert found["1"].solution is None and found["3"].check is None
    assert found["2"].solution and "assert" in found["2"].solution.source


def test_an_exercise_without_a_number_of_its_own_is_refused(tmp_path):
    twice = EXERCISES.replace("### 2. In code", "More.")
    with pytest.raises(ValueError, match=r"follows a number of its own.*follows 1 again"):
        exercises(chapter(tmp_path, twice))


def test_slices_run_apart_and_hand_back_claims_reports_and_errors(tmp_path):
    told = 'claim("01-n", "{mean}", n, source="s", criterion="> 2", kind="exact")'
    found = chapter(tmp_path, "n = 1", "n = n + seed + 2", told, "1 / 0", EXERCISES)
    at = exercises(found)
    cells = code_cells(found)
    made = slice_of(found, claim_cell(found, "01-n"))
    assert at["1"].check and at["2"].check
    by_hand, in_code = slice_of(found, at["1"].check), slice_of(found, at["2"].check)
    outcomes = execute(
        [
            made,
            made.replaced({cells[3].index: "n = 0"}),
            slice_of(found, cells[5]),
            by_hand,
            by_hand.replaced({at["1"].starter.index: "yours = 3.5"}),
            in_code,
        ],
        tmp_path / "book",
        size="smoke",
        seed=5,
    )
    claims = [outcome.claims.get("01-n", {}).get("verdict") for outcome in outcomes[:2]]
    assert claims == ["holds", "contradicted"]
    assert outcomes[0].claims["01-n"]["values"] == [8.0], "seed 5 was given"
    assert outcomes[2].error.startswith("ZeroDivisionError") and outcomes[2].cell == cells[5].index
    assert [outcome.error for outcome in outcomes[3:]] == ["", "", ""]
    said = [outcome.reports[-1] for outcome in outcomes[3:]]
    assert [report.ok for report in said] == [False, True, False]
    assert "not answered yet" in said[0].text
    assert "not answered yet" in said[2].text, "a line of a report is as good as the report"


@pytest.mark.parametrize("engine", [None, "processes"])
def test_slices_train_in_their_own_process_unless_told_otherwise(tmp_path, monkeypatch, engine):
    monkeypatch.delenv("LABKIT_ENGINE", raising=False)
    if engine:
        monkeypatch.setenv("LABKIT_ENGINE", engine)
    asks = 'import os\ncheck.answer(os.environ["LABKIT_ENGINE"] == "serial", True)'
    found = chapter(tmp_path, asks)
    (outcome,) = execute([slice_of(found, code_cells(found)[-1])], tmp_path / "book", profile="cpu")
    assert outcome.reports[0].ok == (engine is None), outcome


def test_a_slice_that_kills_its_process_harms_no_other(tmp_path):
    found = chapter(tmp_path, "import os", "os._exit(3)", 'print("fine")\ncheck.answer(1, 1)')
    cells = code_cells(found)
    slices = [slice_of(found, cell) for cell in cells[3:5]]
    died, fine = execute(slices, tmp_path / "book", profile="cpu")
    assert "it ended" in died.error
    assert fine.reports[0].ok


def test_cells_that_slices_begin_with_run_once_and_what_follows_sees_no_other_slice(tmp_path):
    log = tmp_path / "log"
    begin = f"n = [1]\nwith open({str(log)!r}, 'a') as file:\n    print('begun', file=file)"
    found = chapter(tmp_path, begin, "n.append(2)\ncheck.answer(n, [1, 2])")
    cell = code_cells(found)[-1]
    part = slice_of(found, cell)
    other = part.replaced({cell.index: "n.append(3)\ncheck.answer(n, [1, 3])"})
    outcomes = execute([part, other, part], tmp_path / "book", profile="cpu")
    assert [outcome.reports[0].ok for outcome in outcomes] == [True, True, True]
    assert log.read_text() == "begun\n"
