"""Every exercise of the book: the starter fails, right answers pass, wrong ones get a hint.

tests/exercises/chNN.py holds a chapter's answers. A chapter runs once, in order, on its records,
and forks for each answer.
"""

import importlib
from pathlib import Path

import pytest

from press.book import chapters
from press.book.chapters import Chapter, find_chapter
from tests import exercises as answers
from tests.exercises import Exercise
from tests.exercises.places import Place, find_exercises
from tests.toy_book import HEADER, make_book
from tests.trials import Trial, Tried, run_trials

ROOT = Path(__file__).resolve().parents[1]
FEWEST, ON_A_SHELF = 3, 2
BOOK = pytest.mark.parametrize("chapter", chapters.find_chapters(ROOT), ids=lambda c: c.name)


def rows_of(chapter: Chapter) -> list[Exercise]:
    number = chapter.number
    if not (Path(answers.__file__).parent / f"ch{number}.py").is_file():
        pytest.fail(f"every chapter has its answers: write tests/exercises/ch{number}.py")
    return importlib.import_module(f"tests.exercises.ch{number}").EXERCISES


def trials_of(place: Place, row: Exercise) -> dict[str, Trial]:
    """Name each way to answer an exercise, with the cells to run for it."""
    first = place.starter.index
    if row.open_ended:
        return {"starter": Trial(first, first)}
    if place.check is None:
        pytest.fail(f"exercise {row.number} has no cell that ends in its check, nor is it open")
    given = {"starter": place.starter.source, **{f"wrong: {s}": s for s in row.wrong}}
    if row.right is not None:
        given["right"] = row.right
    trials = {name: Trial(first, place.check.index, {first: s}) for name, s in given.items()}
    if row.right is None:
        if place.solution is None or "assert" not in place.solution.source:
            pytest.fail(f"exercise {row.number} needs `right`, or a solution cell with an assert")
        trials["right"] = Trial(place.solution.index, place.solution.index)
    return trials


def faults(row: Exercise, name: str, trial: Trial, outcome: Tried) -> list[str]:
    """Return what is wrong."""
    ok, text = outcome.reports.get(trial.last, (None, ""))
    said = " ".join([text, *outcome.errors.values()])
    failed = bool(outcome.errors) or ok is False
    if outcome.skipped:
        return [f"{name} was not tried: {outcome.skipped}"]
    if row.open_ended:
        return [f"the open cell does not run: {said}"] if failed else []
    if name == "right":
        unchecked = row.right is not None and ok is None
        return [f"the right answer fails: {said or 'no report'}"] if failed or unchecked else []
    if not failed:
        return [f"{name} passes"]
    if name == "starter":
        wordless = ok is None or ("not answered yet" not in said and len(text) < 20)
        return [f"the starter must fail its check, but: {said}"] if wordless else []
    words = row.wrong[name.removeprefix("wrong: ")]
    heard = " ".join(said.split()).casefold()
    missing = " ".join(words.split()).casefold() not in heard
    return [f"{name} is told {said!r}, without {words!r}"] if missing else []


def try_all(chapter: Chapter, rows: list[Exercise]) -> list[str]:
    """Run a chapter's cells with every answer; return the faults of the exercises."""
    places = find_exercises(chapter)
    tasks = [
        (row, name, trial)
        for row in rows
        for name, trial in trials_of(places[row.number], row).items()
    ]
    trials = [trial for _, _, trial in tasks]
    _, outcomes = run_trials(chapter, trials, only=[], size="book", seed=0)
    return [
        f"exercise {row.number}: {fault}"
        for (row, name, trial), outcome in zip(tasks, outcomes, strict=True)
        for fault in faults(row, name, trial, outcome)
    ]


@BOOK
def test_every_exercise_has_its_answers(chapter):
    rows = rows_of(chapter)
    assert [row.number for row in rows] == list(find_exercises(chapter))
    fewest = ON_A_SHELF if chapter.is_shelf else FEWEST
    assert len(rows) >= fewest, "those that are checked; a proof on paper has no cell and no row"
    unchecked = [row.number for row in rows if not row.open_ended and not row.wrong]
    assert unchecked == [], "a typical wrong answer, and the words it must get, for each of these"


@pytest.mark.slow
@BOOK
def test_starters_fail_right_answers_pass_and_wrong_ones_get_their_hint(chapter):
    assert try_all(chapter, rows_of(chapter)) == []


TOY = '''# %% [markdown]
r"""
**NUMBER (by hand).** Six and a half times two?
"""

# %% tags=["exercise"]
yours = STARTER

# %%
from labkit import check

check.answer(yours, 13.0, name="NUMBER", hint="double it")

'''
ROWS = [
    (Exercise("1", "yours = 13", {"yours = 12": "double it"}), None),
    (Exercise("2", "yours = 12"), "the right answer fails"),
    (Exercise("3", "yours = 13", {"yours = 13.0": "double"}), "wrong: yours = 13.0 passes"),
    (Exercise("4", "yours = 13", {"yours = 1": "half"}), "is told"),
    (Exercise("5", "yours = 13", {"yours = 'a'": "the answer must be a number"}), None),
    (Exercise("6", "yours = 13"), "starter passes"),
]


@pytest.mark.slow
def test_the_test_sees_what_is_not_so(tmp_path):
    text = HEADER.format(title="Toy", prose="Words.")
    for row, _ in ROWS:
        starter = "13" if row.number == "6" else "..."
        text += TOY.replace("NUMBER", row.number).replace("STARTER", starter)
    chapter = find_chapter(make_book(tmp_path / "book", c01_toy=text), "01")
    found = try_all(chapter, [row for row, _ in ROWS])
    wanted = [(row.number, fault) for row, fault in ROWS if fault]
    for said, (number, fault) in zip(found, wanted, strict=True):
        assert said.startswith(f"exercise {number}: ") and fault in said
