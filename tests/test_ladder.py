"""The shared ladder: which runs are wanted when, what is read of them, and the verdict by rung."""

from functools import cache
from itertools import product
from pathlib import Path

import pytest

from labkit.experiments import Lab, Results, claim, ladder
from labkit.experiments.claims import collect_claims
from labkit.experiments.filling import MissingRuns
from labkit.experiments.records import LADDER, Records, from_row
from labkit.training import Record

LOSSES = {"pre": 1.40, "qk": 1.39, "no attention": 2.40}


def record(seed, test, lost_at=None):
    probes = {"test": {"loss": test}, "validation": {"loss": test}}
    return Record([], 1, diverged_at=lost_at, probes=probes, provenance={"seed": seed})


def read(run):
    """Answer as a ladder that is finished: 0.01 is the best rate, seed 1 a little worse."""
    name = {"qk": "qk"}.get(run.model.recipe, "pre")
    name = "no attention" if getattr(run.model, "differs", "") == "no attention" else name
    test = LOSSES[name] + abs(run.train.lr - 0.01) + 0.002 * (run.seed == 1 and name == "qk")
    return record(run.seed, test + 0.001 * (run.seed % 3))


def results(*rungs):
    return ladder.read_results(rungs, LOSSES, read)


def test_rates_are_tuned_with_one_seed_that_never_reports():
    runs = ladder.list_wanted_runs("S", ["pre"], read)
    tuning, final = runs[:-5], runs[-5:]
    assert sorted(run.train.lr for run in tuning) == [
        *(0.001, 0.00316, 0.00562, 0.01, 0.0178, 0.0316, 0.1)
    ]
    assert {run.seed for run in tuning} == {ladder.TUNING_SEED}
    assert {run.train.lr for run in final} == {0.01}
    assert [run.seed for run in final] == [*ladder.SEEDS] and ladder.TUNING_SEED not in ladder.SEEDS


def test_nothing_reports_before_the_rates_are_there():
    assert len(ladder.list_wanted_runs("S", ["pre"], lambda run: None)) == len(ladder.COARSE)
    assert ladder.list_final_runs("S", "pre", lambda run: None) == []


def test_a_larger_rung_tunes_beside_the_best_rate_of_the_rung_below():
    assert ladder.list_wanted_runs("M", ["pre"], lambda run: None) == []
    assert [run.train.lr for run in ladder.list_tuning_runs("M", "pre", read)] == [
        0.00562,
        0.01,
        0.0178,
    ]
    assert {run.model.dim for run in ladder.list_wanted_runs("M", ["pre"], read)} == {64}

    def moved(to):  # on the larger rung another rate would be best
        return lambda run: (
            read(run) if run.model.dim == 32 else record(run.seed, 1.4 + abs(run.train.lr - to))
        )

    rates = [run.train.lr for run in ladder.list_tuning_runs("M", "pre", moved(0.002))]
    assert rates == [0.001, 0.00178, 0.00316, 0.00562, 0.01, 0.0178]
    assert {run.train.lr for run in ladder.list_final_runs("M", "pre", moved(0.002))} == {0.00178}
    rates = [run.train.lr for run in ladder.list_tuning_runs("M", "pre", moved(0.09))]
    assert rates == [0.00562, 0.01, 0.0178, 0.0316, 0.0562, 0.1]
    assert {run.train.lr for run in ladder.list_final_runs("M", "pre", moved(0.09))} == {0.1}


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
        for run in ladder.list_wanted_runs(rung, ladder.ARMS, read_recorded)
    }
    assert rows and rows.keys() <= wanted


def test_a_lead_pairs_the_seeds_of_each_rung():
    found = ladder.lead(results("S", "M"), "qk")
    assert list(found) == ["S", "M"]
    assert found["S"] == pytest.approx([0.01, 0.008, 0.01, 0.01, 0.01])


def test_a_rung_where_a_seed_is_missing_or_diverged_has_no_lead():
    rows = results("S", "M").rows
    fewer = [r for r in rows if (r[0]["rung"], r[0]["arm"], r[0]["seed"]) != ("M", "qk", 3)]
    assert list(ladder.lead(Results(tuple(fewer)), "qk")) == ["S"]
    lost = [
        (labels, record(4, None, 7) if (labels["seed"], labels["rung"]) == (4, "M") else one)
        for labels, one in rows
    ]
    assert list(ladder.lead(Results(tuple(lost)), "qk")) == ["S"]
    assert ladder.lead(results("S"), "post") == {}


def test_arms_are_shown_side_by_side_on_a_rung_that_all_have_climbed():
    assert ladder.shared_rung(results("S", "M"), LOSSES) == "M"
    rows = results("S", "M").rows
    fewer = [r for r in rows if (r[0]["rung"], r[0]["arm"], r[0]["seed"]) != ("M", "qk", 3)]
    assert ladder.shared_rung(Results(tuple(fewer)), LOSSES) == "S"
    assert ladder.shared_rung(Results(tuple(fewer)), ["pre"]) == "M"
    with pytest.raises(ValueError, match="no rung on which pre, post have all reported"):
        ladder.shared_rung(results("S"), ["pre", "post"])


def test_what_a_comparison_lacks(monkeypatch):
    monkeypatch.setattr(ladder, "references", lambda rung: {"trigram counts": 1.89})
    assert ladder.lacking(results("S"), "qk") == []
    assert ladder.lacking(results("S", "M"), "qk") == []
    without = results("S").where(arm=["pre", "qk"])
    assert ladder.lacking(without, "qk") == [
        "too young to rank: attention is worth 0.00 nats, and 0.096 are needed"
    ]
    monkeypatch.setattr(ladder, "references", lambda rung: {"trigram counts": 1.2})
    assert "too young to rank: pre ends at 1.40 nats" in ladder.lacking(results("S"), "qk")[0]
    assert "have not both reported" in ladder.lacking(results("S"), "post")[0]


def test_the_table_has_an_arm_a_row_and_a_rung_s_columns():
    first, *_, last = ladder.table(results("S", "M"))
    assert (first["arm"], last["arm"]) == ("qk", "no attention")
    assert first["S: rate"] == 0.01 and first["S: lead"].startswith("+0.0096 [+0.0085")
    assert first["S: lost"] == pytest.approx((0.009 + 0.00684 + 0.0216 + 0.09) / 5)
    pre = next(row for row in ladder.table(results("S")) if row["arm"] == "pre")
    assert pre["S: lead"] == "" and "S: lead" not in ladder.table(results("S"), over=None)[0]


def test_a_rung_that_only_one_arm_has_climbed_has_no_columns():
    rows = [r for r in results("S", "M").rows if r[0]["rung"] == "S" or r[0]["arm"] == "pre"]
    table = ladder.table(Results(tuple(rows)))
    assert not [column for column in table[0] if column.startswith("M: ")]


UP, DOWN = (0.011, 0.010, 0.009), (-0.011, -0.010, -0.009)


def made(values, **options):
    with collect_claims() as found:
        claim("a-lead", "It leads by {mean:+.3f} on rung {rung}.", values,
              source="a test", criterion="> 0", kind="at", **options)  # fmt: skip
    return found[0]


@pytest.mark.parametrize(
    ("small", "large", "verdict"),
    [(UP, UP, "holds"), (UP, DOWN, "not-seen"), (DOWN, UP, "not-seen"),
     (DOWN, DOWN, "contradicted"), ((0.02, -0.001, -0.001), UP, "holds")],
)  # fmt: skip
def test_the_largest_rung_reports_and_every_rung_has_its_sign(small, large, verdict):
    one = made({"S": small, "M": large})
    assert (one.verdict, one.values) == (verdict, large)
    assert one.statement.endswith("on rung M.")
    agree = "agree" if verdict != "not-seen" else "disagree"
    assert f"{one.rungs['S']:.4g} on S: the rungs {agree}" in str(one)


def test_what_a_comparison_lacks_stands_on_the_card_and_leaves_no_verdict():
    one = made({"S": UP}, lacking=["too young to rank: 40 updates, and 2,000 are needed"])
    assert one.verdict == "not-seen" and "; too young to rank: 40 updates" in str(one)
    assert made({"S": UP}).verdict == "holds"


@pytest.mark.parametrize(("small", "large"), [*product((UP, DOWN), (UP, DOWN))])
def test_the_ledger_judges_by_rung_as_the_page_does(small, large):
    from press.book.holm import find_survivors, verdict_of

    entry = made({"S": small, "M": large}).to_dict() | {"chapter": "01"}
    assert verdict_of(entry) == entry["verdict"]
    assert bool(find_survivors({"a-lead": entry})) == (small == large)


def test_a_claim_on_a_rung_that_nobody_climbed_is_refused():
    with pytest.raises(ValueError, match="no rung has reported for both arms; train them with"):
        made({})


def test_a_lab_reads_a_ladder_that_is_there_and_names_what_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_ROOT", str(tmp_path))
    monkeypatch.setenv("LABKIT_ENGINE", "serial")
    monkeypatch.setenv("LABKIT_TRAIN", "never")
    with pytest.raises(MissingRuns, match="5 runs of pre on rung S have no record"):
        Lab("06_toy", size="book", seed=0).ladder(["pre"])
    monkeypatch.delenv("LABKIT_TRAIN")
    found = Lab("06_toy", size="smoke", seed=0).ladder(["pre", "qk"])
    assert set(ladder.lead(found, "qk")) == {"smoke"}
