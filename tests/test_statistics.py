"""Statistics of few runs: intervals agree with textbooks, verdicts with their definition."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import labkit
from labkit.statistics.criteria import parse_criterion
from labkit.statistics.pooled import compare_samples, count_seeds, pool_scatter
from labkit.statistics.proportions import Proportion, proportion
from labkit.statistics.seeds import Given, Seeds, t_interval
from labkit.statistics.verdicts import is_weak, is_weak_on_rungs, judge_estimate


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
    assert judge_estimate(Given((0.0,), interval), parse_criterion(criterion)) == expected


@pytest.mark.parametrize("criterion", ["0", "> zero", "=> 1", "in [2, 1]", "> 0 or so", ""])
def test_a_criterion_that_cannot_be_read_is_refused(criterion):
    with pytest.raises(ValueError, match="a criterion must have a form like"):
        parse_criterion(criterion)


def test_weak_means_that_one_run_decides():
    more = parse_criterion("> 0.06")
    assert is_weak(Seeds((0.10, 0.11, 0.09, 0.10, 0.02)), more) is True
    assert is_weak(Seeds((0.10, 0.11, 0.09, 0.10, 0.10)), more) is False
    assert is_weak(Seeds((1.0,)), more) is False
    assert is_weak(Proportion(6, 6), parse_criterion("> 0.5")) is True
    assert is_weak(Proportion(3, 3), parse_criterion("> 0.2")) is True
    assert is_weak(Proportion(30, 30), parse_criterion("> 0.5")) is False


def test_weak_on_the_ladder_means_that_one_run_of_any_rung_turns_the_verdict():
    more = parse_criterion("> 0")
    firm, shy = Seeds((0.10, 0.11, 0.09, 0.10)), Seeds((0.10, 0.11, 0.09, 0.005))
    down = Seeds((-0.10, -0.11, -0.09, -0.005))
    assert is_weak(shy, more) and not is_weak(firm, more)
    assert is_weak_on_rungs({"S": firm, "M": shy}, {}, more), "M decides between one size and two"
    assert not is_weak_on_rungs({"S": firm, "M": firm}, {}, more)
    against = Seeds(tuple(-value for value in firm.values))
    assert not is_weak_on_rungs({"S": against, "M": down}, {}, more), "S contradicts, whatever M"
    assert is_weak_on_rungs({"S": firm}, {"D": down}, more), "a direction may refute, or not"


def test_a_test_is_two_sided_so_that_what_is_contradicted_can_survive():
    down = Seeds((-1.0, -1.1, -0.9, -1.0, -1.05))
    assert down.p_value(parse_criterion("> 0")) == stats.ttest_1samp(down.values, 0).pvalue < 1e-4
    assert Seeds((1.0, 1.0, 1.0)).p_value(parse_criterion("> 0")) is None


def test_a_proportion_is_of_one_flag_a_run():
    with pytest.raises(ValueError, match="needs one flag per run"):
        proportion([0.0, 0.5])
    with pytest.raises(ValueError, match=r"n ≥ 1 runs, .*; got 0 of 0"):
        proportion([])


def test_two_proportions_are_told_apart_by_fisher_s_test():
    more = parse_criterion("> 0")
    for k, n, j, m in [(5, 5, 1, 5), (5, 6, 1, 6), (3, 3, 0, 3), (0, 5, 5, 5)]:
        gap = Proportion(k, n) - Proportion(j, m)
        p = stats.fisher_exact([[k, n - k], [j, m - j]]).pvalue
        expected = "not-seen" if p > 0.05 else "holds" if gap.mean > 0 else "contradicted"
        assert gap.p_value(more) == p and judge_estimate(gap, more) == expected
    with pytest.raises(ValueError, match="Fisher's exact test"):
        judge_estimate(gap, parse_criterion("> 0.5"))
    low, high = (Proportion(5, 5) - Proportion(0, 5)).compute_interval()
    assert 0 < low < 0.3 and high == pytest.approx(1)


def test_two_samples_without_a_pooled_scatter_are_held_apart_by_welch():
    one, other = [1.0, 1.3, 0.9, 1.2], [1.9, 2.8, 2.1, 0.7, 3.0, 2.2]
    lead = compare_samples(one, other)
    expected = stats.ttest_ind(other, one, equal_var=False)
    low, high = expected.confidence_interval()
    assert lead.compute_interval() == pytest.approx((low, high))
    assert lead.p_value(parse_criterion("> 0")) == pytest.approx(expected.pvalue)
    assert f"{lead:+.2f}" == f"{lead.mean:+.2f} [{low:+.2f}, {high:+.2f}]"


@pytest.mark.parametrize("wider", [True, False])
@pytest.mark.parametrize(("p", "alone"), [(0.052, False), (0.048, True)])
def test_an_arm_stands_alone_by_a_two_sided_f_test_with_holm_s_correction(p, alone, wider):
    """Written here again for three arms of six runs: the level is a third of 5 %, two-sided."""
    pattern = np.array([-1.2, -0.7, -0.1, 0.3, 0.6, 1.1])
    test = stats.f.isf if wider else stats.f.ppf
    ratio = test(p / 3 / 2, 5, 10)  # of its variance to that of the two others together
    samples = {"odd": np.sqrt(ratio) * pattern, "b": 3 + pattern, "c": 5 + pattern}
    found = pool_scatter(samples)
    assert found.apart == (("odd",) if alone else ())
    assert found.freedom == (10 if alone else 15)


def test_shared_seeds_are_compared_in_pairs_beside_the_interval_that_judges():
    one, other = [1.0, 1.3, 0.9, 1.2], [1.1, 1.5, 0.95, 1.35]
    gaps = [b - a for a, b in zip(one, other, strict=True)]
    lead, above = compare_samples(one, other, pairs=gaps), parse_criterion("> 0")
    expected = stats.ttest_rel(other, one)
    assert lead.pair().compute_interval() == pytest.approx(tuple(expected.confidence_interval()))
    assert lead.pair().p_value(above) == pytest.approx(expected.pvalue)
    assert judge_estimate(lead.pair(), above) == "holds"
    assert judge_estimate(lead, above) == "not-seen"
    assert lead.compute_interval() == compare_samples(one, other).compute_interval()
    with pytest.raises(ValueError, match="needs at least two shared seeds, got 0"):
        compare_samples(one, other).pair()


def test_pairs_need_fewer_seeds_for_one_margin():
    assert count_seeds(1.0, 1.0, shared=0.5) == 10 < count_seeds(1.0, 1.0) == 16
    with pytest.raises(ValueError, match="got 1, 1 and 1"):
        count_seeds(1.0, 1.0, shared=1.0)


def test_there_is_one_of_each():
    """Student's t, criteria and Holm are written once in labkit."""
    code = {path: path.read_text() for path in (Path(labkit.__file__).parent).rglob("*.py")}
    for once in ("stdtrit(", "ttest_1samp(", r"in\s*\[", "len(ordered) - rank"):
        assert [path.parent.name for path, text in code.items() if once in text] == ["statistics"]
