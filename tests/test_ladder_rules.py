"""The ladder's rules of comparison, computed a second time: by scipy, numpy or by hand.

Rows are made by hand. One method has 20 seeds and the other ten, in another order, so that a pair
of two different seeds, or a wrong count, changes every number.
"""

import math
from dataclasses import replace
from statistics import fmean, variance

import numpy as np
import pytest
from scipy import stats

from labkit.corpora.ngrams import ngram_loss
from labkit.experiments import Results, ladder
from labkit.experiments.claims import collect_claims
from labkit.experiments.ladder import comparing, orders, rates
from labkit.experiments.ladder.comparison import Comparison
from labkit.experiments.ladder.method import list_strict_seeds
from labkit.experiments.ladder.rates import (
    Left,
    choose_rate,
    find_middle,
    find_place,
    fit_valley,
    learns,
    name_rate,
)
from labkit.experiments.ladder.reading import pool_losses, read_losses, read_results
from labkit.experiments.sample import computed
from labkit.leaderboard.standings import rank_ladder
from labkit.statistics.pooled import Difference, pool_scatter
from labkit.training import Record

START = "2026-02-01T00:00:00+00:00"
TWENTY, TEN = range(5, 25), [9, 14, 5, 12, 7, 11, 6, 13, 10, 8]


def row(arm, seed, loss, stage="final", lr=0.01, rung="S", minute=30):
    probes = {"test": {"loss": loss}, "validation": {"loss": loss}}
    at = START.replace("00:00:00", f"00:{minute:02d}:00")
    record = Record([], 1, seconds=60.0, probes=probes, provenance={"seed": seed}, at=at)
    if loss is None or not math.isfinite(loss):
        probes = {"test": {"loss": None}, "validation": {"loss": None}}
        record = Record([], 1, diverged_at=3, probes=probes, provenance={"seed": seed}, at=at)
    return {"arm": arm, "rung": rung, "lr": lr, "seed": seed, "stage": stage}, record


def make_losses(level, seeds, spread=0.004, turn=1.7):
    """A part that the seed alone decides, and a part of the arm's own."""
    return {
        seed: level + spread * math.sin(5.3 * seed) + spread / 3 * math.cos(turn * seed)
        for seed in seeds
    }


PRE, B2T = make_losses(1.400, TWENTY), make_losses(1.393, TEN, turn=2.9)
THIRD = make_losses(1.41, TWENTY, turn=0.6)
TUNED = {
    "pre": {0.00316: [1.43], 0.00562: [1.409, 1.412, 1.405], 0.01: [1.403, 1.399, 1.4],
            0.0178: [1.41, 1.413, 1.408]},
    "b2t": {0.00562: [1.402, 1.4, 1.407], 0.01: [1.391, 1.393, 1.395],
            0.0178: [1.399, 1.395, 1.397], 0.0316: [1.42]},
}  # fmt: skip


def make_rows():
    rows = [row("pre", seed, loss) for seed, loss in PRE.items()]
    rows += [row("b2t", seed, loss, minute=40) for seed, loss in B2T.items()]
    rows += [row("qk", seed, loss) for seed, loss in THIRD.items()]
    rows += [row("no attention", seed, 2.2 + 0.1 * seed) for seed in TEN]
    for arm, by_rate in TUNED.items():
        for lr, losses in by_rate.items():
            rows += [
                row(arm, seed, loss, "tuning", lr, minute=10 if arm == "pre" else 20)
                for seed, loss in zip(ladder.TUNING_SEEDS, losses, strict=False)
            ]
    return Results(tuple(rows))


FOUND = make_rows()


# -- two arms compared ------------------------------------------------------------------------
def test_the_scatter_is_that_of_recipes_alone():
    scatter = ladder.measure_scatter(FOUND, "S")
    squares = (
        19 * variance(PRE.values()) + 9 * variance(B2T.values()) + 19 * variance(THIRD.values())
    )
    assert scatter.freedom == 19 + 9 + 19 and scatter.apart == ()
    assert scatter.sd == pytest.approx(math.sqrt(squares / 47))
    assert pool_losses({"no attention": [1.0, 2.0]}).freedom == 1
    assert pool_losses({}) is None
    with pytest.raises(ValueError, match="at size M there is none"):
        ladder.measure_scatter(FOUND, "M")


def test_two_methods_are_compared_as_two_samples_and_each_seed_with_itself():
    lead = comparing.compare_on(FOUND, "S", "b2t")
    assert (lead.one, lead.other) == (tuple(B2T.values()), tuple(PRE.values()))
    assert lead.pairs == pytest.approx([PRE[seed] - B2T[seed] for seed in TEN])
    assert lead.mean == pytest.approx(fmean(PRE.values()) - fmean(B2T.values()))
    sd = ladder.measure_scatter(FOUND, "S").sd
    assert lead.scatter == ((sd, 47), (sd, 47)) and lead.arms == ("b2t", "pre")
    left = {arm: ladder.measure_tuning_left(FOUND, "S", arm, sd) for arm in ("pre", "b2t")}
    assert left["pre"] != left["b2t"] and lead.tuned == left["b2t"].join(left["pre"]) > 0
    error = math.sqrt(sd**2 * (1 / 10 + 1 / 20) + lead.tuned**2)
    assert lead.error == pytest.approx(error)
    pairs = lead.pair()
    expected = stats.ttest_rel([PRE[seed] for seed in TEN], list(B2T.values()))
    narrow = variance(lead.pairs) / 10
    assert pairs.mean / math.sqrt(narrow) == pytest.approx(expected.statistic)
    assert pairs.error == pytest.approx(math.sqrt(narrow + lead.tuned**2))
    back = comparing.compare_on(FOUND, "S", "pre", "b2t")
    assert sorted(back.pairs) == pytest.approx(sorted(-gap for gap in lead.pairs))


def test_a_comparison_reads_nothing_of_another_size():
    large = [
        row(of["arm"], of["seed"], 1.1 * one.probes["test"]["loss"], of["stage"], of["lr"], "M", 5)
        for of, one in FOUND
    ]
    both, read = Results((*large, *FOUND.rows)), {"of": lambda one: one.probes["test"]["loss"]}
    for rung, alone in (("S", FOUND), ("M", Results(tuple(large)))):
        assert comparing.compare_on(both, rung, "b2t") == comparing.compare_on(alone, rung, "b2t")
        lead = ladder.improvement(both, "b2t", **read)[rung]
        assert lead == ladder.improvement(alone, "b2t", **read)[rung]


def test_a_lead_knows_when_its_report_began_and_when_the_search_did():
    lead = comparing.compare_on(FOUND, "S", "b2t")
    assert lead.since == START.replace("00:00:00", "00:29:00"), (
        "the other method's, a minute before its end"
    )
    assert lead.looked == START.replace("00:00:00", "00:09:00")


def test_what_is_no_recipe_and_what_scatters_otherwise_stand_alone():
    lead = comparing.compare_on(FOUND, "S", "no attention")
    own = [2.2 + 0.1 * seed for seed in TEN]
    assert lead.scatter[0] == (pytest.approx(math.sqrt(variance(own))), 9)
    assert lead.scatter[1][1] == 47
    wild = [row("post", seed, 1.4 + 0.3 * math.sin(seed)) for seed in TWENTY]
    with_it = Results((*FOUND.rows, *wild))
    assert ladder.measure_scatter(with_it, "S").apart == ("post",)
    of_post = comparing.compare_on(with_it, "S", "pre", "post")
    assert [freedom for _, freedom in of_post.scatter] == [47, 19]


def test_devices_stand_on_the_card_where_they_differ():
    def place(arm, device):
        return [
            (labels, replace(record, provenance=record.provenance | {"device": device}))
            for labels, record in FOUND
            if labels["arm"] == arm
        ]

    mixed = Results((*place("pre", "cpu"), *place("b2t", "GPU"), *place("qk", "cpu")))
    lead = comparing.compare_on(mixed, "S", "b2t")
    assert lead.devices == ("GPU", "cpu") and lead.to_dict()["devices"] == ["GPU", "cpu"]
    assert comparing.compare_on(mixed, "S", "qk").devices == ()
    assert "devices" not in comparing.compare_on(FOUND, "S", "b2t").to_dict()
    with collect_claims() as made:
        Comparison({"S": lead}, lambda rung: ()).claim("10-x", "> 0", "It ends lower.")
    assert "n = 10, b2t on GPU, pre on cpu" in str(made[0])
    measured = comparing.compare_measure(
        mixed, "S", ("b2t", "pre"), lambda record: record.probes["test"]["loss"]
    )
    assert (measured.arms, measured.devices) == (("b2t", "pre"), ("GPU", "cpu"))
    halves = zip(place("b2t", "GPU"), place("b2t", "cpu"), strict=True)
    partly = [gpu if gpu[0]["seed"] % 2 else cpu for gpu, cpu in halves]
    lead = comparing.compare_on(Results((*place("pre", "cpu"), *partly)), "S", "b2t")
    assert lead.devices == ("GPU (5 runs) and cpu (5 runs)", "cpu")
    one, other = (
        Results(tuple(place(arm, device))).where(stage="final").measure("test.loss")
        for arm, device in (("b2t", "GPU"), ("pre", "cpu"))
    )
    with collect_claims() as made:
        one.improvement_over(other).claim("10-y", "> 0", "It ends lower.")
    assert "Welch); trained on GPU and on cpu" in str(made[0])
    assert not computed([1.0, 1.1]).improvement_over(other).estimate.devices, "of no run"


def test_a_strict_comparison_without_a_lock_is_judged_seed_by_seed():
    lead = comparing.compare_on(FOUND, "S", "b2t")
    with collect_claims() as made:
        Comparison({"S": lead}, lambda rung: ()).claim("10-x", "> 0", "It ends lower.")
        few = replace(lead, pairs=lead.pairs[:5])
        Comparison({"S": few}, lambda rung: ()).claim("10-y", "> 0", "It ends lower.")
    assert made[0].estimate == lead.pair() and made[1].estimate == few


def test_another_measure_than_the_loss_is_compared_by_welch():
    lead = ladder.improvement(FOUND, "b2t", of=lambda record: record.probes["test"]["loss"] ** 2)
    one, other = ([loss**2 for loss in of.values()] for of in (B2T, PRE))
    expected = stats.ttest_ind(other, one, equal_var=False).confidence_interval()
    assert lead["S"].compute_interval() == pytest.approx(tuple(expected))
    assert lead["S"].since == comparing.compare_on(FOUND, "S", "b2t").since


def test_a_report_is_strict_only_with_all_seeds_that_its_rung_asks():
    assert comparing.is_strict_report(FOUND, "pre", "S")
    assert comparing.is_strict_report(FOUND, "b2t", "S")
    fewer = Results(tuple(r for r in FOUND if (r[0]["arm"], r[0]["seed"]) != ("b2t", 8)))
    assert not comparing.is_strict_report(fewer, "b2t", "S")
    assert not ladder.has_reported(fewer, "b2t", "S") and "b2t" not in read_losses(fewer, "S")
    assert [*ladder.improvement(fewer, "b2t")] == []
    assert list_strict_seeds("S", "pre") == [*TWENTY]
    assert list_strict_seeds("S", "b2t") == sorted(TEN) == list_strict_seeds("M", "pre")


def test_a_run_that_diverged_counts_as_the_unigram_baseline_and_the_card_says_so():
    def read(run):
        if run.seed >= ladder.TUNING_SEED:
            return row("b2t", run.seed, 1.4 + (math.log10(run.train.lr) + 2) ** 2)[1]
        return row("b2t", run.seed, None if run.seed == 8 else B2T.get(run.seed, 1.4))[1]

    own = read_results(["S"], ["b2t"], read)
    baseline = ngram_loss(ladder.build_text("S"), 1)
    assert baseline == pytest.approx(ladder.FREQUENCIES, abs=0.01)
    losses = ladder.reported(own, "b2t")["S"]
    assert losses == {seed: B2T[seed] if seed != 8 else baseline for seed in TEN}
    found = Results((*(r for r in FOUND if r[0]["arm"] != "b2t"), *own.rows))
    assert ladder.has_reported(found, "b2t", "S")
    lead = comparing.compare_on(found, "S", "b2t")
    assert lead.mean == pytest.approx(fmean(PRE.values()) - fmean(losses.values()))
    assert lead.pairs[[*losses].index(8)] == PRE[8] - baseline
    assert not lead.pooled and lead.scatter[0][1] == 9, "it stands alone"
    two = found.where(arm=["pre", "b2t"])
    assert ladder.measure_scatter(two, "S").apart == ("b2t",)
    assert ladder.measure_scatter(two, "S").sd == pytest.approx(math.sqrt(variance(PRE.values())))
    assert lead.lost == Difference.from_dict(lead.to_dict()).lost == (1, 0)
    assert comparing.compare_on(found, "S", "qk").lost == ()
    with collect_claims() as made:
        Comparison({"S": lead}, lambda rung: ()).claim("10-x", "> 0", "It ends lower.")
    assert "1 of 10 runs of b2t diverged, counted as the unigram baseline" in str(made[0])
    last = rank_ladder(two, {"B2T": "b2t", "Pre-Norm": "pre"}, "S").rows[-1]
    assert last.name == "B2T" and last.mean is None and last.values.count(None) == 1


def test_a_run_without_a_loss_leaves_its_method_without_a_report():
    rows = [r for r in FOUND if (r[0]["arm"], r[0]["seed"]) != ("b2t", 8)]
    lost = Results((*rows, row("b2t", 8, None)))
    assert sorted(ladder.reported(lost, "b2t")["S"]) == [s for s in sorted(TEN) if s != 8]
    assert "b2t" not in read_losses(lost, "S") and "pre" in read_losses(lost, "S")


def test_what_tuning_leaves_hangs_on_the_scatter_and_on_how_the_rate_was_chosen():
    left = ladder.measure_tuning_left
    assert left(FOUND, "S", "qk", 0.003) == left(Results(()), "S", "pre", 0.003)
    assert left(FOUND, "S", "pre", 0.001) != left(FOUND, "S", "pre", 0.006)
    assert left(FOUND, "S", "pre", 0.003) == rates.measure_left(TUNED["pre"], 0.003)
    first = Results(tuple(r for r in FOUND if r[0]["seed"] != 24))
    assert left(first, "S", "pre", 0.003) == rates.measure_left(
        TUNED["pre"], 0.003, by_vertex=False
    )


# -- learning-rate sensitivity ----------------------------------------------------------------
def test_sensitivity_is_the_mean_loss_above_the_best_over_coarse_rates_capped():
    by_rate = {0.001: 1.6, 0.00316: 1.45, 0.00562: 1.39, 0.01: 1.4, 0.0316: 2.0, 0.1: math.inf}
    rows = [row("pre", 1000, loss, "tuning", lr) for lr, loss in by_rate.items()]
    rows += [row("pre", 1001, loss + 0.1, "room", lr) for lr, loss in by_rate.items() if lr < 0.1]
    rows += [row("pre", 1001, 4.0, "room", 0.1), row("pre", 1002, 1.2, "room", 0.001)]
    found = comparing.measure_lost(Results(tuple(rows)), "S")
    coarse = (1.6 + 1.45 + 1.4 + 2.0 + ladder.FREQUENCIES) / 5
    later = (1.7 + 1.55 + 1.5 + 2.1 + ladder.FREQUENCIES) / 5
    assert found == pytest.approx({1000: coarse - 1.39, 1001: later - 1.49})


# -- rates ------------------------------------------------------------------------------------
def test_rates_are_sixteenths_of_a_decade_in_three_digits():
    assert [name_rate(place) for place in (0, 4, 8, 12, 16, 14, 15)] == [
        *(0.001, 0.00178, 0.00316, 0.00562, 0.01, 0.0075, 0.00866)
    ]
    assert all(find_place(name_rate(place)) == place for place in range(-16, 49))


def test_a_seed_has_learned_within_a_nat_of_the_best_mean():
    assert learns([1.4, 2.39], 1.4) and not learns([1.4, 2.41], 1.4)
    assert not learns([1.4, math.inf], 1.4) and not learns([2.5], 1.5)


def test_the_middle_is_the_lowest_mean_of_the_rates_with_most_seeds():
    tuned = {0.00562: [1.43, 1.41], 0.01: [1.40, 1.42, 1.41], 0.0178: [1.39, 1.405, 1.42],
             0.0316: [1.30]}  # fmt: skip
    assert find_middle(tuned) == find_place(0.0178)


def test_the_parabola_weighs_a_mean_by_its_seeds_and_reads_half_a_decade_on_either_side():
    tuned = {0.001: [1.1], 0.00316: [1.44], 0.00562: [1.414, 1.409, 1.405],
             0.01: [1.403, 1.396, 1.402], 0.0178: [1.409, 1.415, 1.408], 0.0316: [1.445],
             0.1: [1.2]}  # fmt: skip
    near = {rate: of for rate, of in tuned.items() if 0.003 < rate < 0.04}
    places = np.array([16 * (math.log10(rate) + 3) for rate, of in near.items() for _ in of])
    losses = np.array([loss for of in near.values() for loss in of])
    bend, slope, _ = np.polyfit(places, losses, 2)  # run by run: that is what the weights mean
    valley = fit_valley(tuned)
    assert valley.bend == pytest.approx(bend, rel=1e-2)
    assert valley.place == pytest.approx(-slope / (2 * bend), abs=0.02)
    assert choose_rate(tuned) == name_rate(round(-slope / (2 * bend)))
    assert valley.rise(valley.place + 3) == pytest.approx(9 * valley.bend)


@pytest.mark.parametrize(("p", "trusted"), [(0.053, True), (0.047, False)])
def test_the_f_test_of_a_parabola_counts_seeds_as_they_are(p, trusted):
    """Rates with three, two and one seeds: 2 degrees of freedom against 5."""
    counts = {0.00178: 1, 0.00316: 2, 0.00562: 3, 0.01: 3, 0.0178: 1}
    level = {rate: 1.3 + 0.01 * (i - 2) ** 2 for i, rate in enumerate(counts)}
    scatter = {1: [0.0], 2: [-0.002, 0.002], 3: [-0.003, 0.001, 0.002]}
    weights = np.array([*counts.values()], dtype=float)
    design = np.vander(np.arange(5.0), 3)
    odd = np.array([-1.0, 4.0, -6.0, 4.0, -1.0])
    fit = np.linalg.lstsq(design * np.sqrt(weights)[:, None], odd * np.sqrt(weights))[0]
    missed = float((weights * (odd - design @ fit) ** 2).sum())  # of a shift of one
    within = sum((v**2 for n in counts.values() for v in scatter[n]), start=0.0) / 5
    size = math.sqrt(stats.f.isf(p, 2, 5) * within * 2 / missed)
    tuned = {
        rate: [level[rate] + size * shift + v for v in scatter[n]]
        for (rate, n), shift in zip(counts.items(), odd, strict=True)
    }
    means = np.array([fmean(of) for of in tuned.values()])
    whole = np.polyfit(np.arange(5), means, 2, w=np.sqrt(weights))
    three = np.polyfit(np.arange(1, 4), means[1:4], 2, w=np.sqrt(weights[1:4]))
    assert find_middle(tuned) == find_place(0.00562)
    assert fit_valley(tuned).bend * 16 == pytest.approx((whole if trusted else three)[0])


def test_without_seeds_to_hold_it_against_only_three_rates_are_trusted():
    lone = {0.00316: [1.44], 0.00562: [1.41], 0.01: [1.4], 0.0178: [1.415], 0.0316: [1.43]}
    three = {rate: lone[rate] for rate in (0.00562, 0.01, 0.0178)}
    assert fit_valley(lone) == fit_valley(three)


def test_the_vertex_stays_between_the_rates_tried_on_either_side():
    low = {0.00562: [1.4004], 0.01: [1.4], 0.0178: [1.5]}
    assert fit_valley(low).place < find_place(0.01) and choose_rate(low) == name_rate(14)
    falls = {0.00562: [1.4], 0.01: [1.399], 0.0178: [1.3982]}
    assert choose_rate(falls) == name_rate(23), "no rate was tried above: up to a quarter beyond"
    beside = {0.00562: [1.45], 0.01: [1.4], 0.0133: [1.399], 0.0178: [math.inf]}
    assert choose_rate(beside) in (name_rate(17), name_rate(18), name_rate(19))


def test_where_there_is_no_parabola_the_nearer_neighbour_s_cost_is_left():
    one = {0.00562: [1.402], 0.01: [1.39]}
    assert fit_valley(one) is None and choose_rate(one) == 0.01
    assert rates.measure_left(one, 0.003) == Left(0.0, pytest.approx(0.012))
    assert rates.measure_left({0.01: [1.39]}, 0.003) == Left(0.0, 0.003)
    bent = {0.01: [1.39], 0.0133: [1.4], 0.0178: [1.402]}
    assert fit_valley(bent) is None
    assert rates.measure_left(bent, 0.003) == Left(0.0, pytest.approx(0.01)), "the nearer one's"


def draw_left(tuned, sd, by_vertex, draws):
    """Draw the losses of every tuning run again, and choose; written here for three rates on."""
    luck = np.random.default_rng(3)
    valley, middle = fit_valley(tuned), find_middle(tuned)
    near = {p: len(of) for rate, of in tuned.items() if abs((p := find_place(rate)) - middle) <= 8}
    places, counts = np.array([*near], dtype=float), np.array([*near.values()])
    means = valley.bend * (places - valley.place) ** 2
    means = means + luck.normal(size=(draws, len(places))) * sd / np.sqrt(counts)
    lowest = np.where(counts == counts.max(), means, np.inf).argmin(1)
    chosen = places[lowest]
    if by_vertex:
        bends, slopes, _ = np.polyfit(places - 16, means.T, 2, w=np.sqrt(counts))
        every = sorted(find_place(rate) for rate in tuned)
        low = [max((p for p in every if p < at), default=at - 4) + 1 for at in places]
        high = [min((p for p in every if p > at), default=at + 4) - 1 for at in places]
        vertex = np.where(bends > 0, 16 - slopes / (2 * np.where(bends, bends, 1)), chosen)
        chosen = np.clip(np.round(vertex), np.array(low)[lowest], np.array(high)[lowest])
    return valley.bend * (chosen - valley.place) ** 2


WIDE = {0.00316: [1.43], 0.00562: [1.409, 1.412, 1.405], 0.01: [1.403, 1.399, 1.4],
        0.0178: [1.41, 1.413, 1.408], 0.0316: [1.436]}  # fmt: skip
# One seed tried the rate half-way: it counts for the parabola, and is never the best.
STEP = {0.00562: [1.409, 1.412, 1.405], 0.01: [1.401, 1.399, 1.4], 0.0133: [1.399],
        0.0178: [1.404, 1.407, 1.402]}  # fmt: skip
THREE = {0.00562: [1.404, 1.407], 0.01: [1.4, 1.402], 0.0178: [1.409, 1.406]}


@pytest.mark.parametrize("by_vertex", [True, False])
@pytest.mark.parametrize(
    "tuned", [THREE, TUNED["pre"], WIDE, STEP], ids=["3", "4", "5", "half step"]
)
def test_what_tuning_leaves_is_that_of_many_random_draws(tuned, by_vertex):
    lost = draw_left(tuned, 0.004, by_vertex, 200_000)
    left = rates.measure_left(tuned, 0.004, by_vertex=by_vertex)
    assert left.mean == pytest.approx(lost.mean(), rel=0.05)
    assert left.size == pytest.approx(math.sqrt((lost**2).mean()), rel=0.05)
    turned = dict(reversed(tuned.items()))
    again = rates.measure_left(turned, 0.004, by_vertex=by_vertex)
    assert (again.mean, again.size) == pytest.approx((left.mean, left.size), rel=1e-9)


def test_what_two_methods_lose_alike_cancels_in_their_difference():
    one, other = (draw_left(of, 0.004, True, 200_000) for of in (TUNED["pre"], WIDE))
    drawn = math.sqrt(((one - np.random.default_rng(1).permutation(other)) ** 2).mean())
    left, right = (rates.measure_left(of, 0.004) for of in (TUNED["pre"], WIDE))
    assert left.join(right) == right.join(left) == pytest.approx(drawn, rel=0.05)
    assert left.join(right) < math.hypot(left.size, right.size)
    assert Left(0.003, 0.003).join(Left(0.003, 0.003)) == 0, "a loss that is known is no doubt"
    assert left.join(Left()) == left.size


# -- all pairs --------------------------------------------------------------------------------
def make_grid(levels, rung):
    return [
        row(arm, seed, loss, rung=rung)
        for i, (arm, level) in enumerate(levels.items())
        for seed, loss in make_losses(level, list_strict_seeds(rung, arm), turn=i + 0.5).items()
    ]


def test_orders_count_pairs_told_apart_and_those_that_turn():
    small = {"pre": 1.40, "qk": 1.38, "post": 1.41, "lns": 1.4001, "none": 1.4022}
    large = {"pre": 1.30, "qk": 1.28, "post": 1.27, "lns": 1.2901, "none": 1.32}
    found = Results((*make_grid(small, "S"), *make_grid(large, "M")))
    seen = ladder.compare_orders(found, "S", "M")
    of = {rung: {} for rung in ("S", "M")}
    for rung, pairs in of.items():
        losses = read_losses(found, rung)
        scatter = pool_scatter(losses)
        names = [*losses]
        for i, one in enumerate(names):
            for other in names[i + 1 :]:
                gap = fmean(losses[other]) - fmean(losses[one])
                error = scatter.sd * math.sqrt(1 / len(losses[one]) + 1 / len(losses[other]))
                pairs[one, other] = gap, 2 * stats.t.sf(abs(gap) / error, scatter.freedom)
    told = {}
    for rung, pairs in of.items():
        ordered = sorted(pairs, key=lambda pair: pairs[pair][1])
        kept = []
        for rank, pair in enumerate(ordered):
            if pairs[pair][1] * (len(ordered) - rank) > 0.05:
                break
            kept.append(pair)
        told[rung] = set(kept)
    turned = {pair for pair in of["S"] if of["S"][pair][0] * of["M"][pair][0] < 0}
    raw = {pair for pair, (_, p) in of["S"].items() if p <= 0.05}
    assert raw > told["S"], "Holm's correction takes some back"
    assert turned > turned & told["S"], "a pair that nobody told apart can turn, too"
    assert set(seen.turned) == turned and seen.same == 10 - len(turned) and seen.pairs == 10
    assert seen.told == len(told["S"]) < 10 and seen.kept == len(told["S"] - turned)
    assert set(seen.against) == turned & told["S"] & told["M"] != set()
    assert set(orders.list_told_apart(orders.compare_all(found, "S", [*small]))) == told["S"]


def test_welch_s_test_is_counted_as_welch_s():
    """Ten wide runs against twenty narrow ones: one pooled variance would tell them apart."""
    narrow, wide = make_losses(1.40, TWENTY, spread=0.001), make_losses(1.4035, TEN, spread=0.008)
    rows = [row("pre", seed, loss) for seed, loss in narrow.items()]
    rows += [row("b2t", seed, loss) for seed, loss in wide.items()]
    rows += [row("qk", seed, loss + 1) for seed, loss in narrow.items()]
    tests = [
        stats.ttest_ind([*narrow.values()], [*wide.values()], equal_var=same).pvalue
        for same in (True, False)
    ]
    assert tests[0] < 0.05 < tests[1]
    counted = ladder.count_told_apart(Results(tuple(rows)), "S", ["pre", "b2t"])
    assert counted.pop("Welch's test") == 0
    assert {*counted.values()} == {0} and len(counted) == 2, "the wide arm stands alone; no pairs"
