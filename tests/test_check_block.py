"""labkit.check.block rejects wrong blocks with a cause, accepts right ones, has no side effects."""

import copy
import random
import time

import pytest
import torch
from blocks import (
    RIGHT,
    WRONG,
    WRONG_MODULES,
    Stranger,
    build,
    config,
    depart,
    rotate_first,
)
from each import some_quick
from torch import nn

from labkit import check
from labkit.check import block, run
from labkit.model import Block
from labkit.model.departures import Departure
from labkit.placements import RECIPES, PreNorm

TWO_HALVES = {"b2t", "hybrid", "normformer"}  # their steps differ: the feed-forward's are tried


def causes(report):
    return [law.cause for law in report.failed]


# --- the gate ---


def part_of(recipe):
    return "feed-forward" if recipe in TWO_HALVES else None


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_wrong_step_or_block_of_functions_is_rejected_with_its_cause(number):
    recipe, given, says = WRONG[number]
    report = block(given, recipe, part=part_of(recipe))
    assert not report.ok and any(says in cause for cause in causes(report)), report


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_a_right_step_or_block_of_functions_is_accepted(number):
    recipe, given = RIGHT[number]
    report = block(given, recipe, part=part_of(recipe))
    assert report.ok, report


@pytest.mark.parametrize("name", WRONG_MODULES)
def test_labkits_block_with_one_slip_is_rejected_with_its_cause(name):
    recipe, slip, says = WRONG_MODULES[name]
    given = Block(config(recipe), 5)
    slip(given)
    report = block(given, recipe, config(recipe), index=5)
    assert not report.ok and any(says in cause for cause in causes(report)), report


@pytest.mark.parametrize(
    "recipe",
    some_quick(RECIPES, "pre", "post", "sandwich", "keel", "lns", "mix-ln", "resi-dual",
               "realformer", "highway", "ngpt", "hybrid*", "normformer", "sub-ln", "gemma2"),
)  # fmt: skip
def test_labkits_block_keeps_the_laws(recipe):
    report = block(Block, recipe)
    assert report.ok, report


CONFIGS = {
    "encoder": {"kind": "encoder", "activation": "relu"},
    "LayerNorm, grouped heads": {"norm": "layer", "heads": 4, "kv_heads": 2},
    "scalar gains": {"norm": "scale"},
    "eps": {"norm": "rms-outside", "norm_eps": 1e-3},
    **{f"attention {norms}": {"qk_norm": norms} for norms in (
        "henry", "swin-v2", "cohere", "nanochat", "qk layer shift", "kv rms")},
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_labkits_block_keeps_them_with_other_configs(kind):
    report = block(Block, "pre", config("pre", **CONFIGS[kind]))
    assert report.ok, report


# --- which half, and how ---


def test_the_report_teaches():
    text = str(block(lambda x, f, norm, alpha: norm(x + alpha * f(x)), "deepnorm"))
    assert "α multiplies the branch f instead of the skip" in text
    assert "the recipe has N(α * x + f(x))" in text
    assert "expected" in text and "the value at position" in text


def test_each_half_is_told_apart():
    given = Block(config("pre"))
    given.attention.norm = nn.Identity()
    laws = {law.name: law.ok for law in block(given, "pre", config("pre")).laws}
    assert not laws["attention half"] and laws["feed-forward half"]


def test_two_parts_that_differ_are_both_named():
    given = Block(config("qk"))
    rotate_first(given)
    given.feed_forward.sublayer.activation = torch.relu
    cause = causes(block(given, "qk", config("qk")))[-1]
    assert "after_rope is True, not False" in cause and "activation is relu" in cause


def test_ngpts_faults_of_chapter_08_are_named():
    small = Departure(recipe="ngpt", dim=16, depth=2, heads=2, context=32)
    assert block(depart(None), "ngpt", small).ok
    for differs, says in (("no outer norm", "not renormalized"), ("wrong branch", "old stream")):
        report = block(depart(differs), "ngpt", small)
        assert says in causes(report)[0] and "both sublayers" in causes(report)[0]


def test_a_maker_is_held_to_every_block_of_the_stack():
    star = config("hybrid*")
    assert block(Block, "hybrid*", star).ok
    assert not block(build(lambda i: "hybrid"), "hybrid*", star, index=0).ok
    assert block(build(lambda i: "hybrid"), "hybrid*", star, index=2).ok
    assert not block(build(lambda i: "pre-qkv-pre"), "hybrid*", star, index=2).ok
    assert not block(build(lambda i: "pre-qkv-pre"), "hybrid*", star).ok


def test_a_note_says_which_block_a_step_was_held_against():
    report = block(lambda x, f, norm, norm_out, alpha: norm_out(alpha * x + f(norm(x))), "keel")
    assert report.ok and any("block 5 (from 0)" in note for note in report.notes)


def test_where_no_slip_fits_none_is_named():
    report = block(lambda x, f, norm: norm(torch.tanh(x) + f(x.sin())), "post")
    assert causes(report) == [""] * len(report.failed)
    assert "no cause that labkit knows fits the result" in report.notes


# --- what is refused, in words ---

STRANGERS = {
    "a stranger's block": Stranger(),
    "torch's layer": nn.TransformerEncoderLayer(16, 2, 24, 0.0, batch_first=True),
    "another width": Block(config("pre", dim=32)),
    "a linear map": nn.Linear(16, 16),
    "nothing": nn.Identity(),
    "a wrapper": PreNorm,
    "a function of x": lambda x: x,
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_strangers_module_gets_one_sentence_that_says_what_is_taken(name):
    report = block(STRANGERS[name], "pre", config("pre"))
    assert not report.ok and len(report.laws) == 1
    assert report.laws[0].message.startswith("check.block needs a step (x, f, norm), a block of")


def test_a_module_without_its_config_is_asked_for_it():
    assert "pass the config that it was made from" in str(block(Block(config("pre")), "pre"))


def test_what_cannot_be_checked_is_said():
    assert "experts" in str(block(Block, "pre", config("pre", experts=4)))
    assert "acts on each vector separately" in str(block(Block, "pre", config("pre", norm="batch")))
    report = block(lambda x, f, norm, warmth: x, "pre")
    assert "yours takes 'warmth'" in str(report) and "norm_out" in str(report)


HOSTILE = {
    "raises": lambda x, f, norm: 1 / 0,
    "exits": lambda x, f, norm: exit(),
    "a word": lambda x, f, norm: "x + f(norm(x))",
    "a number": lambda x, f, norm: x.sum(),
    "another shape": lambda x, f, norm: x[:, :1],
    "no forward": nn.Module(),
    "a maker of nothing": lambda config: None,
    "a maker that raises": lambda config: 1 / 0,
    "a number itself": 3,
    "a tensor": torch.zeros(3),
    "unanswered": ...,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_is_handed_in_makes_it_raise(name):
    report = block(HOSTILE[name], "pre")
    assert not report.ok and all(law.message for law in report.failed)


@pytest.mark.parametrize(("came", "said"), [(None, "None"), (..., "Ellipsis"), ("x", "a str")])
def test_an_answer_that_is_not_there_is_named(came, said):
    report = block(lambda x, f, norm: came, "pre")
    assert len(report.laws) == 1
    assert f"your code returned {said}, not the new stream" in str(report)


def test_what_the_caller_gets_wrong_raises():
    def step(x, f, norm):
        return x + f(norm(x))

    with pytest.raises(ValueError, match="unknown recipe"):
        block(step, "pree")
    with pytest.raises(ValueError, match="part must be 'attention' or 'feed-forward'"):
        block(step, "pre", part="middle")
    with pytest.raises(ValueError, match="part= is needed where a recipe's two sublayers differ"):
        block(step, "hybrid")
    with pytest.raises(ValueError, match="index must be from 0 to 5"):
        block(step, "pre", index=6)
    with pytest.raises(TypeError, match="ModelConfig"):
        block(step, "pre", {"dim": 32})
    with pytest.raises(ValueError, match="a single stack"):
        block(step, "pre", config("pre", kind="encoder-decoder"))
    with pytest.raises(ValueError, match="must be for the same recipe, got 'post' and 'pre'"):
        block(step, "pre", config("post"))


# --- what it must not do ---


def hang(x, f, norm):
    while True:
        pass


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr(run, "SECONDS_EACH", 0.5)
    started = time.monotonic()
    assert not block(hang, "pre").ok
    assert time.monotonic() - started < 4


def test_module_and_random_states_stay_as_they_were():
    given = Block(config("pre")).train()
    before = copy.deepcopy(given.state_dict())
    random.seed(3)
    torch.manual_seed(3)
    states = random.getstate(), torch.get_rng_state()
    assert check.block(given, "pre", config("pre")).ok
    assert given.training and all(p.grad is None for p in given.parameters())
    assert all(torch.equal(before[name], p) for name, p in given.state_dict().items())
    assert states[0] == random.getstate() and torch.equal(states[1], torch.get_rng_state())
