import math

import pytest
from toy_book import card, claim_output

from labkit.book.sameness import same_claim, same_data, same_output, same_text, within


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
        ({"statement": "Another sentence, 1.100."}, False),
        ({"tolerance": 0.11, "interval": [0.9, 1.3]}, True),
    ],
)
def test_a_claim_is_the_same_when_verdict_wording_and_value_are(change, same):
    assert same_claim(card(), card(**change)) == same
    assert same_output(claim_output(card()), claim_output(card(**change))) == same


def test_a_number_that_is_not_finite_only_equals_itself():
    assert within(math.nan, math.nan, 1) and within(math.inf, math.inf, 1)
    assert not within(math.nan, 0, 1) and not within(0, math.inf, 1)


def test_pictures_that_nobody_described_are_compared_by_their_bytes():
    old, new = (
        {"output_type": "display_data", "data": {"image/png": text}, "metadata": {}}
        for text in ("abc1", "abc2")
    )
    assert same_output(old, old) and not same_output(old, new)
