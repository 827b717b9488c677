"""When a trained comparison may rank its arms: each condition, violated separately."""

from dataclasses import replace

import pytest

from labkit.corpora import Digits, Text
from labkit.experiments import Results, Run
from labkit.experiments.regime import (
    context,
    length,
    parameters,
    part,
    rates,
    seeds,
    too_young,
    untuned,
)
from labkit.model import Departure, ModelConfig
from labkit.training import Record, TrainConfig

RATES = (0.001, 0.003, 0.01, 0.03, 0.1)
GRID = {"pre": dict(zip(RATES, ([1.6], [1.5], [1.4, 1.41], [1.5], [None]), strict=True))}
# 80 thousand parameters, of which 16 · 32 tokens a step make 20 each.
RUN = Run(
    ModelConfig(dim=32, depth=6, context=32),
    Text(batch=16, time=32),
    TrainConfig(steps=3200, warmup=320),
)


def record(seed, **losses):
    probes = {split: {"loss": loss} for split, loss in losses.items()}
    return Record([], 1, probes=probes, provenance={"seed": seed})


def comparison(test=1.38, chose=(100, 101), report=range(5), rates=RATES):
    """Make records of two arms that meet all conditions, or all but one."""
    arms = ("pre", "post")
    tuned = [
        ({"arm": arm, "lr": rate}, record(seed, validation=1.4 + abs(rate - 0.01)))
        for arm in arms
        for rate in rates
        for seed in chose
    ]
    told = [({"arm": arm}, record(seed, test=test)) for arm in arms for seed in report]
    return Results(tuple(tuned)), Results(tuple(told))


def ask(run=RUN, trigram=1.89, worth=0.5, claimed=0.02, **change):
    return too_young(run, *comparison(**change), trigram=trigram, worth=worth, claimed=claimed)


def test_a_comparison_that_meets_every_condition_lacks_nothing():
    assert ask() == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"test": 2.1}, "too young to rank: pre ends at 2.10 nats, trigram counts end at 1.89"),
        ({"worth": 0.03}, "too young to rank: attention is worth 0.03 nats, and 0.2 are needed"),
        ({"report": range(4)}, "too few seeds: 4 fresh ones report, and 5 are needed"),
        ({"chose": (4,), "report": range(6)}, "not fresh: seeds 4 chose rates and report"),
        ({"rates": (0.001, 0.01, 0.1)}, "not tuned: pre has 3 rates, and 5 are needed"),
        ({"rates": (*RATES[2:], 0.3, 1.0)}, "not tuned: pre is best at 0.01, the end of its rates"),
        ({"rates": (0.006, 0.008, 0.01, 0.02, 0.03)}, "span a factor 5, not 100"),
        (
            {"run": replace(RUN, train=replace(RUN.train, warmup=800))},
            "too young to rank: warm-up takes 25% of the updates, above 10%",
        ),
        (
            {"run": replace(RUN, model=replace(RUN.model, dim=64))},
            "tokens a parameter, and 20 are needed",
        ),
    ],
)
def test_each_condition_is_said_in_words(change, words):
    failed = ask(**change)
    assert any(words in one for one in failed), failed
    # Nothing else fails, but for what goes with it: the other arm, and both sides of length.
    kinds = {one.partition(": ")[0] for one in failed}
    assert len(kinds) == 1, failed


@pytest.mark.parametrize(("tokens", "said"), [(19.6e6, []), (19.4e6, ["19"]), (3.4e6, ["3.4"])])
def test_a_length_that_fails_is_less_than_the_message_says(tokens, said):
    words = [f"too young to rank: {each} tokens a parameter, and 20 are needed" for each in said]
    assert length(2000, 200, tokens, 1_000_000) == words


def test_a_diverged_arm_has_not_learned_context():
    said = context({"pre": [1.4, 1.5], "none": [1.4, None], "post": [float("nan")]}, 1.89)
    assert [one.partition(": ")[2].partition(",")[0] for one in said] == [
        "none diverged",
        "post diverged",
    ]


@pytest.mark.parametrize(
    ("worth", "claimed", "enough"),
    [(0.3, 1.0, True), (0.29, 1.0, False), (0.1, 0.01, True), (0.1, -0.02, False)],
)
def test_a_part_is_worth_enough_outright_or_beside_what_is_claimed(worth, claimed, enough):
    assert (part(worth, claimed) == []) == enough


def test_rates_are_judged_arm_by_arm():
    assert rates(GRID) == []
    assert rates({"pre": {0.005: [1.4], 0.01: [1.39], 0.02: [1.4]}}, placed=True) == []
    (said,) = rates({"pre": {0.005: [1.4], 0.01: [1.39], 0.02: [1.38]}}, placed=True)
    assert said == "not tuned: pre is best at 0.02, the end of its rates"
    falling = {rate: [2 - rate] for rate in RATES}
    assert rates({**GRID, "post": falling}) == [
        "not tuned: post is best at 0.1, the end of its rates"
    ]
    tuning, final = comparison()
    failed = too_young(RUN, tuning.where(arm="pre"), final, trigram=1.89, worth=0.5, claimed=0.02)
    assert failed == ["not tuned: post has 0 rates, and 5 are needed"]


def test_the_choice_of_rates_alone_is_judged_under_any_label():
    tuning, _ = comparison()
    assert untuned(tuning, range(5)) == []
    designs = Results(tuple(({"design": row["arm"], "lr": row["lr"]}, r) for row, r in tuning))
    narrow = designs.where(lr=list(RATES[:3]))
    assert untuned(narrow, (0, 1, 2, 3, 100), by="design") == [
        said
        for name in ("pre", "post")
        for said in (
            f"not tuned: {name} has 3 rates, and 5 are needed",
            f"not tuned: the rates of {name} span a factor 10, not 100",
            f"not tuned: {name} is best at 0.01, the end of its rates",
        )
    ] + [
        "not fresh: seeds 100 chose rates and report",
        "too few seeds: 4 fresh ones report, and 5 are needed",
    ]


def test_the_least_is_enough():
    assert length(2000, 200, 2_000_000, 100_000) == []
    assert len(length(1999, 200, 1_700_000, 100_000)) == 3
    assert seeds(range(5), (5, 6)) == []


def test_parameters_are_those_that_are_trained():
    model = Departure(dim=32, depth=6, context=32, differs="no attention")
    blind = replace(RUN, model=model)
    assert parameters(RUN) - parameters(blind) == 6 * 4 * 32 * 32


def test_images_have_no_trigrams():
    with pytest.raises(ValueError, match="needs data of type Text, got Digits"):
        ask(replace(RUN, data=Digits()))
