"""Each rule at the head of labkit/statistics, computed a second time: by scipy or by hand.

Numbers are made by hand. Arms have different numbers of runs and of seeds, so that no two degrees
of freedom, sums or counts are equal by chance.
"""

import math
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from scipy import stats

from labkit.statistics.criteria import Criterion, parse_criterion
from labkit.statistics.holm import adjusted
from labkit.statistics.pooled import (
    Difference,
    Scatter,
    compare_samples,
    correlate_seeds,
    count_seeds,
    has_pairs,
    pool_scatter,
    read_rung,
)
from labkit.statistics.proportions import Gap, Proportion
from labkit.statistics.seeds import Given, Seeds, correlate_ranks
from labkit.statistics.verdicts import is_weak, judge_estimate, judge_rungs, split_rungs

ONE = (1.31, 1.42, 1.28, 1.36)
OTHER = (1.55, 1.38, 1.61, 1.47, 1.44, 1.52, 1.40)
ABOVE, NEAR = parse_criterion("> 0"), parse_criterion("in [-0.05, 0.25]")


# -- criteria ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "met", "missed"),
    [
        ("> 1.5", [1.51], [1.5, 1.49, -math.inf]),
        (">= 1.5", [1.5, 1.51], [1.49]),
        ("< -2e-3", [-0.0021, -5], [-0.002, 0.0]),
        ("<= .5", [0.5, -7], [0.51]),
        ("in [-1, 3]", [-1, 0, 3], [-1.01, 3.01]),
        ("in [2, 2]", [2], [1.99, 2.01]),
    ],
)
def test_a_criterion_is_met_on_its_side_and_at_its_bound_only_where_it_says_so(text, met, missed):
    rule = parse_criterion(text)
    assert all(map(rule.is_met, met)) and not any(map(rule.is_met, missed))


def test_a_criterion_s_margin_is_half_of_its_range_or_the_size_of_its_bound():
    assert (parse_criterion("in [-1, 3]").margin, parse_criterion("< -0.25").margin) == (2.0, 0.25)
    assert parse_criterion("in [-1, 3]").bounds == [-1, 3] and parse_criterion("> 4").bounds == [4]
    assert parse_criterion("in [-1, 3]").two_sided and not parse_criterion("> 4").two_sided


def test_an_interval_wider_than_both_bounds_excludes_nothing():
    rule = parse_criterion("in [0, 1]")
    assert not rule.excludes_interval((-1, 2)) and not rule.contains_interval((-1, 2))
    assert rule.excludes_interval((1.5, 2)) and rule.excludes_interval((-2, -0.1))
    assert not rule.excludes_interval((0.5, 2)) and not rule.contains_interval((0.5, 2))


# -- one sample -------------------------------------------------------------------------------
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_student_s_interval_at_any_level(level):
    assert Seeds((2.0,)).compute_interval(level) == (2.0, 2.0)
    expected = stats.ttest_1samp(OTHER, 0).confidence_interval(level)
    assert Seeds(OTHER).compute_interval(level) == pytest.approx(tuple(expected))


def test_a_mean_is_tested_against_the_nearer_bound_or_inside_two_against_each():
    sample = Seeds(OTHER)
    assert sample.p_value(parse_criterion("< 1.5")) == stats.ttest_1samp(OTHER, 1.5).pvalue
    nearer = stats.ttest_1samp(OTHER, 1.4).pvalue
    assert sample.p_value(parse_criterion("in [1.2, 1.4]")) == nearer
    low = stats.ttest_1samp(OTHER, 1.3, alternative="greater").pvalue
    high = stats.ttest_1samp(OTHER, 1.54, alternative="less").pvalue
    assert low != high
    assert sample.p_value(parse_criterion("in [1.3, 1.54]")) == max(low, high)
    assert sample.p_value(parse_criterion("in [1.4, 1.9]")) == pytest.approx(
        stats.ttest_1samp(OTHER, 1.4, alternative="greater").pvalue
    )
    assert Seeds((1.0, 1.0, 1.0)).p_value(ABOVE) is None
    assert Seeds((1e6, 1e6 + 1e-8)).flat and not Seeds((1.0, 1.0 + 1e-9)).flat


def test_one_seed_after_the_other_is_left_out():
    assert [one.values for one in Seeds((1.0, 2.0, 4.0)).without_one()] == [
        *((2.0, 4.0), (1.0, 4.0), (1.0, 2.0))
    ]
    assert Seeds((1.0, 2.0)).without_one() == []


def test_ranks_are_correlated_with_fieller_s_interval():
    one, other = [1, 2, 3, 4, 5, 6, 7.5], [2.0, 1.0, 4.0, 3.0, 7.0, 5.0, 9.0]
    r = 1 - 6 * (1 + 1 + 1 + 1 + 1 + 1) / (7 * 48)  # ranks 2 1 4 3 6 5 7
    found = correlate_ranks(one, other)
    half = 1.96 * math.sqrt(1.06 / 4)
    assert found.mean == pytest.approx(r)
    assert found.compute_interval() == pytest.approx(
        (math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half))
    )
    same = correlate_ranks(one, one).compute_interval()  # as wide as that of 0.999
    assert same[0] == pytest.approx(math.tanh(math.atanh(0.999) - half))


# -- proportions ------------------------------------------------------------------------------
@pytest.mark.parametrize(("k", "n", "level"), [(3, 11, 0.95), (7, 9, 0.9), (0, 4, 0.95)])
def test_clopper_and_pearson_s_ends_are_quantiles_of_two_beta_distributions(k, n, level):
    low = stats.beta.ppf((1 - level) / 2, k, n - k + 1) if k else 0.0
    high = stats.beta.ppf((1 + level) / 2, k + 1, n - k)
    assert Proportion(k, n).compute_interval(level) == pytest.approx((low, high))


def test_a_share_is_tested_by_the_binomial_against_the_nearer_bound_or_against_each():
    share = Proportion(7, 9)
    assert share.p_value(parse_criterion("> 0.3")) == stats.binomtest(7, 9, 0.3).pvalue
    inside = share.p_value(parse_criterion("in [0.3, 0.9]"))
    low = math.fsum(math.comb(9, k) * 0.3**k * 0.7 ** (9 - k) for k in range(7, 10))
    high = math.fsum(math.comb(9, k) * 0.9**k * 0.1 ** (9 - k) for k in range(8))
    assert low != high and inside == pytest.approx(max(low, high))
    assert share.p_value(parse_criterion("in [0.1, 0.5]")) == stats.binomtest(7, 9, 0.5).pvalue
    assert share.p_value(parse_criterion("> 1.5")) is None


def test_two_shares_have_newcombe_s_interval_of_two_exact_ones():
    one, other = Proportion(9, 11), Proportion(2, 7)
    (l1, u1), (l2, u2) = one.compute_interval(0.9), other.compute_interval(0.9)
    p1, p2 = 9 / 11, 2 / 7
    below = math.sqrt((p1 - l1) ** 2 + (u2 - p2) ** 2)
    above = math.sqrt((u1 - p1) ** 2 + (p2 - l2) ** 2)
    gap = one - other
    assert gap.compute_interval(0.9) == pytest.approx((p1 - p2 - below, p1 - p2 + above))
    assert gap.counts == [[9, 11], [2, 7]] and gap.values == (p1 - p2,)
    table = [[9, 2], [2, 5]]
    assert gap.p_value(ABOVE) == stats.fisher_exact(table).pvalue
    assert gap.p_value(parse_criterion("> 0.1")) is None


def test_a_run_that_did_it_and_one_that_did_not_are_left_out():
    assert Proportion(3, 5).drop_one_run() == [Proportion(2, 4), Proportion(3, 4)]
    assert Proportion(0, 5).drop_one_run() == [Proportion(0, 4)]
    assert Proportion(5, 5).drop_one_run() == [Proportion(4, 4)]
    assert Proportion(1, 2).without_one() == [] and len(Proportion(1, 3).without_one()) == 2
    gap = Proportion(3, 5) - Proportion(4, 4)
    assert gap.without_one() == [
        Gap(Proportion(2, 4), Proportion(4, 4)),
        Gap(Proportion(3, 4), Proportion(4, 4)),
        Gap(Proportion(3, 5), Proportion(3, 3)),
    ]


# -- many tests -------------------------------------------------------------------------------
def test_holm_s_p_values_by_hand():
    asked = {"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005, "e": 0.6}
    # sorted: d 5 × 0.005, a 4 × 0.01, c 3 × 0.03, b 2 × 0.04 < c's 0.09, e 1 × 0.6
    found = adjusted(asked)
    assert list(found) == [*asked]
    expected = {"a": 0.04, "b": 0.09, "c": 0.09, "d": 0.025, "e": 0.6}
    assert found == pytest.approx(expected)
    assert adjusted({1: 0.7, 2: 0.8}) == {1: 1.0, 2: 1.0} and adjusted({}) == {}


# -- two samples ------------------------------------------------------------------------------
def test_the_pooled_scatter_weighs_each_arm_by_its_degrees_of_freedom():
    third = (2.0, 2.1, 1.95)
    found = pool_scatter({"one": ONE, "other": OTHER, "third": third, "single": (9.0,)})
    squares = 3 * variance(ONE) + 6 * variance(OTHER) + 2 * variance(third)
    assert found.freedom == 3 + 6 + 2 and found.apart == ()
    assert found.sd == pytest.approx(math.sqrt(squares / 11))
    with pytest.raises(ValueError, match="needs a method with at least two runs"):
        pool_scatter({"one": (1.0,)})


def test_arms_are_set_apart_one_after_the_other_the_worst_first():
    """Both odd arms stand out; each test holds an arm against all that are still together."""
    calm = (-1.2, -0.7, -0.1, 0.3, 0.6, 1.1)
    samples = {f"calm {i}": calm for i in range(4)}
    samples |= {"wide": tuple(6 * v for v in calm), "wider": tuple(60 * v for v in calm[:5])}
    found = pool_scatter(samples)
    assert found.apart == ("wider", "wide") and found.freedom == 4 * 5
    assert found.sd == pytest.approx(math.sqrt(variance(calm)))
    samples = {"a": tuple(6 * v for v in calm), "b": tuple(6.01 * v for v in calm)}
    samples |= {f"calm {i}": calm for i in range(8)}
    assert pool_scatter(samples).apart == ("b", "a"), "their corrected p-values are equal"


@pytest.mark.parametrize("wider", [True, False])
@pytest.mark.parametrize(("p", "alone"), [(0.052, False), (0.048, True)])
def test_an_arm_stands_alone_by_a_two_sided_f_test_with_holm_s_correction(p, alone, wider):
    """Compute the test anew: one arm of four runs, two arms of six; 3 and 10 degrees of freedom.

    The level is a third of 5 %, two-sided.
    """
    pattern, few = np.array([-1.2, -0.7, -0.1, 0.3, 0.6, 1.1]), np.array([-1.0, -0.2, 0.3, 0.9])
    test = stats.f.isf if wider else stats.f.ppf
    ratio = test(p / 3 / 2, 3, 10)  # of its variance to that of the two others together
    few = few * math.sqrt(ratio * pattern.var(ddof=1) / few.var(ddof=1))
    found = pool_scatter({"a": pattern, "few": few, "b": pattern + 2})
    assert found.apart == (("few",) if alone else ())
    assert found.freedom == (10 if alone else 13)


def test_two_arms_of_unequal_size_are_compared_by_one_scatter():
    scatter = Scatter(0.07, 23)
    lead = compare_samples(ONE, OTHER, scatter)
    mean = fmean(OTHER) - fmean(ONE)
    error = 0.07 * math.sqrt(1 / 4 + 1 / 7)
    half = stats.t.ppf(0.975, 23) * error
    assert lead.pooled and lead.mean == pytest.approx(mean)
    assert lead.compute_interval() == pytest.approx((mean - half, mean + half))
    narrow = stats.t.ppf(0.95, 23) * error
    assert lead.compute_interval(0.90) == pytest.approx((mean - narrow, mean + narrow))
    assert lead.p_value(ABOVE) == pytest.approx(2 * stats.t.sf(mean / error, 23))
    inside = [stats.t.sf((mean + 0.05) / error, 23), stats.t.sf((0.25 - mean) / error, 23)]
    assert lead.p_value(NEAR) == pytest.approx(max(inside))
    beyond = parse_criterion("in [-0.05, 0.1]")
    assert lead.p_value(beyond) == pytest.approx(2 * stats.t.sf((mean - 0.1) / error, 23))
    assert 0.9 < (lead.p_value(parse_criterion(f"> {mean}")) or 0) <= 1


def test_what_tuning_leaves_is_added_with_infinite_degrees_of_freedom():
    u, scatter = 0.05, Scatter(0.07, 23)
    lead = compare_samples(ONE, OTHER, scatter, tuned=u)
    chance = 0.07**2 * (1 / 4 + 1 / 7)
    error, freedom = math.sqrt(chance + u**2), (chance + u**2) ** 2 / (chance**2 / 23)
    assert lead.error == pytest.approx(error) and lead.freedom == pytest.approx(freedom)
    half = stats.t.ppf(0.975, freedom) * error
    assert lead.compute_interval()[1] - lead.mean == pytest.approx(half)
    assert lead.p_value(ABOVE) == pytest.approx(2 * stats.t.sf(lead.mean / error, freedom))


@pytest.mark.parametrize("alone", [(True, False), (False, True), (True, True)])
def test_an_arm_that_stands_alone_has_its_own_variance(alone):
    scatter = Scatter(0.07, 23, ("one",))
    lead = compare_samples(ONE, OTHER, scatter, alone=alone, tuned=0.01)
    parts = [
        (variance(values) if own else 0.07**2, len(values) - 1 if own else 23, len(values))
        for values, own in zip((ONE, OTHER), alone, strict=True)
    ]
    whole = sum(v / n for v, _, n in parts) + 0.01**2
    freedom = whole**2 / sum((v / n) ** 2 / of for v, of, n in parts)
    assert not lead.pooled and lead.error == pytest.approx(math.sqrt(whole))
    assert lead.freedom == pytest.approx(freedom)


def test_pairs_are_judged_by_their_own_scatter_and_what_tuning_leaves():
    pairs, u = (0.2, 0.05, 0.11, 0.3, 0.17), 0.04
    lead = compare_samples(ONE, OTHER, Scatter(0.07, 23), pairs=pairs, tuned=u).pair()
    chance = variance(pairs) / 5
    error, freedom = math.sqrt(chance + u**2), (chance + u**2) ** 2 / (chance**2 / 4)
    assert lead.mean == pytest.approx(fmean(pairs)) and lead.values == pairs
    assert (lead.error, lead.freedom) == pytest.approx((error, freedom))
    assert has_pairs(lead) and not has_pairs(Seeds(pairs))


def test_a_pair_of_pairs_is_enough_and_one_is_not():
    lead = compare_samples(ONE[:2], OTHER[:2], pairs=(OTHER[0] - ONE[0], OTHER[1] - ONE[1]))
    expected = stats.ttest_rel(OTHER[:2], ONE[:2])
    assert has_pairs(lead)
    assert lead.pair().compute_interval() == pytest.approx(tuple(expected.confidence_interval()))
    for few in ((), (0.2,)):
        one = compare_samples(ONE, OTHER, pairs=few)
        assert not has_pairs(one)
        with pytest.raises(ValueError, match=f"at least two shared seeds, got {len(few)}"):
            one.pair()


def test_one_run_of_either_arm_is_left_out_or_one_pair():
    lead = compare_samples(ONE, OTHER, Scatter(0.07, 23), pairs=(0.2, 0.1, 0.3))
    fewer = [(len(one.one), len(one.other)) for one in lead.without_one()]
    assert fewer == [(3, 7)] * 4 + [(4, 6)] * 7
    assert {one.scatter for one in lead.without_one()} == {lead.scatter}
    assert sorted(one.pairs for one in lead.pair().without_one()) == [
        *((0.1, 0.3), (0.2, 0.1), (0.2, 0.3))
    ]
    few = compare_samples(ONE[:2], OTHER[:3], Scatter(0.07, 23))
    assert [(len(one.one), len(one.other)) for one in few.without_one()] == [(2, 2)] * 3


def test_the_ledger_keeps_all_that_a_difference_knows():
    one = compare_samples(
        ONE,
        OTHER,
        Scatter(0.07, 23),
        alone=(True, False),
        tuned=0.0123,
        since="2026-01-02T00:00:00+00:00",
        looked="2026-01-01T00:00:00+00:00",
        arms=("qk", "pre"),
        pairs=(0.1, 0.2, 0.4),
    ).pair()
    again = read_rung(one.to_dict())
    assert replace(again, scatter=one.scatter) == one
    assert again.scatter[0] == pytest.approx(one.scatter[0]) and again.scatter[1] == (0.07, 23)
    assert read_rung({"values": [1, 2]}) == Seeds((1, 2))
    plain = compare_samples(ONE, OTHER)
    assert Difference.from_dict(plain.to_dict()).looked is None
    assert {"pairs", "paired", "arms", "since", "looked"}.isdisjoint(plain.to_dict())


def test_the_number_of_seeds_is_that_of_the_formula():
    for sd, margin in ((0.0057, 0.005), (0.0031, 0.0035), (0.02, 0.009)):
        assert count_seeds(sd, margin) == math.ceil(2 * 2.8**2 * (sd / margin) ** 2)
    assert count_seeds(1.0, 100.0) == 2
    for sd, margin, shared in ((1, 1, 1), (0, 1, 0), (1, 0, 0), (1, 1, -0.1)):
        with pytest.raises(ValueError, match=f"got {sd}, {margin} and {shared}"):
            count_seeds(sd, margin, shared=shared)


@pytest.mark.parametrize(
    ("sd", "margin", "shared"), [(0.0059, 0.005, 0.4), (1, 0.52, 0.5), (1, 1.09, 0.4)]
)
def test_the_number_of_pairs_is_the_least_with_a_power_of_80_per_cent(sd, margin, shared):
    def power(n):
        apart = margin / (sd * math.sqrt(2 * (1 - shared)))
        return stats.nct.sf(stats.t.ppf(0.975, n - 1), n - 1, apart * math.sqrt(n))

    n = count_seeds(sd, margin, shared=shared)
    assert power(n) >= 0.8 > power(n - 1)


def test_the_share_that_seeds_explain_is_shrout_and_fleiss_icc_3_1():
    """Their table 2: four judges of six targets; ICC(3, 1) is 0.71. A seed is a target."""
    judges = np.array([[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4],
                       [8, 2, 8, 6, 9, 7]])  # fmt: skip
    samples = {str(i): dict(zip(range(3, 9), row, strict=True)) for i, row in enumerate(judges)}
    assert correlate_seeds(samples) == pytest.approx(0.7148, abs=1e-4)
    samples["0"] |= {99: 1e3}  # a seed that the others lack
    assert correlate_seeds(samples) == pytest.approx(0.7148, abs=1e-4)
    with pytest.raises(ValueError, match="two methods that share at least two seeds, got 4 that"):
        correlate_seeds(samples | {"0": {99: 1.0, 98: 2.0}})


# -- verdicts ---------------------------------------------------------------------------------
def test_equivalence_is_judged_by_the_90_per_cent_interval_and_refuted_by_that_of_95():
    values = (0.0, 0.01, 0.03, 0.05, 0.04)
    sample, (low, high) = Seeds(values), Seeds(values).compute_interval(0.90)
    just, short = Criterion(-1, high + 1e-9), Criterion(-1, high - 1e-9)
    assert judge_estimate(sample, just) == "holds" and judge_estimate(sample, short) == "not-seen"
    start, _ = sample.compute_interval(0.95)
    assert judge_estimate(sample, Criterion(-2, start - 1e-9)) == "contradicted"
    assert judge_estimate(sample, Criterion(-2, (start + low) / 2)) == "not-seen"
    one_sided = Criterion(start - 1e-9, math.inf, strict=True)
    assert judge_estimate(sample, one_sided) == "holds"
    assert judge_estimate(sample, Criterion((start + low) / 2, math.inf)) == "not-seen"
    assert judge_estimate(sample, just, ["too young"]) == "not-seen"


UP, DOWN = Given((0.3,), (0.1, 0.5)), Given((-0.3,), (-0.5, -0.1))
LEANS, LEANS_DOWN = Given((0.1,), (-0.1, 0.3)), Given((-0.1,), (-0.3, 0.1))


@pytest.mark.parametrize(
    ("sizes", "directions", "expected"),
    [
        # two sizes on different sides, though one of them is contradicted
        ({"S": UP, "M": DOWN}, {}, ("not-seen", None)),
        ({"S": DOWN, "M": LEANS}, {}, ("not-seen", None)),
        # one size contradicted
        ({"S": DOWN, "M": LEANS_DOWN}, {}, ("contradicted", "S")),
        ({"S": DOWN, "M": DOWN}, {}, ("contradicted", None)),
        ({"S": LEANS_DOWN, "M": DOWN}, {"D": UP}, ("contradicted", "M")),
        # a direction contradicted, or no size holds
        ({"S": UP, "M": UP}, {"D": DOWN}, ("not-seen", None)),
        ({"S": LEANS, "M": LEANS}, {"D": UP, "W": UP}, ("not-seen", None)),
        # two sizes or more
        ({"S": UP, "M": UP}, {"D": LEANS_DOWN}, ("holds", None)),
        ({"S": UP, "M": LEANS, "L": UP}, {}, ("holds", None)),
        # one
        ({"S": UP, "M": LEANS}, {"D": UP}, ("holds-on-one", "S")),
        ({"S": LEANS, "M": UP}, {}, ("holds-on-one", "M")),
        # no size
        ({}, {"D": UP, "W": LEANS}, ("holds-on-one", "D")),
        ({}, {"D": UP, "W": UP}, ("holds-on-one", "W")),
        ({}, {"D": DOWN, "W": LEANS_DOWN}, ("contradicted", "D")),
        ({}, {"D": LEANS}, ("not-seen", None)),
        ({}, {"D": UP, "W": LEANS_DOWN}, ("not-seen", None)),
    ],
)
def test_the_ladder_s_verdict_is_the_first_line_that_applies(sizes, directions, expected):
    assert judge_rungs(sizes | directions, ABOVE) == expected
    assert judge_rungs(sizes | directions, ABOVE, ["too young"]) == ("not-seen", None)


def test_sizes_and_directions_are_told_apart():
    assert split_rungs({"S": 1, "D": 2, "L": 3, "D24": 4, "W": 5, "C": 6, "MW": 7}) == (
        {"S": 1, "L": 3},
        {"D": 2, "D24": 4, "W": 5, "C": 6, "MW": 7},
    )


def test_one_run_of_two_counts_can_decide_too():
    assert is_weak(Proportion(6, 6) - Proportion(2, 6), ABOVE), "6 of 6 against 1 of 5 holds"
    assert not is_weak(Proportion(9, 9) - Proportion(0, 9), ABOVE)
