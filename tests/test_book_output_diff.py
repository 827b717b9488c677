import math

import pytest
from toy_book import card, claim_output

from labkit.display import CLAIM, EXERCISE
from press.book.compare import (
    describe_difference,
    is_within,
    same_claim,
    same_data,
    same_output,
    same_text,
)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("loss 1.234 after 100 steps", "loss 1.235 after 100 steps", True),
        ("loss 1.234", "loss 1.334", False),
        ("loss 1.234", "gain 1.234", False),
        ("3.1e-4", "3.12e-04", True),
        ("3.1e-4", "3.1e-5", False),
        ("-1.0", "1.0", False),
        ("−1.00", "−1.01", True),
        ("nan", "nan", True),
        ("nan", "1.0", False),
        ("inf", "inf", True),
        ("layer2 1.0", "layer3 1.0", False),
        ("a    9.99\nb   10.00", "a   10.00\nb    9.99", True),
        ("[1, 2]", "[1, 2, 3]", False),
        ("it is 0. If", "it is 2e-18. If", True),  # a number may end a sentence
    ],
)
def test_text_is_the_same_when_its_words_are_and_its_numbers_nearly(old, new, same):
    assert same_text(old, new) == same


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ([0.0, 10.0], [0.4, 9.6], True),
        ([0.0, 10.0], [0.0, 10.6], False),
        ([0.0, 10.0], [0.0, 10.0, 10.0], False),
        ([1.0, None], [1.0, None], True),
        ([1.0, None], [1.0, 2.0], False),
        ([5.0, 5.0], [5.1, 5.1], True),
        ([], [], True),
    ],
)
def test_a_drawing_is_the_same_within_a_twentieth_of_its_range(old, new, same):
    assert same_data(old, new) == same


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"values": [1.05, 1.25, 1.15]}, True),
        ({"values": [1.5, 1.7, 1.6]}, False),
        ({"values": [1.0, 1.2]}, False),
        ({"verdict": "not-seen"}, False),
        ({"weak": True}, False),
        ({"criterion": "> 1"}, False),
        ({"wording": "Another sentence, {mean:.3f}."}, False),
        ({"tolerance": 0.11, "interval": [0.9, 1.3]}, True),
        ({"word": "seen first"}, False),
        ({"lock": {"sum": "another"}}, False),
        ({"rungs": {"S": {"values": [1.0, 1.1, 1.2]}}}, False),
    ],
)
def test_a_claim_is_the_same_when_verdict_wording_and_value_are(change, same):
    assert same_claim(card(), card(**change)) == same
    assert same_output(claim_output(card()), claim_output(card(**change))) == same


AT = {"wording": "At rate {rate:g} and width 32: {mean:.1e}.", "values": [6.3e-7]}
AT |= {"interval": [6.3e-7, 6.3e-7], "seeds": 1, "tolerance": 0.05 * 6.3e-7}


def at(rate=0.03, value=6.3e-7, **change):
    numbers = {"rate": rate, "mean": value}
    return card(**AT | {"numbers": numbers, "values": [value]} | change)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"rate": 0.025}, False),
        ({"value": 6.4e-7}, True),
        ({"value": 2.6e-6}, False),  # a tolerance of 0.05 let it pass
        ({"wording": AT["wording"].replace("32", "64")}, False),
    ],
)
def test_a_setting_in_the_sentence_and_a_small_number_cannot_change_unseen(change, same):
    assert same_claim(at(), at(**change)) == same


def test_a_count_in_the_sentence_is_exact():
    old, new = (at(numbers={"rate": 0.03, "mean": 6.3e-7, "k": k}) for k in (100, 101))
    assert not same_claim(old, new)


@pytest.mark.parametrize(("k", "same"), [(30, True), (16, False)])
def test_a_timed_count_may_move_as_far_as_its_share(k, same):
    """With its tolerance of 0.45, a share of 31 alternations may change by 13 of them."""
    words = {"wording": "It is faster in {k} of {n} turns.", "tolerance": 0.45}
    old, new = (card(**words, values=[0.9], numbers={"k": one, "n": 31}) for one in (31, k))
    assert same_claim(old, new) == same


@pytest.mark.parametrize(("apart", "same"), [(0.005, True), (0.02, False)])
def test_a_lead_in_words_may_move_as_far_as_the_value(apart, same):
    """Near zero the difference itself changes by more than its own few per cent."""
    words = {
        "wording": "A's loss is {apart:.3f} nats {side} B's.",
        "tolerance": 0.01,
        "values": [0.001],
    }
    old, new = (card(**words, numbers={"apart": n, "side": "lower than"}) for n in (0.001, apart))
    assert same_claim(old, new) == same


def test_a_number_that_is_not_finite_only_equals_itself():
    assert is_within(math.nan, math.nan, 1) and is_within(math.inf, math.inf, 1)
    assert not is_within(math.nan, 0, 1) and not is_within(0, math.inf, 1)


def test_pictures_that_nobody_described_are_compared_by_their_bytes():
    old, new = (
        {"output_type": "display_data", "data": {"image/png": text}, "metadata": {}}
        for text in ("abc1", "abc2")
    )
    assert same_output(old, old) and not same_output(old, new)


@pytest.mark.parametrize("kind", ["figure", "slider"])
def test_a_picture_is_new_when_its_numbers_are_and_not_when_its_bytes_are(kind):
    def shows(picture, *numbers, caption="Falls.", alt="Line plot, from 1 to 3e-5."):
        about = {"kind": kind, "caption": caption, "data": numbers}
        data = {"image/png": picture, "text/plain": alt}
        return {"output_type": "display_data", "data": data, "metadata": {"labkit": about}}

    assert same_output(shows("abc1", 0.0, 1.0), shows("abc2", 0.0, 1.0 + 1e-9))
    assert not same_output(shows("abc1", 0.0, 1.0), shows("abc1", 0.0, 2.0))
    assert not same_output(shows("abc1", 0.0), shows("abc1", 0.0, caption="Rises."))
    assert same_output(shows("abc1", 0.0), shows("abc1", 0.0, alt="Line plot, from 1 to 2e-5."))
    assert not same_output(shows("abc1", 0.0), shows("abc1", 0.0, alt="Dots, from 1 to 3e-5."))


def test_what_a_page_asks_is_new_when_its_numbers_differ_by_more_than_rounding():
    def asks(wanted, hint="Mind the sign."):
        data = {EXERCISE: {"cases": [{"wanted": wanted}], "hint": hint}, "text/plain": "not yet"}
        return {"output_type": "execute_result", "data": data, "metadata": {}}

    exact = "[0.4757656854799803, 1e-17]"
    assert same_output(asks(exact), asks("[0.47576568547998044, -3e-17]"))
    assert not same_output(asks(exact), asks("[0.4757756854799803, 1e-17]"))
    assert not same_output(asks(exact), asks(exact, hint="Mind the scale."))


def test_a_card_is_new_when_its_looks_are_and_not_when_its_digits_are():
    def card(html):
        data = {"text/html": html, CLAIM: at()}
        return {"output_type": "display_data", "data": data, "metadata": {}}

    old = card('<b style="color: red">holds: 1.25</b>')
    assert same_output(old, card('<b style="color: red">holds: 1.26</b>'))
    assert not same_output(old, card('<b style="color: blue">holds: 1.25</b>'))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"pairs": [0.1, 0.2 + 1e-12]}, None),
        ({"pairs": [0.1, 0.2 + 1e-8]}, "rungs, S, pairs is 0.20000001, and 0.2 was recorded"),
        ({"pairs": [0.1]}, "rungs, S, pairs has 1 values, and 2 were recorded"),
        ({"scatter": [[0.3, 8]]}, "rungs, S, scatter is 8, and 9 was recorded"),
        ({"since": "2026-01-02"}, "rungs, S, since is 2026-01-02, and 2026-01-01 was recorded"),
        ({"arms": ["a", "c"]}, "rungs, S, arms is c, and b was recorded"),
    ],
)
def test_what_comes_from_records_is_compared_exactly_whatever_the_machine(change, what):
    kept = {"pairs": [0.1, 0.2], "scatter": [[0.3, 9]], "since": "2026-01-01", "arms": ["a", "b"]}
    old, new = (card("a") | {"rungs": {"S": kept | more}} for more in ({}, change))
    found = describe_difference("a", old, new, same=False)
    assert (found and found.what) == what and (what is None or found.red)
