"""Claims: intervals against the textbook, verdicts against their definition, cards that say it."""

import math

import numpy as np
import pytest
from scipy import stats

from labkit.experiments.claims import KINDS, VERDICTS, claim
from labkit.experiments.statistics import exponents, is_weak, minus, t_interval, verdict

REST = {"source": "a paper", "criterion": "> 0", "kind": "at"}


def test_the_interval_is_student_s():
    values = [1.2, 0.7, 1.9, 1.1, 0.4]
    low, high = t_interval(values)
    expected = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected)
    assert t_interval([2.0]) == (2.0, 2.0)


def test_the_interval_covers_as_often_as_it_says():
    samples = np.random.default_rng(0).normal(size=(2000, 5))
    covered = sum(low <= 0 <= high for low, high in map(t_interval, samples.tolist()))
    # 2,000 trials at 95 %: a standard error of 0.5 points
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize(
    ("interval", "criterion", "expected"),
    [
        ((0.1, 0.5), "> 0", "holds"),
        ((-0.1, 0.5), "> 0", "not-seen"),
        ((-0.5, -0.1), "> 0", "contradicted"),
        ((0.0, 0.5), "> 0", "not-seen"),
        ((0.0, 0.5), ">= 0", "holds"),
        ((-3, -2), "<= -2", "holds"),
        ((1.0, 2.0), "< 1e-3", "contradicted"),
        ((0.9, 1.1), "in [0.8, 1.2]", "holds"),
        ((0.7, 1.1), "in [0.8, 1.2]", "not-seen"),
        ((0.1, 0.2), "in [0.8, 1.2]", "contradicted"),
    ],
)
def test_a_verdict_is_where_the_interval_lies(interval, criterion, expected):
    assert verdict(interval, criterion) == expected


@pytest.mark.parametrize("criterion", ["0", "> zero", "=> 1", "in [2, 1]", "> 0 or so", ""])
def test_a_criterion_that_cannot_be_read_is_refused(criterion):
    with pytest.raises(ValueError, match="a criterion reads like"):
        verdict((0, 1), criterion)


def test_weak_means_that_one_seed_decides():
    assert is_weak([0.10, 0.11, 0.09, 0.10, 0.02], "> 0.06") is True
    assert is_weak([0.10, 0.11, 0.09, 0.10, 0.10], "> 0.06") is False
    assert is_weak([1.0], "> 0") is False


def test_a_card_says_everything(capsys):
    made = claim(
        "02-x",
        "Post loses {mean:.2f} nats over {n} seeds; factor {factor:.1f}.",
        [0.5, 0.6, 0.7],
        published="0.4",
        factor=2.0,
        **REST,
    )
    assert made.statement == "Post loses 0.60 nats over 3 seeds; factor 2.0."
    assert made.verdict == "holds"
    card = capsys.readouterr().out
    for part in ("holds here", "0.60 nats", "95 % interval", "3 seeds", "> 0", "a paper", "0.4"):
        assert part in card
    for part in ("holds here", "0.60 nats", "labkit-verdict-holds", "a paper"):
        assert part in made.to_html()


def test_a_card_escapes_what_it_is_given():
    made = claim("x", "a <b> & c", 1.0, **REST)
    assert "a &lt;b&gt; &amp; c" in made.to_html()


def test_the_entry_is_the_ledger_s():
    entry = claim("x", "s", [1.0, 2.0, 3.0], **REST).to_dict()
    assert set(entry) == {
        "id", "statement", "source", "published", "values", "interval", "criterion", "kind",
        "verdict", "weak", "tolerance", "seeds",
    }  # fmt: skip
    assert entry["seeds"] == 3
    assert entry["verdict"] in VERDICTS and entry["kind"] in KINDS


def test_the_tolerance_follows_the_interval_unless_told():
    low, high = t_interval([1.0, 2.0, 3.0])
    assert claim("x", "s", [1.0, 2.0, 3.0], **REST).tolerance == pytest.approx((high - low) / 2)
    assert claim("x", "s", 2.0, **REST).tolerance == pytest.approx(0.1)
    assert claim("x", "s", 2.0, tolerance=0.5, **REST).tolerance == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "Bad id"}, "lower-case letters"),
        ({"kind": "sure"}, "choose one of exact, at, best, range"),
        ({"criterion": "positive"}, "a criterion reads like"),
        ({"values": []}, "at least one value"),
        ({"values": [1.0, math.nan]}, "each finite"),
        ({"kind": "best", "values": [1.0, 2.0]}, "five seeds or more"),
    ],
)
def test_a_claim_refuses_nonsense(change, message):
    with pytest.raises(ValueError, match=message):
        claim(**{"id": "x", "statement": "s", "values": [1.0], **REST, **change})


def test_differences_pair_and_powers_are_fitted_seed_by_seed():
    assert minus([3.0, 1], [1.0, 4]) == [2.0, -3.0]
    with pytest.raises(ValueError):
        minus([1.0], [1.0, 2.0])
    points = {n: [5.0 * n**-0.5, 2.0 * n**3.0] for n in (2, 7, 30)}
    assert exponents(points) == pytest.approx([-0.5, 3.0])
    bent = {2: [3.0], 4: [4.0], 16: [30.0]}
    fit = np.polyfit(np.log([*bent]), np.log([v for (v,) in bent.values()]), 1)
    assert exponents(bent) == pytest.approx([fit[0]])
