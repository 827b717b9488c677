"""The shared ladder: which runs are wanted when, rates, what is read, and the verdict by rung."""

import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean

import pytest
import torch
from claim_call import claim

from labkit.experiments import Lab, Results, ladder
from labkit.experiments.claims import collect_claims
from labkit.experiments.filling import MissingRuns
from labkit.experiments.ladder.method import MethodRuns, list_strict_seeds
from labkit.experiments.ladder.orders import compare_all
from labkit.experiments.ladder.plan import list_next_runs
from labkit.experiments.ladder.rates import choose_rate, fit_valley, measure_left
from labkit.experiments.ladder.reading import describe_progress, list_progress, read_results
from labkit.experiments.locks import Lock, add_lock
from labkit.experiments.records import LADDER, Records, from_row
from labkit.statistics import verdicts
from labkit.statistics.recorded import find_survivors, judge_again, p_value, rebuild_estimate
from labkit.training import Record

LOSSES = {"pre": 1.40, "qk": 1.39, "no attention": 2.40}
EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


def record(seed, test):
    probes = {"test": {"loss": test}, "validation": {"loss": test}}
    return Record([], 1, probes=probes, provenance={"seed": seed}, at=LATE)


def lies(run, best=0.01, bend=0.002):
    """A valley in log rate, `bend` nats for a step of a sixteenth of a decade, squared, by 16."""
    return bend * (16 * math.log10(run.train.lr / best) / 4) ** 2


def read_first(run):
    """Answer as a ladder whose first look is finished: 0.01 is the best rate on S."""
    seeds = (ladder.TUNING_SEED, *ladder.SEEDS)
    first = run.seed in seeds and run.model.depth == 6 and not run.train.weight_decay
    return read(run) if first else None


def read(run):
    """Answer as a ladder that is finished; seed 1 a little worse with QK-Norm."""
    name = {"qk": "qk"}.get(run.model.recipe, "pre")
    name = "no attention" if getattr(run.model, "differs", "") == "no attention" else name
    best = 0.01 if run.model.dim == 32 else 0.00562
    test = LOSSES[name] + lies(run, best) + 0.002 * (run.seed == 1 and name == "qk")
    return record(run.seed, test + 0.001 * (run.seed % 3))


def results(*rungs, of=read):
    return read_results(rungs, [*LOSSES], of)


# -- which runs -------------------------------------------------------------------------------
def test_a_first_look_tunes_with_one_seed_that_never_reports():
    runs = MethodRuns("S", "pre", read_first).wanted
    tuning, final = runs[:-5], runs[-5:]
    assert sorted(run.train.lr for run in tuning) == [
        *(0.001, 0.00316, 0.00562, 0.01, 0.0178, 0.0316, 0.1)
    ]
    assert {run.seed for run in tuning} == {ladder.TUNING_SEED}
    assert {run.train.lr for run in final} == {0.01}
    assert [run.seed for run in final] == [*ladder.SEEDS] and ladder.TUNING_SEED not in ladder.SEEDS


def test_a_strict_report_takes_the_place_of_the_first_look_when_it_is_whole():
    seeds = list_strict_seeds("S", "pre")
    assert len(seeds) == 20 and not {*seeds} & {*ladder.SEEDS, *ladder.TUNING_SEEDS}
    assert {run.seed for run in MethodRuns("S", "pre", read).finals} == {*seeds}
    tuning = MethodRuns("S", "pre", read).tuning
    by_rate = Counter(run.train.lr for run in tuning)
    assert by_rate[0.01] == by_rate[0.00562] == by_rate[0.0178] == 3 and by_rate[0.001] == 1
    last = max(seeds)

    def read_all_but_one(run):
        return None if run.seed == last else read(run)

    first = MethodRuns("S", "pre", read_all_but_one).finals
    assert {run.seed for run in first} == {*ladder.SEEDS}, "19 of 20 report nothing"
    assert not MethodRuns("S", "pre", read_all_but_one).is_strict


def test_nothing_reports_before_the_rates_are_there():
    assert len(MethodRuns("S", "pre", lambda run: None).wanted) == len(ladder.COARSE)
    assert MethodRuns("S", "pre", lambda run: None).finals == []
    assert MethodRuns("S", "pre", read_first).strict_finals == []


def test_a_larger_rung_is_searched_a_little_below_the_best_rate_of_s():
    assert MethodRuns("M", "pre", lambda run: None).wanted == []
    fine = MethodRuns("M", "pre", read_first).fine
    assert {run.train.lr for run in fine} == {0.00316, 0.00562, 0.01}
    assert {run.model.dim for run in fine} == {64}

    def moved(to):  # on the larger rung another rate would be best
        return lambda run: (
            read(run) if run.model.dim == 32 else record(run.seed, 1.4 + lies(run, to))
        )

    assert {run.train.lr for run in MethodRuns("M", "pre", moved(0.00178)).fine} == {
        *(0.001, 0.00178, 0.00316, 0.00562, 0.01)
    }
    grown = {run.train.lr for run in MethodRuns("M", "pre", moved(0.0001)).fine}
    assert min(grown) == 0.0001, "the grid grows where the best is an end"
    assert max(run.train.lr for run in MethodRuns("M", "pre", moved(1.0)).fine) == 1.0
    assert {run.train.lr for run in MethodRuns("M", "pre", moved(0.00178)).strict_finals} == {
        0.00178
    }


def test_a_direction_changes_one_thing_of_its_size():
    for name in ladder.DIRECTIONS:
        size = ladder.find_size(name)
        assert size in ladder.SIZES and ladder.find_size(size) == size
        here, there = ladder.build_base_run(size, "pre"), ladder.build_base_run(name, "pre")
        depth = there.model.depth != here.model.depth
        decay = there.train.weight_decay != here.train.weight_decay
        text = there.data != here.data
        assert depth + decay + text == 1, name
        assert there.train.steps == here.train.steps
    for name in ("W", "MW"):
        assert ladder.build_base_run(name, "pre").train.decayed == "matrices"


@pytest.mark.parametrize("rung", ["S", "MW"])
def test_embeddings_that_start_at_a_size_differ_in_nothing_else(rung):
    for arm in (name for name in ladder.ARMS if name.endswith(", drawn 0.02")):
        weights = []
        for name in (arm.partition(",")[0], arm):
            torch.manual_seed(0)
            weights.append(dict(ladder.build_base_run(rung, name).model.build().named_parameters()))
        usual, drawn = weights
        assert drawn.keys() == usual.keys() and drawn["embedding.weight"].requires_grad
        for name, weight in usual.items():
            factor = 0.02 if name == "embedding.weight" else 1.0
            assert torch.equal(drawn[name], weight * factor), (arm, name)


def test_every_arm_of_a_rung_has_the_others_data_and_length():
    runs = [ladder.build_base_run("S", arm) for arm in ladder.ARMS]
    assert len({run.data for run in runs}) == len({run.train.steps for run in runs}) == 1
    assert len({run.hash_configuration() for run in runs}) == len(runs), "two arms are one"


def test_it_asks_for_every_run_that_is_recorded():
    rows = Records(Path(__file__).parents[1]).load_rows(LADDER)

    @cache
    def read_recorded(run):
        return from_row(rows[key]) if (key := run.key()) in rows else None

    wanted = {
        run.key()
        for rung in ladder.CLIMBED
        for arm in ladder.ARMS
        for run in MethodRuns(rung, arm, read_recorded).every
    }
    assert rows and rows.keys() <= wanted


def test_the_plan_goes_arm_by_arm_and_ends():
    steps = list(list_next_runs(lambda run: None))
    assert all(run.seed in (ladder.TUNING_SEED, *ladder.SEEDS) for run in steps[0])
    assert list(list_next_runs(read)) == []
    (room,) = list_next_runs(lambda run: None, [("room", ["pre"])])
    tried = {(run.train.lr, run.seed) for run in room}
    assert tried == {*product(ladder.COARSE, ladder.TUNING_SEEDS)} and len(room) == 15
    first = next(list_next_runs(read_first))
    assert {(run.model.recipe, run.model.embedding_drawn) for run in first} == {("pre", 0.02)}


def test_a_whole_strict_report_needs_no_first_look():
    looks = {run.key() for run in MethodRuns("S", "pre", read).first_finals}
    strict = list(list_next_runs(lambda run: None if run.key() in looks else read(run)))
    assert looks and strict == []


def test_a_search_that_goes_on_says_at_which_end_its_best_rate_is():
    begun = describe_progress(
        MethodRuns("S", "pre", lambda run: read_first(run) if run.train.lr < 0.005 else None)
    )
    assert begun.why.endswith("2 learning rates tried; the best so far, 0.00316, is the highest, "
                              "so the search continues")  # fmt: skip
    assert begun.trained == 2


@pytest.mark.slow
def test_progress_lists_every_arm_on_every_rung():
    progress = {(one.rung, one.arm): one for one in list_progress(read_first)}
    assert len(progress) == len(ladder.CLIMBED) * len(ladder.ARMS)
    assert progress["S", "lns"].state == "first look"
    assert progress["D", "pre"].state == "nothing"
    assert {one.state for one in list_progress(read, ["S", "D"])} == {"strict"}

    def read_begun(run):
        return read(run) if run.model.depth == 6 or run.seed == 1000 else None

    begun = {one.arm: one.state for one in list_progress(read_begun, ["D"])}
    assert begun["pre"] == "half-way"


# -- rates ------------------------------------------------------------------------------------
def test_a_rate_at_which_a_seed_does_not_learn_is_no_part_of_a_parabola():
    """It stands on letter frequencies, and would draw the vertex below the best rate tried."""
    tuned = {
        rate: [1.4 + 0.0003 * (16 * math.log10(rate / 0.0049)) ** 2] * 3
        for rate in (0.00178, 0.00316, 0.00422)
    }
    for failed in ([1.5, 1.7, 3.0], [3.0, 3.0, 3.0], [1.5, math.inf, 1.4]):
        with_it = tuned | {0.00562: failed}
        assert fit_valley(with_it) == fit_valley(tuned)
        assert choose_rate(with_it) == 0.00487
        assert measure_left(with_it, 0.003).size < 0.01


def test_three_seeds_try_the_rate_half_way_to_one_at_which_a_seed_does_not_learn():
    def make_read(cliff, of_cliff):
        def read_below(run):
            lr, seed = run.train.lr, run.seed
            loss = 1.4 + 0.0003 * (16 * math.log10(lr / 0.01)) ** 2
            loss = of_cliff[seed % 3] if lr >= cliff else loss
            return Record([], 1, probes={"validation": {"loss": loss}}, provenance={"seed": seed})

        return read_below

    for failed in ((3.0, 1.5, 1.5), (math.inf,) * 3):
        asked = {run.train.lr for run in MethodRuns("S", "pre", make_read(0.0178, failed)).fine}
        assert asked == {0.00562, 0.01, 0.0133, 0.0178}
    steep = {run.train.lr for run in MethodRuns("S", "pre", make_read(0.0178, (1.9,) * 3)).fine}
    assert steep == {0.00562, 0.01, 0.0178}, "a steep wall is part of the valley"


def test_a_rate_is_chosen_by_validation_never_by_test():
    def read_split(run):
        probes = {"validation": {"loss": 1.4 + lies(run)}, "test": {"loss": 1.4 - lies(run)}}
        return Record([], 1, probes=probes, provenance={"seed": run.seed})

    assert {run.train.lr for run in MethodRuns("S", "pre", read_split).strict_finals} == {0.01}


# -- what is read -----------------------------------------------------------------------------
def test_the_scatter_of_a_rung_is_that_of_all_its_arms():
    found = ladder.read_ladder(["S"], ["pre", "qk"], read)
    assert {row[0]["arm"] for row in found} == {"pre", "qk"}
    assert found.scatters["S"].freedom > 30 * 9, "all arms count, not only these two"
    part = found.where(arm=["pre", "qk"])
    assert ladder.measure_scatter(part, "S") == found.scatters["S"], "a part has it, too"
    whole, own = (ladder.improvement(one, "qk")["S"].compute_interval() for one in (found, part))
    row = next(row for row in ladder.table(part) if row["recipe"] == "qk")
    assert own == whole and row["S: improvement"].endswith(f"[{whole[0]:+.4f}, {whole[1]:+.4f}]")


def test_other_arms_give_their_scatter_as_they_are_recorded():
    """A chapter must not change because this machine trained an arm that it did not ask for."""
    of_post = [
        *MethodRuns("S", "post", read).tuning,
        *MethodRuns("S", "post", read).finals,
    ]
    recorded = {run.key() for run in of_post}

    def read_recorded(run):
        return read(run) if run.key() in recorded else None

    found = ladder.read_ladder(["S"], ["pre", "qk"], read, read_recorded)
    own = ladder.read_ladder(["S"], ["pre", "qk"], read, lambda run: None)
    seeds = len(MethodRuns("S", "post", read).finals)
    assert found.scatters["S"].freedom == own.scatters["S"].freedom + seeds - 1


def test_arms_are_shown_side_by_side_on_a_rung_that_all_have_climbed():
    assert ladder.shared_rung(results("S", "M", "D"), LOSSES) == "M"
    rows = results("S", "M", of=read_first).rows
    fewer = [r for r in rows if (r[0]["rung"], r[0]["arm"], r[0]["seed"]) != ("M", "qk", 3)]
    assert ladder.shared_rung(Results(tuple(fewer)), LOSSES) == "S"
    assert ladder.shared_rung(Results(tuple(fewer)), ["pre"]) == "M"
    with pytest.raises(
        ValueError, match="a model size at which all of pre, post have evaluation runs"
    ):
        ladder.shared_rung(results("S"), ["pre", "post"])


def test_what_a_comparison_lacks(monkeypatch):
    from labkit.experiments.ladder import comparing

    monkeypatch.setattr(comparing, "references", lambda rung: {"trigram counts": 1.89})
    assert ladder.improvement(results("S"), "qk").list_lacking() == []
    assert ladder.improvement(results("S", "M", "D"), "qk").largest == "M"
    assert ladder.improvement(results("S", "M"), "qk").list_lacking() == []
    assert ladder.improvement(results("S", "D"), "qk").find_lacking("D") == []
    without = results("S").where(arm=["pre", "qk"])
    assert "attention is worth 0.00 nats" in ladder.improvement(without, "qk").list_lacking()[0]
    monkeypatch.setattr(comparing, "references", lambda rung: {"trigram counts": 1.2})
    lacks = ladder.improvement(results("S"), "qk").list_lacking()
    assert "too young to rank: qk ends at 1.39 nats" in lacks[1]
    assert "have not both reported" in ladder.improvement(results("S"), "post").list_lacking()[0]


def test_the_table_has_an_arm_a_row_and_a_rung_s_columns():
    first, *_, last = ladder.table(results("S", "M"))
    assert (first["recipe"], last["recipe"]) == ("qk", "no attention")
    assert first["S: rate"] == 0.01 and first["S: n"] == 20
    assert first["S: improvement"].startswith("+0.0")
    coarse = fmean(ladder_loss(rate) for rate in ladder.COARSE)
    near_coarse = pytest.approx(coarse, abs=1e-4)
    assert first["S: sensitivity"] == near_coarse, "three seeds at every coarse rate"
    tuning, room = (
        {(of["lr"], of["seed"]) for of, _ in results("S").where(arm="qk", stage=stage)}
        for stage in ("tuning", "room")
    )
    assert not tuning & room and tuning | room > {*product(ladder.COARSE, ladder.TUNING_SEEDS)}
    pre = next(row for row in ladder.table(results("S")) if row["recipe"] == "pre")
    assert pre["S: improvement"] == ""


def test_a_direction_has_its_loss_and_its_lead_alone():
    first, *_ = ladder.table(results("S", "D"))
    assert [name for name in first if name.startswith("D: ")] == ["D: test", "D: improvement"]


def ladder_loss(rate):
    """What a coarse rate loses against the best, capped at letter frequencies."""
    lost = 0.002 * (4 * math.log10(rate / 0.01)) ** 2
    return min(lost, ladder.FREQUENCIES - 1.39)


def test_a_rung_that_only_one_arm_has_climbed_has_no_columns():
    rows = [r for r in results("S", "M").rows if r[0]["rung"] == "S" or r[0]["arm"] == "pre"]
    table = ladder.table(Results(tuple(rows)))
    assert not [column for column in table[0] if column.startswith("M: ")]


# -- all pairs --------------------------------------------------------------------------------
LEVEL = {"pre": 0.0, "qk": -0.03, "post": 0.02, "hybrid": 0.021}


def shift(up_by):
    """Simulate finished runs of four methods at one size; `up_by` shifts each run's loss."""

    def read_shifted(run):
        found = read(run)
        up = up_by(run.model.recipe, run.seed)
        probes = {kind: {"loss": at["loss"] + up} for kind, at in found.probes.items()}
        return replace(found, probes=probes)

    return read_results(("S",), [*LEVEL], read_shifted)


def test_one_scatter_for_all_tells_more_apart_than_pairs_of_few_and_tuning_takes_some_back():
    found = shift(lambda arm, seed: LEVEL[arm] + 0.0005 * math.sin(seed * len(arm)))
    counted = ladder.count_told_apart(found, "S", [*LEVEL])
    without_tuning = counted["the same test without the uncertainty from tuning"]
    assert without_tuning >= counted["the board's test"] >= 4
    pairs = compare_all(found, "S", ["pre", "qk"])
    assert list(pairs) == [("pre", "qk")] and pairs["pre", "qk"].mean < -0.02, "of its first"
    whole = ladder.improvement(found, "pre", over="qk")["S"]
    assert pairs["pre", "qk"].compute_interval() == whole.compute_interval(), "one for all arms"
    assert ladder.compare_orders(found.where(arm="pre"), "S", "M").pairs == 0
    both = ladder.compare_orders(results("S", "M"), "S", "M")
    assert both.pairs == 1, "a model without attention is no method"


def test_pairs_are_of_one_seed():
    found = shift(
        lambda arm, seed: (
            LEVEL[arm] / 10 + 0.1 * math.sin(9 * seed) + 1e-4 * math.sin(7 * seed * len(arm))
        )
    )
    counted = ladder.count_told_apart(found, "S", [*LEVEL])
    assert counted["a paired test with five seeds"] >= 5, "a seed weighs ten times an arm"
    assert counted["Welch's test"] == 0


# -- the verdict by rung ----------------------------------------------------------------------
UP, DOWN, OPEN = (0.011, 0.010, 0.009), (-0.011, -0.010, -0.009), (0.02, -0.01, -0.005)


def made(values, **options):
    with collect_claims() as found:
        on = " on rung {rung}." if isinstance(values, dict) else "."
        claim("a-lead", "It leads by {mean:+.3f}" + on, values,
              source="a test", criterion="> 0", kind="at", **options)  # fmt: skip
    return found[0]


@pytest.mark.parametrize(
    ("values", "verdict", "only"),
    [
        ({"S": UP, "M": UP}, "holds", None),
        ({"S": OPEN, "M": UP}, "holds-on-one", "M"),
        ({"S": UP, "M": DOWN}, "not-seen", None),
        ({"S": DOWN}, "contradicted", "S"),
        ({"S": UP, "M": UP, "D": OPEN, "W": UP}, "holds", None),
        ({"W": UP}, "holds-on-one", "W"),
        ({"W": DOWN}, "contradicted", "W"),
    ],
)
def test_a_ranking_holds_on_two_sizes_where_no_direction_contradicts(values, verdict, only):
    one = made(values)
    assert (one.verdict, one.only) == (verdict, only)
    largest = [rung for rung in values if rung in ladder.SIZES] or [*values]
    assert one.statement.endswith(f"on rung {largest[-1]}.")
    assert one.values == values[largest[-1]]
    if only:
        where = "in variant" if only == "W" else "at size"
        verb = "holds" if verdict == "holds-on-one" else verdict
        assert f"{where} {only}" in one.to_html() and f"{verb} {where} {only}" in str(one)


def test_a_card_has_the_letters_of_its_rungs():
    card = made({"S": UP, "M": UP, "D": DOWN, "W": OPEN}).to_html()
    for part in (">S</b>", ">M</b>", ">D</s>", ">W</span>"):
        assert part in card


def test_what_a_comparison_lacks_stands_on_the_card_and_leaves_no_verdict():
    for values in ({"S": UP}, UP):
        one = made(values, lacking=["too young to rank: 40 updates, and 2,000 are needed"])
        assert one.verdict == "not-seen" and one.weak is False
        assert "; too young to rank: 40 updates" in str(one)
        assert judge_again(one.to_dict()).weak is False
    assert made({"S": UP, "M": UP}).verdict == "holds" and made({"S": UP}).weak is True


@pytest.mark.parametrize(("small", "large"), [*product((UP, DOWN), (UP, DOWN))])
def test_the_ledger_judges_by_rung_as_the_page_does(small, large):
    entry = made({"S": small, "M": large}).to_dict() | {"chapter": "01"}
    assert judge_again(entry) == judge_again(entry, paired=True)
    assert judge_again(entry) == (entry["verdict"], entry["only"], entry["weak"])
    assert bool(find_survivors({"a-lead": entry})) == (small == large)


def test_verdicts_know_the_ladder_s_directions():
    assert verdicts.DIRECTIONS == ladder.DIRECTIONS


def test_a_recorded_lead_is_judged_and_drawn_as_the_page_does():
    one = made(ladder.improvement(results("S", "M"), "qk"))
    entry = one.to_dict() | {"chapter": "01"}
    assert judge_again(entry).verdict == entry["verdict"] == "holds"
    assert rebuild_estimate(entry).compute_interval() == pytest.approx(one.interval, rel=1e-3)
    assert p_value(entry) < 0.05
    assert "10 and 10 seeds, unpaired, pooled standard deviation" in str(one)
    assert math.fsum(one.estimate.pairs) / 10 == pytest.approx(one.mean), (
        "the same seeds on both sides"
    )
    assert re.search(r"; paired: \S+ \[\S+, \S+\], 10 shared seeds;", str(one))


def test_a_lab_reads_a_ladder_that_is_there_and_names_what_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.setenv("LABKIT_ENGINE", "serial")
    monkeypatch.setenv("LABKIT_TRAIN", "never")
    with pytest.raises(MissingRuns, match="5 runs of pre at size S have no record"):
        Lab("06_toy", size="book", seed=0).ladder(["pre"])
    monkeypatch.delenv("LABKIT_TRAIN")
    for module in ("", ".comparing"):  # a rung whose runs take no time
        monkeypatch.setattr(f"labkit.experiments.ladder{module}.CLIMBED", ("smoke",))
    Lab("06_toy", size="book", seed=0).ladder(["pre"])
    monkeypatch.setenv("LABKIT_TRAIN", "never")
    with pytest.raises(MissingRuns, match="runs of qk at size smoke have no record"):
        Lab("06_toy", size="book", seed=0).ladder(["pre", "qk"])
    monkeypatch.delenv("LABKIT_TRAIN")
    found = Lab("06_toy", size="book", seed=0).ladder(["pre", "qk"])
    assert set(ladder.improvement(found, "qk")) == {"smoke"}


# -- locked comparisons -----------------------------------------------------------------------
def test_a_locked_comparison_shows_its_card_or_waits(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    asked = {"said": "QK-Norm ends lower.", "criterion": "> 0", "arms": ("qk", "pre"), "n": 20,
             "margin": 0.005, "rate": "vertex", "sort": "ranking", "probability": 0.8,
             "paper": None, "at": EARLY, "commit": "abc"}  # fmt: skip
    add_lock(tmp_path, Lock(id="10-here", rungs=("S",), **asked))
    add_lock(tmp_path, Lock(id="10-deep", rungs=("D",), **asked))
    add_lock(tmp_path, Lock(id="10-both", rungs=("S", "D"), **asked))
    add_lock(tmp_path, Lock(id="10-free", rungs=(), **asked))
    add_lock(tmp_path, Lock(id="10-none", rungs=(), **asked | {"arms": ()}))
    found = ladder.read_ladder(["S"], [*LOSSES], read)
    names = {"qk": "QK-Norm"}
    with collect_claims() as made:
        assert ladder.claim_locked(found, "10-deep", "a test", names=names) is None
        shown = ladder.claim_locked(found, "10-here", "a test", names=names, published="lower")
    assert "10-deep waits for its runs. Asked: QK-Norm ends lower. We give it 80%." in (
        capsys.readouterr().out
    )
    assert made == [shown] and [*shown.rungs] == ["S"] and shown.published == "lower"
    assert "At size S, with tuned learning rates, the test loss of QK-Norm is" in str(shown)
    assert "nats lower than that of pre." in str(shown)
    larger = ladder.read_ladder(["S", "D"], [*LOSSES], read)
    varied, both, free = (
        ladder.claim_locked(larger, f"10-{name}", "a") for name in ("deep", "both", "free")
    )
    assert [*free.rungs] == ["S", "D"] and not free.estimate.paired, "as its lock says"
    assert "With 12 blocks and tuned learning rates, the test loss of qk is" in str(varied)
    assert "At size S, with tuned learning rates, the test loss of qk is" in str(both)
    for id in ("10-none", "10-gone"):
        with pytest.raises(ValueError, match=rf"'{id}' has none; `labkit claims lock`"):
            ladder.claim_locked(found, id, "a test")


def test_a_claim_on_rungs_that_nobody_reported_waits_for_its_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    lead = ladder.improvement(ladder.read_ladder(["S"], [*LOSSES], read), "qk")
    assert [*lead.only("S", "D")] == ["S"] and not lead.only("D")
    with collect_claims() as made:
        assert lead.only("D").claim("10-deep", "> 0", "QK-Norm ends lower.") is None
    assert capsys.readouterr().out == "10-deep waits for its runs. Asked: QK-Norm ends lower.\n"
    assert not made
