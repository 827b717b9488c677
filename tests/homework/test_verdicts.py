"""Messages of verdicts: every wrong answer gets its cause, and no cause reveals the right one."""

import math

import pytest
import torch

from press.homework.draw import Draw
from press.homework.sandbox.answer import FAILURES, Answer
from press.homework.verdicts import (
    Verdict,
    close,
    equal,
    every,
    holds,
    item,
    part,
    raises,
    true,
)

RIGHT = torch.tensor([[1.25, -2.5, 3.75], [0.5, 6.125, -7.0]])


@pytest.mark.parametrize("wrong", [RIGHT + 1, [[0.0]], 3.0, None, "6.125", {"a": RIGHT}, RIGHT[0]])
@pytest.mark.parametrize("compare", [close, equal])
def test_no_cause_holds_an_expected_value(wrong, compare):
    verdict = compare(Answer(wrong), RIGHT)
    assert not verdict.ok and verdict.cause
    assert not any(str(value) in verdict.cause for value in RIGHT.flatten().tolist())


RIGHTS = [
    (RIGHT, RIGHT + 1e-7),
    (torch.tensor([math.nan, math.inf]), torch.tensor([math.nan, math.inf])),
    (torch.tensor(2.5), 2.5),
    (2.5, torch.tensor(2.5, dtype=torch.float64)),
    (2, 2.0),
    ([1.0, [2, 3]], (1.0, (2, 3))),
    ({"a": [RIGHT]}, {"a": [RIGHT]}),
    ("layer", "layer"),
    (True, True),
    (None, None),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
    (math.inf, math.inf),
]
WRONGS = [
    (RIGHT, RIGHT.T, "Wrong shape: expected (2, 3), got (3, 2)"),
    (RIGHT, RIGHT.double(), "Wrong dtype: expected float32, got float64"),
    (RIGHT, RIGHT * math.nan, "Not finite"),
    (RIGHT, RIGHT + 1, "Wrong values: shape and dtype fit"),
    (RIGHT, [1.0], "Wrong type: expected a tensor, got a list"),
    (1, True, "Wrong type"),
    (True, 1, "Wrong type"),
    (2.5, math.nan, "Not finite"),
    (math.inf, 10**400, "Wrong value"),
    (2.0, 10**400, "Wrong value"),
    ([1, 2], [1], "Wrong shape"),
    ([1, [2]], [1, [3]], "Wrong value in item 1 in item 0"),
    ({"a": 1}, {"b": 1}, "Missing"),
    ({"a": 1}, {"a": 1, "b": 2}, "Too many keys"),
    ({"a": 1}, {"a": 2}, "Wrong value under 'a'"),
    (torch.tensor(1.0), torch.ones(1), "Wrong shape"),
    (1.0, torch.ones(2), "Wrong shape"),
    (RIGHT, 1.0, "Wrong type"),
    (torch.tensor([True]), torch.tensor([False]), "Wrong values"),
    (torch.tensor([1 + 2j]), torch.tensor([1 + 3j]), "Wrong values"),
    (torch.ones(1), torch.tensor([math.inf]), "Not finite"),
    (torch.tensor([math.inf]), torch.ones(1), "Wrong values"),
    ("a", 1, "Wrong type"),
    (1, "1", "Wrong type"),
    ("layer", "batch", "Wrong value"),
]


@pytest.mark.parametrize(("expected", "value"), RIGHTS)
def test_close_accepts(expected, value):
    assert close(Answer(value), expected) == Verdict(True)


@pytest.mark.parametrize(("expected", "value", "cause"), WRONGS)
def test_close_refuses(expected, value, cause):
    verdict = close(value, expected)
    assert not verdict.ok and verdict.cause.startswith(cause)


def test_equal_allows_no_rounding():
    assert close(RIGHT + 1e-6, RIGHT).ok and not equal(RIGHT + 1e-6, RIGHT).ok
    assert equal(RIGHT.clone(), RIGHT).ok and equal(0.5, 0.5).ok and not equal(0.5 + 1e-12, 0.5).ok


def test_a_failure_says_itself_and_not_the_parts_hint():
    for failure, words in FAILURES.items():
        missed = part("values", 1, close(Answer(failure=failure, detail="why"), 1), says="A hint.")
        assert missed.verdict.failure == failure
        assert missed.message == f"{words}: why"
    assert part("values", 1, close(Answer(3), 1), says="A hint.").message == "Wrong value. A hint."
    assert part("values", 1, true(False)).message == "Not as asked."
    assert part("values", 1, true(True), says="A hint.").message == ""


def test_an_error_that_is_due_must_be_raised():
    raised = Answer(failure="raised", detail="ValueError: dim must be even")
    assert raises(raised, "ValueError").ok and raises(raised, "TypeError", "ValueError").ok
    other = raises(raised, "TypeError")
    assert not other.ok and "ValueError" in other.cause and "TypeError" not in other.cause
    assert not raises(Answer(None), "ValueError").ok
    assert raises(Answer(failure="slow", detail="5 s"), "ValueError").failure == "slow"


def test_a_rule_that_a_strange_answer_breaks_is_not_the_tests_fault():
    def rule(value):
        return bool(value.sum() > 0)

    assert holds(Answer(torch.ones(2)), rule).ok
    assert "nothing (None)" in holds(Answer(None), rule, says="A sum.").cause
    assert not holds(Answer(-torch.ones(2)), rule, says="Positive.").ok
    assert holds(Answer(failure="ended"), rule).failure == "ended"
    with pytest.raises(AssertionError):  # anything else is a fault of the test

        def faulty(value):
            raise AssertionError

        holds(Answer(1), faulty)


def test_items_of_an_answer_keep_its_failure():
    pair = Answer([1.0, {"loss": 2.0}])
    assert item(pair, 0).value == 1.0 and item(item(pair, 1), "loss").value == 2.0
    assert item(pair, 7).failure == "missing" and item(Answer(3), "x").failure == "missing"
    assert item(Answer(torch.ones(2)), 1).value == 1.0
    for value, key in [(torch.ones(2), "y"), (torch.tensor(1.0), 0), (torch.ones(2), 2), (None, 0)]:
        assert item(Answer(value), key).failure == "missing"
    assert item(Answer(failure="slow"), 0).failure == "slow"


def test_every_gives_the_first_verdict_that_is_not_right():
    assert every(true(True), true(True)).ok
    assert every(true(True), true(False, "this"), true(False, "that")).cause == "this"
    with pytest.raises(ValueError, match="at least one verdict"):
        every()


@pytest.mark.parametrize("points", [-1, float("nan"), True, "2"])
def test_a_part_takes_points_of_at_least_nothing_and_a_verdict(points):
    with pytest.raises(ValueError, match="points of at least 0"):
        part("values", points, true(True))
    with pytest.raises(ValueError, match="a verdict, such as"):
        part("values", 1, True)  # pyright: ignore[reportArgumentType]


def test_draws_are_the_seeds_and_keep_to_their_range_and_type():
    def drawn(seed):
        draw = Draw(seed)
        return draw.normal(4).tolist(), draw.uniform(1, 2), draw.choice("abcdefgh")

    assert drawn("3/hw/q1") == drawn("3/hw/q1") != drawn("3/hw/q2")
    draw = Draw(1)
    assert draw.normal(2, 3, dtype=torch.float64).dtype == torch.float64
    many = draw.normal(4000)
    assert abs(many.std() - 1) < 0.07 and abs(many.mean()) < 0.07  # four standard errors
    spread = draw.uniform(-1, 2, 1000)
    assert spread.min() >= -1 and spread.max() < 2 and spread.shape == (1000,)
    assert isinstance(draw.uniform(0, 1), float) and isinstance(draw.integers(2, 3), int)
    for wrong in (lambda: draw.integers(3, 3), lambda: draw.choice([])):
        with pytest.raises(ValueError):
            wrong()


@pytest.mark.parametrize("of", [float, torch.tensor], ids=["number", "tensor"])
@pytest.mark.parametrize("expected", [0.0, 100.0, -100.0])
def test_a_tolerance_is_atol_plus_rtol_times_what_is_expected(of, expected):
    most = 1e-3 + 1e-2 * abs(expected)
    for sign in (-1, 1):
        near, far = of(expected + 0.99 * sign * most), of(expected + 1.01 * sign * most)
        assert close(Answer(near), of(expected), rtol=1e-2, atol=1e-3).ok
        assert not close(Answer(far), of(expected), rtol=1e-2, atol=1e-3).ok
