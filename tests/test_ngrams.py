"""Counts of n-grams: the formula, contexts at the start of a window, and the book's numbers."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from labkit.corpora import Digits, Text
from labkit.corpora.ngrams import compute_losses, count_ngrams, ngram_loss, reference_lines

TEXT = "abracadabra banana cabana"
WINDOWS = ("banabra", "cad nac", "zzzabra")  # z is no letter of the text


def by_hand(text, windows, order, symbols):
    """Compute Witten and Bell's recursion independently, on strings."""
    grams = {n: Counter(text[i : i + n] for i in range(len(text) - n + 1)) for n in range(1, 6)}

    def p(symbol, context):
        below = p(symbol, context[1:]) if context else 1 / symbols
        after = [number for gram, number in grams[len(context) + 1].items() if gram[:-1] == context]
        if not after:
            return below
        n, t = sum(after), len(after)
        return (grams[len(context) + 1][context + symbol] + t * below) / (n + t)

    found = [
        -math.log(p(window[i], window[max(0, i - order + 1) : i]))
        for window in windows
        for i in range(1, len(window))
    ]
    return sum(found) / len(found)


def rows(*texts):
    return np.array([[ord(letter) - 32 for letter in text] for text in texts])


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_the_tables_follow_the_formula(order):
    levels = count_ngrams(rows(TEXT), order, 96)
    assert compute_losses(rows(*WINDOWS), levels)[-1] == pytest.approx(
        by_hand(TEXT, WINDOWS, order, 96), rel=1e-12
    )


def test_a_text_that_is_read_in_parts_gives_the_same_counts(monkeypatch):
    whole = count_ngrams(rows(TEXT), 4, 96)
    monkeypatch.setattr("labkit.corpora.ngrams._PART", 7)
    for one, other in zip(whole, count_ngrams(rows(TEXT), 4, 96), strict=True):
        assert np.array_equal(one.counts, other.counts)
        assert np.array_equal(one.longer, other.longer)


def test_no_n_gram_reaches_from_one_window_into_the_next():
    apart, joined = count_ngrams(rows("ab", "cd"), 2, 96), count_ngrams(rows("abcd"), 2, 96)
    assert apart[1].counts.sum() == 2 and joined[1].counts.sum() == 3


def test_all_the_books_text_gives_the_published_table():
    # On the windows of the table, 256 × 32 characters; two decimals are what it prints.
    small = Text(held_out=8192)
    assert [round(ngram_loss(small, order), 2) for order in (1, 2, 3)] == [3.06, 2.40, 1.89]
    lines = reference_lines(Text())
    assert list(lines) == ["bigram counts", "trigram counts"]
    assert lines["trigram counts"] == ngram_loss(Text(batch=64), 3)
    # Other windows of the same addresses: a spread of about 0.02.
    assert lines["bigram counts"] == pytest.approx(2.40, abs=0.04)
    assert lines["trigram counts"] == pytest.approx(1.89, abs=0.04)


def test_less_text_gives_worse_counts():
    few, more = (ngram_loss(Text(characters=n), 3) for n in (20_000, 200_000))
    assert few > more > ngram_loss(Text(), 3)


images: Any = (Digits(), 2)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: ngram_loss(*images), "need data of type Text, got Digits"),
        (lambda: ngram_loss(Text(), 0), "order must be from 1 to 5, got 0"),
        (lambda: ngram_loss(Text(), 6), "order must be from 1 to 5, got 6"),
        (lambda: ngram_loss(Text(), 2, "train"), "choose one of validation, test"),
    ],
)
def test_what_cannot_be_counted_is_refused(ask, words):
    with pytest.raises(ValueError, match=words):
        ask()
