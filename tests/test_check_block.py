"""labkit.check.block rejects wrong blocks, says why, accepts right ones, and disturbs nothing."""

import copy
import random
import sys
import time

import pytest
import torch
from blocks_by_hand import config, hand, steps
from blocks_parts import PRE
from settled import EVERY, rest_after
from torch import nn
from variants_blocks import WRONG
from variants_blocks_right import RIGHT
from variants_blocks_users import RIGHT_USERS, WRONG_USERS

from labkit import placements
from labkit.check.blocks.block import block
from labkit.check.blocks.halves import FIRST, HALVES, halves, is_first
from labkit.model import Block
from labkit.placements import RECIPES

WRONG, RIGHT = WRONG | WRONG_USERS, RIGHT | RIGHT_USERS
EACH = [(family, name) for family, table in WRONG.items() for name in table]
GOOD = [(family, name) for family, table in RIGHT.items() for name in table]
SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("family", "name"), EACH)
def test_a_wrong_block_is_rejected_with_its_cause(family, name, seed, record_property, monkeypatch):
    given, recipe, cause, further = WRONG[family][name]
    if EACH.index((family, name)) % EVERY:
        rest_after(monkeypatch, lambda law: cause in law.cause)
    report = block(given, recipe, seed=seed, **further)
    record_property("mutation gate", (f"block, {family}", report.ok))
    assert not report.ok
    assert all(law.message for law in report.laws)
    assert any(cause in law.cause for law in report.failed), report


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("family", "name"), GOOD)
def test_a_right_block_is_accepted(family, name, seed):
    given, recipe, further = RIGHT[family][name]
    report = block(given, recipe, seed=seed, **further)
    assert report.ok, report


def test_the_gate_is_large_enough():
    assert WRONG.keys() == RIGHT.keys()
    assert all(len(table) >= 5 for table in WRONG.values())
    assert all(len(table) >= 3 for table in RIGHT.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_labkits_block_and_its_steps_keep_the_laws(recipe):
    report = block(Block, recipe)
    assert report.ok, report
    for part, step in (
        ("attention", RECIPES[recipe].block.attention),
        ("feed-forward", RECIPES[recipe].block.feed_forward),
    ):
        report = block(step, recipe, part=part)
        assert report.ok, report


KINDS = {
    "encoder": {"kind": "encoder", "activation": "relu"},
    "LayerNorm, grouped heads": {"norm": "layer", "heads": 4, "kv_heads": 2},
    "gelu": {"norm": "annotated-layer"},
    "scalar gains": {"norm": "scale"},
    "eps": {"norm": "rms-outside", "norm_eps": 1e-3},
}


@pytest.mark.parametrize("recipe", ["pre", "keel", "hybrid", "normformer", "sub-ln", "realformer"])
@pytest.mark.parametrize("kind", KINDS)
def test_labkits_block_keeps_them_with_other_configs(recipe, kind):
    asked = config(recipe, **KINDS[kind])
    report = block(Block, recipe, asked)
    assert report.ok, report


@pytest.mark.parametrize(
    "norms",
    ["henry", "swin-v2", "olmo2", "cohere", "nanochat", "vit-22b", "qk layer shift", "kv rms"],
)
def test_norms_inside_attention_that_a_config_asks_for(norms):
    assert block(Block, "pre", config("pre", qk_norm=norms)).ok
    other = config("pre", qk_norm="qkvc rms" if norms == "kv rms" else "kv rms")
    assert not block(Block(other), "pre", config("pre", qk_norm=norms)).ok


def test_every_recipe_has_a_reference_that_agrees_in_what_stands_where():
    assert HALVES.keys() == RECIPES.keys()
    for name, row in RECIPES.items():
        assert (name in FIRST) == (row.first is not None)
        for index in range(8):
            placed = row.placement(index, 8)
            assert is_first(name, index, 8) == (row.first is not None and placed is row.first)
            for half, step in zip(
                halves(name, index, 8), (placed.attention, placed.feed_forward), strict=True
            ):
                assert len(half.norms) == len(step.norms)


# --- what is recognized ---


def test_a_config_settles_what_is_open_without_one():
    seeing = steps(PRE, causal=False)
    report = block(seeing, "pre")
    assert report.ok and any("later tokens" in note for note in report.notes)
    assert not block(seeing, "pre", config("pre")).ok
    assert not block(steps(PRE), "pre", config("pre", norm="layer")).ok
    assert not block(steps(PRE), "pre", config("pre", activation="relu")).ok


def test_a_step_of_two_different_halves_can_be_named():
    def before(x, f, norm):
        return x + f(norm(x))

    assert block(before, "pre-post", part="attention").ok
    report = block(before, "pre-post", part="feed-forward")
    assert not report.ok and "normalized copy" not in str(report.notes)
    assert any("part=" in note for note in block(placements.PreNorm, "pre-post").notes)


def test_the_report_teaches():
    report = block(lambda x, f, norm, alpha: norm(x + alpha * f(x)), "deepnorm")
    text = str(report)
    assert "α multiplies the branch f instead of the skip" in text
    assert "N(x + α * f(x)) instead of N(α * x + f(x))" in text
    assert "expected" in text and "came" in text


def test_each_half_is_told_apart():
    wrong = steps(PRE, lambda x, f, n, b: n(x + f(x)))
    laws = {law.name: law.ok for law in block(wrong, "pre").laws}
    assert laws["attention half"] is False  # the feed-forward's norm stands on its stream too
    laws = {law.name: law.ok for law in block(steps(lambda x, f, n, b: x + f(x), PRE), "pre").laws}
    assert not laws["attention half"] and laws["feed-forward half"]


# --- what it must not do ---


class Hanging(nn.Module):
    def forward(self, x):
        while True:
            pass


class Random(nn.Module):
    def __init__(self, make_norm, sublayer):
        super().__init__()
        self.norm, self.sublayer = make_norm(), sublayer

    def forward(self, x):
        return x + self.sublayer(self.norm(x)) * (1 + 0.01 * torch.rand(()))


HOSTILE = {
    "raises": lambda x, f, norm: 1 / 0,
    "exits": lambda x, f, norm: exit(),
    "nothing": lambda x, f, norm: None,
    "a word": lambda x, f, norm: "x + f(norm(x))",
    "a number": lambda x, f, norm: x.sum(),
    "another shape": lambda x, f, norm: x[:, :1],
    "random": Random,
    "no parameters": nn.Identity(),
    "no forward": nn.Module(),
    "a maker of nothing": lambda config: None,
    "a maker that raises": lambda config: 1 / 0,
    "a linear map": nn.Linear(16, 16),
    "a number itself": 3,
    "a tensor": torch.zeros(3),
    "unanswered": ...,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_that_is_handed_in_makes_it_raise(name):
    report = block(HOSTILE[name], "pre")
    assert not report.ok and all(law.message for law in report.failed)


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr(sys.modules["labkit.check.blocks.block"], "SECONDS_EACH", 0.5)
    started = time.monotonic()
    assert not block(Hanging(), "pre").ok
    assert time.monotonic() - started < 4


def test_module_and_random_states_stay_as_they_were():
    given = hand(lambda b, x: x + b.a(b.n1(x)))(16, 2, 20).train()
    before = copy.deepcopy(given.state_dict())
    random.seed(3)
    torch.manual_seed(3)
    states = random.getstate(), torch.get_rng_state()
    block(given, "pre")
    block(Block, "pre")
    assert given.training and all(p.grad is None for p in given.parameters())
    assert all(torch.equal(before[name], p) for name, p in given.state_dict().items())
    assert states[0] == random.getstate() and torch.equal(states[1], torch.get_rng_state())


def test_what_the_caller_gets_wrong_raises():
    with pytest.raises(ValueError, match="unknown recipe"):
        block(Block, "pree")
    with pytest.raises(ValueError, match="part must be attention or feed-forward"):
        block(Block, "pre", part="middle")
    with pytest.raises(TypeError, match="ModelConfig"):
        block(Block, "pre", {"dim": 32})
    with pytest.raises(ValueError, match="one stack"):
        block(Block, "pre", config("pre", kind="encoder-decoder"))


def test_a_config_that_cannot_be_checked_is_said():
    report = block(Block, "pre", config("pre", experts=4))
    assert not report.ok and "experts" in str(report)
    report = block(Block, "pre", config("pre", norm="batch"))
    assert not report.ok and "norm of one vector" in str(report)


def test_what_does_not_fit_is_said():
    assert "Linear is no block" in str(block(nn.Linear(4, 4), "pre"))
    report = block(steps(PRE)(32, 2, 20), "pre", config("pre", dim=64))
    assert not report.ok and "width 32" in str(report) and "dim=64" in str(report)
    report = block(Block, "pre", config("post"))
    assert report.ok and any("for 'post'" in note for note in report.notes)
    wrong = block(lambda x, f, norm, norm_out, alpha: 3 * x + f(norm(x)), "keel", index=0)
    assert not wrong.ok and "multiply" not in str(wrong)
    assert any("block 5" in note for note in block(Block(config("mix-ln"), 5), "mix-ln").notes)
    plain = block(lambda x, f, norm: norm(torch.tanh(x) + f(x.sin())), "post")
    assert not plain.ok and all(law.cause == "" for law in plain.failed)


def test_what_attention_runs_over_is_found_fast():
    started = time.thread_time()
    report = block(WRONG_USERS["users"]["pre: transposed by hand"][0], "pre")
    assert "loop" not in str(report) and time.thread_time() - started < 3
