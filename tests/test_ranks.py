"""Rank correlations: scipy's numbers, an interval that covers, a test that counts all orders."""

import math

import numpy as np
import pytest
from scipy import stats

from labkit.experiments import rank_correlation
from labkit.experiments.ranks import fisher_interval

A = [20.0, 20.43, 19.96, 20.43, 20.3, 20.0, 19.85, 20.11]
B = [2.50, 2.61, 2.49, 2.58, 2.55, 2.54, 2.47, 2.47]


def test_rho_and_tau_are_scipys_also_with_ties():
    found = rank_correlation(A, B)
    assert found.rho == pytest.approx(stats.spearmanr(A, B).statistic)
    assert found.tau == pytest.approx(stats.kendalltau(A, B).statistic)
    assert found.n == 8 and found.interval == (found.low, found.high)


def test_the_same_order_has_correlation_one_and_the_other_minus_one():
    up = [1.0, 2.0, 3.0, 4.0]
    same, turned = rank_correlation(up, up), rank_correlation(up, up[::-1])
    assert same.rho == same.tau == pytest.approx(1) and same.interval == (1, 1)
    assert turned.rho == turned.tau == pytest.approx(-1)
    assert same.p == pytest.approx(1 / math.factorial(4)) and turned.p == 1


def test_many_things_are_tested_by_the_same_random_orders_every_time():
    x = np.arange(15.0)
    y = x + np.random.default_rng(1).normal(scale=6, size=15)
    one, two = rank_correlation(x, y), rank_correlation(x, y)
    assert one == two
    # by t with 13 degrees of freedom; 20,000 draws
    assert one.p == pytest.approx(stats.spearmanr(x, y, alternative="greater").pvalue, abs=0.01)


def test_the_interval_covers_a_correlation_of_normal_pairs():
    rng, covered = np.random.default_rng(0), 0
    true = 6 / math.pi * math.asin(0.6 / 2)  # Spearman's of a normal pair with correlation 0.6
    for _ in range(400):
        x, z = rng.normal(size=(2, 15))
        rho = float(stats.spearmanr(x, 0.6 * x + 0.8 * z).statistic)
        low, high = fisher_interval(rho, 15)
        covered += low <= true <= high
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize(
    "a, b, words",
    [
        ([1, 2, 3], [1, 2, 3], "four things"),
        ([1, 2, 3, 4], [1, 2, 3, 4, 5], "same four"),
        ([1, 2, 3, math.nan], [1, 2, 3, 4], "diverged"),
        ([1, 1, 1, 1], [1, 2, 3, 4], "all are equal"),
    ],
)
def test_what_cannot_be_ranked_is_refused(a, b, words):
    with pytest.raises(ValueError, match=words):
        rank_correlation(a, b)
