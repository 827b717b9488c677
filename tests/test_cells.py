"""A chapter's cells, claims and exercises, and the results of running the cells in order."""

import pytest

from labkit.experiments import exact
from labkit.experiments.claims import collect_claims
from press.book import chapters
from press.book.cells import claim_cells, code_cells
from press.book.chapters import find_chapter
from press.book.percent import cells_of
from tests.exercises.places import find_exercises
from tests.toy_book import REPOSITORY, make_book
from tests.trials import Trial, run_trials

HEAD = """# %% tags=["parameters"]
size = "book"
seed = 0

# %%
from labkit import TrainConfig, check
from labkit.corpora import Text
from labkit.experiments import Experiment, Lab, Run, exact
from labkit.model import ModelConfig

lab = Lab("01_toy", size=size, seed=seed)
model = ModelConfig(dim=16, depth=1, heads=2, context=8)
tiny = Run(model, Text(batch=2, time=8), TrainConfig(1))
"""
CLAIM = 'exact(n).claim("01-n", "> 2", "A sentence.", found="{mean}", source="s")'


def chapter(tmp_path, *cells):
    text = HEAD + "".join(
        cell if cell.startswith("\n# %%") else f"\n# %%\n{cell}" for cell in cells
    )
    return find_chapter(make_book(tmp_path / "book", c01_toy=text), "01")


def test_claims_are_found_by_their_ids(tmp_path):
    cells = (
        'exact(1).claim("01-a", "> 0", "…")',
        "a = exact(1)",
        'b = a.claim(\n    "01-b", "> 0", "…")',
    )
    found = chapter(tmp_path, *cells)
    assert list(claim_cells(found)) == ["01-a", "01-b"]


def test_claims_are_collected_by_each_block_around_them(capsys):
    def make(name):
        exact(1.0).claim(name, "> 0", "A sentence.", source="s")

    with collect_claims() as outer:
        make("01-a")
        with collect_claims() as inner:
            make("01-b")
    make("01-c")
    assert [made.id for made in outer] == ["01-a", "01-b"]
    assert [made.id for made in inner] == ["01-b"]
    assert capsys.readouterr().out.count("source: s") == 3, "shown as ever"


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


checked(double)

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


def test_exercises_have_their_number_check_and_solution(tmp_path):
    found = find_exercises(chapter(tmp_path, EXERCISES))
    assert list(found) == ["1", "2", "3"]
    assert found["1"].check and "check.answer" in found["1"].check.source
    assert found["1"].solution is None and found["3"].check is None
    assert found["2"].solution and "assert" in found["2"].solution.source


def test_an_exercise_without_a_number_of_its_own_is_refused(tmp_path):
    twice = EXERCISES.replace("### 2. In code", "More.")
    with pytest.raises(ValueError, match=r"follows a number of its own.*follows 1 again"):
        find_exercises(chapter(tmp_path, twice))


@pytest.mark.slow
def test_cells_run_in_order_and_a_trial_sees_and_changes_nothing_else(tmp_path):
    found = chapter(
        tmp_path, "n = [seed + 2]", "1 / 0", "n.append(1)\nn = sum(n)", CLAIM, EXERCISES
    )
    fails, change, told = (cell.index for cell in code_cells(found)[3:6])
    at = find_exercises(found)
    starter, check = at["1"].starter.index, at["1"].check.index
    trials = [
        Trial(starter, check),
        Trial(starter, check, {starter: "yours = 3.5"}),
        Trial(change, told, {change: "n.append(-9)\nn = sum(n)"}),
        Trial(fails, told, {fails: "import os\nos._exit(3)"}),
        Trial(fails, told),
    ]
    whole, tried = run_trials(found, trials, size="book", seed=5)
    blank, right, other, killed, failed = tried
    assert whole.claims["01-n"]["values"] == [8.0], "seed 5 was given, and no trial was felt"
    assert list(whole.errors) == [fails] and whole.errors[fails].startswith("ZeroDivisionError")
    assert [ok for ok, _ in whole.reports.values()] == [False, False] and whole.skipped == {}
    assert blank.reports[check][0] is False and "not answered yet" in blank.reports[check][1]
    assert right.reports[check][0] is True and list(right.reports) == [check]
    assert other.claims["01-n"]["verdict"] == "contradicted"
    assert "the trial's process ended" in killed.errors[fails]
    assert list(failed.errors) == [fails] and failed.claims == {}, "it ends where it fails"


@pytest.mark.slow
def test_cells_whose_runs_are_not_recorded_are_skipped_and_what_needs_them(tmp_path):
    asks = 'import math\n(n,) = lab.run(Experiment(tiny, {"seed": [0]})).values("test.loss")'
    also = "def twice():\n    return 2 * m"
    found = chapter(
        tmp_path, "n = m = 1", asks, f"m = 2 * n\n{CLAIM}", also, "twice()", "k", "math"
    )
    cells = [cell.index for cell in code_cells(found)[2:]]
    whole, (tried,) = run_trials(found, [Trial(*cells[1:3])], size="book", seed=0)
    assert list(whole.skipped) == [cells[1], cells[2], cells[4]]
    assert "1 of 1 runs have none; train them with: make runs ONLY=01" in whole.skipped[cells[1]]
    assert list(whole.errors) == [cells[5]], "a name that nothing makes is an error"
    assert whole.errors[cells[5]].startswith("NameError: name 'k'")
    assert list(tried.skipped) == cells[1:3] and tried.claims == whole.claims == {}
    assert not (tmp_path / "book/.labkit/runs").exists()
    trained, _ = run_trials(found, size="book", seed=0, train=True, only=cells[:5])
    assert trained.errors == trained.skipped == {} and "01-n" in trained.claims


def test_cells_are_those_that_jupytext_reads():
    for found in chapters.find_chapters(REPOSITORY):
        ours = cells_of(found.source.read_text(encoding="utf-8"))
        theirs = chapters.read_chapter(found).cells
        assert [cell.index for cell in ours] == [*range(len(theirs))]
        assert [(c.kind, c.source, sorted(c.tags)) for c in ours] == [
            (c.cell_type, c.source, sorted(c.metadata.get("tags", []))) for c in theirs
        ]
