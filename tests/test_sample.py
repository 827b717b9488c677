"""A sample keeps its runs: seeds are paired, dates belong to its runs, sizes do not mix."""

import math
import warnings
from dataclasses import replace

import pytest
import torch

from labkit import Record
from labkit.experiments import Results, combine, computed, exact
from labkit.experiments.claims import collect_claims
from labkit.experiments.locks import Lock, add_lock
from labkit.statistics.pooled import Difference
from labkit.statistics.seeds import t_interval


def record(seed: int, loss: float, at: str = "2026-01-01T00:00:10+00:00") -> Record:
    looks = {"0": {"share": [1.0, 0.5 * loss]}, "20": {"share": [1.0, 0.1 * loss]}}
    return Record(
        losses=[loss], steps=1, diverged_at=None, seconds=10.0, cpu_seconds=1.0,
        predictions_per_second=1.0, probes={"test": {"loss": loss}, "looks": looks},
        provenance={"seed": seed}, at=at,
    )  # fmt: skip


def runs(losses: dict[int, float], at: str = "2026-01-01T00:00:10+00:00", **labels) -> Results:
    return Results(tuple((labels, record(seed, loss, at)) for seed, loss in losses.items()))


POST, PRE = runs({5: 3.0, 6: 2.0, 7: 4.0}), runs({7: 1.0, 5: 2.0, 6: 0.5})


def test_a_sample_reads_a_path_or_a_function_and_keeps_seeds_in_order():
    post = POST.measure("test.loss")
    assert post.values == (3.0, 2.0, 4.0) and post.seeds == (5, 6, 7) and post.mean == 3.0
    assert post.interval == t_interval([3.0, 2.0, 4.0])
    assert POST.measure(lambda one: one.losses[0]).values == post.values
    assert f"{post:.1f}" == "3.0 [0.5, 5.5]"
    assert max(post) == 4.0, "it is read as its values, by a figure, too"


def test_what_records_keep_as_null_is_nan_and_a_claim_names_the_seeds():
    losses = runs({5: 3.0, 6: 2.0})
    losses.rows[1][1].probes["test"]["loss"] = None  # what a record keeps of a diverged run
    sample = losses.measure("test.loss")
    assert sample.values[0] == 3.0 and math.isnan(sample.values[1]) and math.isnan(sample.median)
    with pytest.raises(
        ValueError, match=r"not finite with seed 6\. If runs diverged, claim how many"
    ):
        sample.claim("02-a", "> 0", "A sentence.", source="s")


def test_subtraction_pairs_each_run_with_that_of_its_own_seed():
    difference = POST.measure("test.loss") - PRE.measure("test.loss")
    assert difference.values == (1.0, 1.5, 3.0) and difference.seeds == (5, 6, 7)
    assert (POST.measure("test.loss") / PRE.measure("test.loss")).values == (1.5, 4.0, 4.0)
    assert (difference - difference).values == (0.0, 0.0, 0.0)


def test_several_samples_are_combined_by_seed():
    post, pre = POST.measure("test.loss"), PRE.measure("test.loss")
    largest = combine(max, pre, post, pre.map(lambda loss: 3 * loss))
    assert largest.values == (4.0, 6.0, 2.0) and largest.seeds == (7, 5, 6)
    assert len(largest.records) == 6, "it knows the runs of all"
    with pytest.raises(ValueError, match="seeds 5, 6, 7 and seeds 8"):
        combine(max, post, pre, runs({8: 1.0}).measure("test.loss"))


def test_other_seeds_are_not_paired_but_compared():
    other = runs({8: 1.0, 9: 2.0, 10: 0.5})
    with pytest.raises(ValueError, match=r"seeds 5, 6, 7 and seeds 8, 9, 10.*improvement_over"):
        POST.measure("test.loss") - other.measure("test.loss")
    twice, again = runs({5: 1.0}) + runs({5: 2.0, 6: 3.0}), runs({6: 1.0}) + runs({5: 2.0, 6: 3.0})
    with pytest.raises(ValueError, match="seeds 5, 5, 6 and seeds 6, 5, 6"):
        twice.measure("test.loss") - again.measure("test.loss")
    found = other.measure("test.loss").improvement_over(POST.measure("test.loss"))
    assert isinstance(found.estimate, Difference) and found.mean == pytest.approx(3.0 - 3.5 / 3)
    assert len(found.records) == 6, "it knows the runs of both"


def test_an_improvement_by_seed_is_judged_by_pairs_and_keeps_both_samples():
    post, pre = POST.measure("test.loss"), PRE.measure("test.loss")
    found = pre.improvement_by_seed(post)
    assert isinstance(found.estimate, Difference) and found.estimate.paired
    assert found.values == (post - pre).values
    assert found.interval == pytest.approx((post - pre).interval)
    assert (found.estimate.one, found.estimate.other) == (pre.values, post.values)
    with pytest.raises(ValueError, match="seeds 8, 9, 10 and seeds 7, 5, 6"):
        pre.improvement_by_seed(runs({8: 1.0, 9: 2.0, 10: 0.5}).measure("test.loss"))


def test_a_map_a_step_and_a_change_reach_through_what_was_computed():
    share = POST.measure(lambda one, step: one.probes["looks"][step]["share"][-1], at=0)
    difference = share.map(math.log10) - PRE.measure(
        lambda one, step: one.probes["looks"][step]["share"][-1], at=0
    ).map(math.log10)
    later = difference.at(20)
    assert later.values == pytest.approx(difference.values)
    assert share.at(20).values == pytest.approx((0.3, 0.2, 0.4))
    with pytest.raises(ValueError, match=r"only results of Lab\.run"):
        share.again(lr=0.1)
    with pytest.raises(ValueError, match="from an experiment can be read again"):
        exact(1.0).at(20)


def test_the_same_measure_is_read_again_from_the_experiment_with_another_field():
    asked = []

    def rerun(changes):
        asked.append(changes)
        return replace(POST, rows=runs({5: changes["lr"], 6: 1.0}).rows)

    post = replace(POST, rerun=rerun)
    with pytest.raises(ValueError, match="from an experiment can be read again"):
        combine(min, post.measure("test.loss"), computed([1.0, 2.0, 3.0])).again(lr=7.0)
    assert not asked, "nothing is run before it is refused"
    assert post.measure("test.loss").again(lr=7.0).values == (7.0, 1.0)
    assert post.count(lambda one: one.losses[0] > 2).again(lr=7.0).estimate.k == 1


def test_counts_subtract_to_a_gap_and_have_no_values_to_pair():
    stuck = POST.count(lambda one: one.losses[0] > 2)
    gap = stuck - PRE.count(lambda one: one.losses[0] > 2)
    assert gap.estimate.counts == [[2, 3], [0, 3]] and gap.seeds == ()
    with pytest.raises(ValueError, match="one value per run, got a proportion"):
        stuck / stuck


def test_sizes_of_the_ladder_do_not_mix():
    small, large = runs({5: 1.0, 6: 2.0}, rung="S"), runs({5: 1.0, 6: 2.0}, rung="M")
    with pytest.raises(ValueError, match="one model size, got S, M"):
        (small + large).measure("test.loss")
    with pytest.raises(ValueError, match=r"same model size .*, got M and S"):
        small.measure("test.loss") - large.measure("test.loss")


def test_a_claim_takes_kind_dates_and_what_is_lacking_from_its_sample(tmp_path, monkeypatch):
    monkeypatch.setattr("labkit.experiments.claims.project_root", lambda: tmp_path)
    lock = Lock(
        "x-one", "It falls.", "< 9", (), (), 3, None, "none", "law-like", 0.9, None,
        "2026-01-02T00:00:00+00:00", "abc",
    )  # fmt: skip
    add_lock(tmp_path, lock)
    early, late = POST, runs({5: 3.0, 6: 2.0, 7: 4.0}, at="2026-01-03T00:00:00+00:00")

    def word(sample):
        with collect_claims():
            return sample.claim("x-one", "< 9", "It falls.", source="here").word

    assert word(early.measure("test.loss")) == "seen first"
    assert word(late.measure("test.loss")) == "locked, then run"
    mixed = late.measure("test.loss") - PRE.measure("test.loss")
    assert word(mixed) == "seen first", "one of its runs is older than the lock"
    after = late.measure("test.loss").after(early.measure("test.loss"))
    later = combine(min, late.measure("test.loss"), after)
    assert word(after) == word(later) == word(after.after(later)) == "looked, then locked"
    poor = late.measure("test.loss").over_rates(["too few rates"])
    claim = poor.claim("y-one", "< 9", "It falls.", found="It falls to {mean:.1f}.", source="here")
    assert claim.kind == "range" and claim.lacking == ("too few rates",)
    assert claim.verdict == "not-seen" and claim.statement == "It falls to 3.0."


def test_what_is_computed_lacks_what_its_parts_lack_and_has_a_kind_that_all_share():
    post, pre = POST.measure("test.loss"), PRE.measure("test.loss")
    best, over = post.tuned(["a"]).tuned(["b"]), pre.over_rates(["c"]).over_rates(["d"])
    assert (best - over).lacking == ("a", "b", "c", "d") and (best - over).kind == "at"
    assert (best - best).kind == "best" and computed([1.0], unit="draws").map(abs).unit == "draws"


def test_what_stands_beside_is_a_number_a_result_or_a_trial():
    claim = computed([1.0, 1.1, 1.2], unit="draws").claim(
        "x-beside", "in [1, 1.2]", "It is one.",
        found="{mean:.1f} beside {other:.1f} and {word}.", source="here", predicted=1.1,
        beside={"other": POST.measure("test.loss"), "word": "more", "last step": "step 20: 1.1"},
    )  # fmt: skip
    assert claim.statement == "1.1 beside 3.0 and more." and claim.unit == "draws"
    assert claim.tried == {"last step": "step 20: 1.1"} and claim.predicted == 1.1
    with pytest.raises(ValueError, match="'other' is list"):
        computed([1.0, 1.1]).claim(
            "x-bad", "> 0", "s", found="{other}", source="here", beside={"other": [1.0]}
        )


def test_an_exact_number_may_be_a_tensor_with_a_gradient():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exact(torch.tensor([0.5], requires_grad=True)).mean == 0.5


def test_a_claim_of_records_keeps_seeds_values_and_dates_and_a_live_one_does_not():
    post, pre = POST.measure("test.loss"), PRE.measure("test.loss")
    kept = (post - pre).after(pre).claim("x-kept", "> 0", "s", source="here").to_dict()["runs"]
    start = "2026-01-01T00:00:00+00:00"
    assert kept == {"seeds": [5, 6, 7], "values": [1.0, 1.5, 3.0], "since": start, "looked": start}
    scaled = combine(lambda one, two: one * two, post, computed([1.0, 2.0, 3.0]))
    for live in (scaled, computed([1.0, 1.2]), exact(1.0)):
        assert live.claim("x-live", "> 0", "s", source="here").to_dict()["runs"] is None
