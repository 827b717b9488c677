"""All pairs of a rung: which test separates them, and agreement with other rungs."""

import math
from dataclasses import replace

from labkit.experiments import ladder
from labkit.experiments.ladder.orders import compare_all
from labkit.experiments.ladder.reading import read_results
from tests.test_ladder import read

LEVEL = {"pre": 0.0, "qk": -0.03, "post": 0.02, "hybrid": 0.021}


def shift(at_m=None):
    """Make a finished ladder of four arms; `at_m` gives the mean losses on rung M."""

    def read_shifted(run):
        of = at_m if at_m and run.model.dim == 64 else LEVEL
        found = read(run)
        up = of[run.model.recipe] + 0.0005 * math.sin(run.seed * len(run.model.recipe))
        probes = {kind: {"loss": at["loss"] + up} for kind, at in found.probes.items()}
        return replace(found, probes=probes)

    return read_results(("S", "M"), [*LEVEL], read_shifted)


def test_rungs_that_agree_have_every_pair_in_the_same_order():
    found = ladder.compare_orders(shift(), "S", "M")
    assert (found.same, found.pairs, found.turned) == (6, 6, ())
    assert found.told == found.kept >= 4 and found.against == ()


def test_the_lead_of_a_pair_is_its_first_arm_s():
    pairs = compare_all(shift(), "S", ["pre", "qk"])
    assert list(pairs) == [("pre", "qk")] and pairs["pre", "qk"].mean < -0.02


def test_a_pair_that_turns_is_named_and_one_that_both_rungs_tell_apart_is_against():
    found = ladder.compare_orders(shift({**LEVEL, "qk": 0.06}), "S", "M")
    assert {frozenset(pair) for pair in found.turned} == {
        *(frozenset({"qk", other}) for other in ("pre", "post", "hybrid"))
    }
    assert found.same == 3 and found.kept == found.told - 3
    assert {frozenset(pair) for pair in found.against} >= {frozenset({"qk", "pre"})}


def test_one_scatter_for_all_tells_more_apart_than_pairs_of_few_and_tuning_takes_some_back():
    found = shift()
    counted = ladder.count_told_apart(found, "S", [*LEVEL])
    assert set(counted) == {"paired", "Welch", "pooled", "with what tuning leaves"}
    assert counted["pooled"] >= counted["with what tuning leaves"] >= 4


def test_pairs_are_of_one_seed():
    def read_seeded(run):
        found = read(run)
        recipe = run.model.recipe
        up = LEVEL[recipe] / 10 + 0.1 * math.sin(9 * run.seed)
        up += 1e-4 * math.sin(7 * run.seed * len(recipe))
        probes = {kind: {"loss": at["loss"] + up} for kind, at in found.probes.items()}
        return replace(found, probes=probes)

    found = read_results(("S",), [*LEVEL], read_seeded)
    counted = ladder.count_told_apart(found, "S", [*LEVEL])
    assert counted["paired"] >= 5 and counted["Welch"] == 0, "a seed weighs ten times an arm"


def test_two_rungs_without_a_shared_arm_have_no_pair():
    none = ladder.compare_orders(read_results(("S",), ["pre"], read), "S", "M")
    assert none.pairs == 0
