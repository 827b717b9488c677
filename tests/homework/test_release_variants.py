"""Students get different numbers, which are the same every time, on every machine."""

from types import SimpleNamespace

import pytest

from press.homework import variants

CELL = f"""EPS = draw.choice((1e-5, 1e-6))  # yours
DIM = draw.choice(
    {[*range(6, 60)]},
)
SCALE = draw.choice({[n / 100 for n in range(50, 200)]})
SHIFTS = draw.choice([[-2.5, 0.8, 0.2], [0.6, 1.1, -1.5]])  # größer"""


RECORD = {"EPS": 1e-06, "DIM": 55, "SCALE": 1.77, "SHIFTS": [0.6, 1.1, -1.5]}


def private(seed=0, **changes):
    return SimpleNamespace(
        homework="hw9_toy", seed=seed, variants={**variants.read_sources(CELL), **changes}
    )


def test_numbers_are_those_of_record():
    # Written down once: they may never change, or a regrading would ask for other answers.
    assert variants.draw_variants(private(), "ada") == RECORD


def test_students_seeds_and_homeworks_differ():
    drawn = [str(variants.draw_variants(private(), f"s{number}")) for number in range(100)]
    assert len({*drawn}) == 100
    assert variants.draw_variants(private(1), "s0") != variants.draw_variants(private(), "s0")
    other = SimpleNamespace(**{**vars(private()), "homework": "hw8_toy"})
    assert variants.draw_variants(other, "s0") != variants.draw_variants(private(), "s0")


def test_a_variable_more_moves_no_other():
    before = variants.draw_variants(private(), "ada")
    after = variants.draw_variants(private(NEW="draw.choice((1, 2))"), "ada")
    assert {name: after[name] for name in before} == before


def test_draws_stay_within_what_is_asked():
    drawn = [variants.draw_variants(private(), f"s{number}") for number in range(1000)]
    assert {each["EPS"] for each in drawn} == {1e-5, 1e-6}
    assert {each["DIM"] for each in drawn} == {*range(6, 60)}
    ids = [each["EPS"] == 1e-5 for each in drawn]
    assert 400 < sum(ids) < 600


def test_a_notebook_shows_the_numbers_themselves():
    text = variants.write_literal_cell(CELL, RECORD)
    assert text.split("\n") == [
        f"EPS = {RECORD['EPS']!r}  # yours",
        f"DIM = {RECORD['DIM']}",
        f"SCALE = {RECORD['SCALE']}",
        f"SHIFTS = {RECORD['SHIFTS']}  # größer",
    ]
    names = {}
    exec(text, names)
    assert {name: names[name] for name in RECORD} == RECORD


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("A = draw.choice(())", "draw.choice needs a list of plain values"),
        ("A = draw.choice(open('x'))", "draw.choice needs a list of plain values"),
        ("A = draw.choice((1, 2), n=1)", "a `variant` cell may contain only lines"),
        ("A = draw.choice(1, 2)", "a `variant` cell may contain only lines"),
        ("A = draw.__class__(1)", "a `variant` cell may contain only lines"),
        ("A = draw.uniform(1, 2)", "a `variant` cell may contain only lines"),
        ("A = print(1)", "a `variant` cell may contain only lines"),
        ("A, B = draw.choice((1, 2))", "a `variant` cell may contain only lines"),
    ],
)
def test_anything_but_a_draw_is_refused_and_nothing_is_executed(line, said):
    with pytest.raises(ValueError, match="line 7: ") as caught:
        variants.read_sources(line, 7)
    assert said in str(caught.value)
