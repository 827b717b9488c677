"""Statistics of few runs: intervals agree with textbooks, verdicts with their definition."""

from pathlib import Path

import pytest
from scipy import stats

import labkit
from labkit.statistics.criteria import parse_criterion
from labkit.statistics.proportions import Proportion, proportion
from labkit.statistics.seeds import Seeds
from labkit.statistics.verdicts import is_weak, is_weak_on_rungs, judge_claim, judge_estimate


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
    assert is_weak_on_rungs({"S": firm, "M": shy}, more), "M decides between one size and two"
    against = Seeds(tuple(-value for value in firm.values))
    assert not is_weak_on_rungs({"S": against, "M": down}, more), "S contradicts, whatever M"
    assert is_weak_on_rungs({"S": firm, "D": down}, more), "a direction may refute, or not"


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


def test_a_claim_that_lacks_something_is_not_weak():
    one, rule = Seeds((1.0, 1.1, 1.2, 3.0)), parse_criterion("> 0.0001")
    found = [judge_claim(one, rule, lacking=lacking).weak for lacking in ((), ("seeds",))]
    assert found == [True, False]


def test_there_is_one_of_each():
    """Student's t, criteria and Holm are written once in labkit."""
    code = {path: path.read_text() for path in (Path(labkit.__file__).parent).rglob("*.py")}
    for once in ("stdtrit(", "ttest_1samp(", r"in\s*\[", "len(ordered) - rank"):
        assert [path.parent.name for path, text in code.items() if once in text] == ["statistics"]
