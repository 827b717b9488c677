"""labkit.check.block rejects wrong blocks, says why, accepts right ones, and disturbs nothing."""

import copy
import random
import time
from dataclasses import replace

import pytest
import torch
from blocks import (
    FOREIGN,
    RIGHT_STEPS,
    SLIPS,
    WRONG_FOREIGN,
    WRONG_STEPS,
    Fused,
    TwoModes,
    change,
    config,
    fused,
)
from torch import nn

from labkit import placements
from labkit.check import block, run
from labkit.model import Block
from labkit.placements import RECIPES


def quick(*few):
    """Take a few recipes into the quick run, and the others into the slow one."""
    return [r if r in few else pytest.param(r, marks=pytest.mark.slow) for r in RECIPES]


def causes(report):
    return [law.cause for law in report.failed]


# --- the gate ---


@pytest.mark.parametrize("recipe", quick("pre", "deepnorm", "hybrid", "ngpt"))
def test_labkits_block_with_one_slip_is_rejected_with_its_cause(recipe, record_property):
    """The table recipe × slip: all are rejected, and what explains them names the slip."""
    asked, unnamed, tried = config(recipe), [], 0
    for name, slip in SLIPS.items():
        given = Block(asked, 5)
        says = slip(given)
        if says is None:
            continue
        report = block(given, recipe, asked, index=5)
        record_property("mutation gate", (f"block, {name}", report.ok))
        assert not report.ok, name
        assert all(law.message for law in report.failed)
        tried += 1
        if not any(says in cause for cause in causes(report)):
            unnamed.append((name, causes(report)[:1]))
    assert tried >= 6 and len(unnamed) <= 0.1 * tried, unnamed


@pytest.mark.parametrize("recipe", quick("post", "normformer"))
def test_another_recipes_block_is_rejected_and_recognized(recipe):
    row = RECIPES[recipe]
    others = [name for name, other in RECIPES.items() if not other.sphere and not row.sphere
              and other.block.equations != row.block.equations
              and other.norm == row.norm and not {"resi-dual", "realformer"} & {name}]  # fmt: skip
    for other in others[:: max(1, len(others) // 4)]:
        report = block(Block(config(other), 5), recipe, config(recipe), index=5)
        assert not report.ok, other


@pytest.mark.parametrize("number", range(len(WRONG_STEPS)))
def test_a_wrong_step_is_rejected_with_its_cause(number):
    recipe, given, says = WRONG_STEPS[number]
    report = block(given, recipe)
    assert not report.ok and any(says in cause for cause in causes(report)), report


@pytest.mark.parametrize("name", WRONG_FOREIGN)
def test_a_wrong_foreign_block_is_rejected_with_its_cause(name):
    recipe, make, says, further = WRONG_FOREIGN[name]
    report = block(make(), recipe, **further)
    assert not report.ok and any(says in cause for cause in causes(report)), report


@pytest.mark.parametrize("name", FOREIGN)
def test_a_right_foreign_block_is_accepted(name):
    recipe, make, further = FOREIGN[name]
    report = block(make(), recipe, **further)
    assert report.ok, report


@pytest.mark.parametrize("number", range(len(RIGHT_STEPS)))
def test_a_right_step_is_accepted(number):
    recipe, given = RIGHT_STEPS[number]
    report = block(given, recipe)
    assert report.ok, report


@pytest.mark.parametrize(
    "recipe", quick("pre", "post", "sandwich", "keel", "lns", "mix-ln", "resi-dual", "realformer",
                    "highway", "ngpt", "hybrid*")
)  # fmt: skip
def test_labkits_block_and_its_steps_keep_the_laws(recipe):
    report = block(Block, recipe)
    assert report.ok, report
    for part in ("attention", "feed-forward"):
        step = getattr(RECIPES[recipe].block, part.replace("-", "_"))
        report = block(step, recipe, part=part)
        assert report.ok, report


KINDS = {
    "encoder": {"kind": "encoder", "activation": "relu"},
    "LayerNorm, grouped heads": {"norm": "layer", "heads": 4, "kv_heads": 2},
    "another LayerNorm": {"norm": "annotated-layer"},
    "scalar gains": {"norm": "scale"},
    "eps": {"norm": "rms-outside", "norm_eps": 1e-3},
}


@pytest.mark.parametrize("recipe", ["pre", "keel", "hybrid", "normformer", "sub-ln", "realformer"])
@pytest.mark.parametrize("kind", KINDS)
def test_labkits_block_keeps_them_with_other_configs(recipe, kind):
    report = block(Block, recipe, config(recipe, **KINDS[kind]))
    assert report.ok, report


@pytest.mark.parametrize(
    "norms",
    ["henry", "swin-v2", "olmo2", "cohere", "nanochat", "vit-22b", "qk layer shift", "kv rms"],
)
def test_norms_inside_attention_that_a_config_asks_for(norms):
    assert block(Block, "pre", config("pre", qk_norm=norms)).ok
    other = config("pre", qk_norm="qkvc rms" if norms == "kv rms" else "kv rms")
    assert not block(Block(other), "pre", config("pre", qk_norm=norms)).ok


# --- what is recognized ---


def test_a_config_settles_what_is_open_without_one():
    report = block(fused(mask=lambda logits, ones: logits), "pre")
    assert report.ok
    assert not block(Fused, "pre", config("pre", norm="layer")).ok
    report = block(Fused, "pre", config("pre", activation="relu"))
    assert any("activation is gelu, not relu" in cause for cause in causes(report))
    right, other = (Block(config("pre", norm_eps=eps)) for eps in (1e-6, 1e-3))
    assert block(right, "pre", config("pre", norm_eps=1e-6)).ok
    report = block(other, "pre", config("pre", norm_eps=1e-6))
    assert any("eps of its norm" in cause for cause in causes(report))


def test_a_step_of_two_different_halves_can_be_named():
    def before(x, f, norm):
        return x + f(norm(x))

    assert block(before, "pre-post", part="attention").ok
    assert not block(before, "pre-post", part="feed-forward").ok
    assert any("part=" in note for note in block(placements.PreNorm, "pre-post").notes)


def test_the_report_teaches():
    text = str(block(lambda x, f, norm, alpha: norm(x + alpha * f(x)), "deepnorm"))
    assert "α multiplies the branch f instead of the skip" in text
    assert "the recipe has N(α * x + f(x))" in text
    assert "expected" in text and "came" in text


def test_each_half_is_told_apart():
    given = Block(config("pre"))
    given.attention.norm.forward = lambda x: x
    laws = {law.name: law.ok for law in block(given, "pre", config("pre")).laws}
    assert not laws["attention half"] and laws["feed-forward half"]


def test_training_mode_is_checked():
    assert any("training mode" in cause for cause in causes(block(TwoModes, "post")))
    assert any("after the addition" in cause for cause in causes(block(TwoModes, "pre")))


def test_padding_is_checked_where_a_block_takes_it():
    given = Block(config("pre"))
    forward = type(given.attention.sublayer).forward
    unmasked = lambda self, x, context: forward(self, x, replace(context, padding=None))  # noqa: E731
    change(given.attention.sublayer, forward=unmasked)
    report = block(given, "pre", config("pre"))
    assert [law.name for law in report.failed] == ["padding"]
    layer = nn.TransformerEncoderLayer(16, 2, 24, 0.0, batch_first=True)
    assert "padding" in [law.name for law in block(layer, "post").laws]


def test_blocks_of_the_stack_are_told_apart():
    assert block(Block(config("mix-ln"), 5), "mix-ln").ok
    assert not block(lambda config, block=0: Block(config, 5 - block), "mix-ln").ok
    assert block(lambda x, f, norm, alpha: x + f(norm(x)), "keel", index=0, part="attention").ok
    wrong = block(lambda x, f, norm, norm_out, alpha: 3 * x + f(norm(x)), "keel", index=0)
    assert not wrong.ok and "multiply" not in str(wrong)


# --- what it must not do ---


class Hanging(nn.Module):
    def forward(self, x):
        while True:
            pass


HOSTILE = {
    "raises": lambda x, f, norm: 1 / 0,
    "exits": lambda x, f, norm: exit(),
    "nothing": lambda x, f, norm: None,
    "a word": lambda x, f, norm: "x + f(norm(x))",
    "a number": lambda x, f, norm: x.sum(),
    "another shape": lambda x, f, norm: x[:, :1],
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


def test_an_answer_that_is_not_there_is_named():
    for came, said in ((None, "None"), (..., "Ellipsis"), ("x", "a str")):
        report = block(lambda x, f, norm, came=came: came, "pre")
        assert f"your code returned {said}, not the new stream" in str(report)


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr(run, "SECONDS_EACH", 0.5)
    started = time.monotonic()
    assert not block(lambda x, f, norm: Hanging()(x), "pre").ok
    assert time.monotonic() - started < 4


def test_module_and_random_states_stay_as_they_were():
    given = fused(move=lambda x, f, norm: x + f(x))(16, 2, 20).train()
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


class Turned(Fused):
    """Its feed-forward has bare matrices, stored as (in, out)."""

    def __init__(self, dim, heads, hidden):
        super().__init__(dim, heads, hidden)
        del self.fc1, self.fc2
        self.up, self.down = (nn.Parameter(torch.ones(n)) for n in ((dim, hidden), (hidden, dim)))

    def forward(self, x):
        x = self.move(x, self.attend, self.norm1)
        return self.move(x, lambda z: torch.relu(z @ self.up) @ self.down, self.norm2)


def test_what_cannot_be_checked_is_said():
    assert "experts" in str(block(Block, "pre", config("pre", experts=4)))
    assert "norm of one vector" in str(block(Block, "pre", config("pre", norm="batch")))
    assert "Linear is no block" in str(block(nn.Linear(4, 4), "pre"))
    report = block(Fused(32, 2, 20), "pre", config("pre", dim=64))
    assert not report.ok and "width 32" in str(report) and "dim=64" in str(report)
    report = block(Block, "pre", config("post"))
    assert report.ok and any("for 'post'" in note for note in report.notes)
    assert "no part of a block" in str(block(Fused, "pre", names={"wz": "qkv"}))
    assert "no parameter 'q'" in str(block(Fused, "pre", names={"wq": "q"}))
    assert "names={'wq': 'name.T'" in str(block(Turned, "pre"))
    assert block(Turned, "pre", names={"up": "up.T", "down": "down.T"}).ok
    plain = block(lambda x, f, norm: norm(torch.tanh(x) + f(x.sin())), "post")
    assert not plain.ok and all(law.cause == "" for law in plain.failed)
