"""The slots of a block: what a recipe puts into them, and the recipe that they define."""

from dataclasses import MISSING, fields
from itertools import combinations

import pytest
import torch
from each import each
from recipe_equations import EQUATIONS, row
from recipe_reference import Reference

from labkit.experiments.ladder import Arm, build_base_run
from labkit.model import ModelConfig, Transformer
from labkit.placements import RECIPES, Recipe, recipe, residual
from labkit.placements.names import NAMES
from labkit.placements.slots import SLOTS, build_recipe, is_placement, parse_slots, read_slots
from press.cli import main

SUBSETS = [of for count in range(len(SLOTS) + 1) for of in combinations(SLOTS, count)]
PLACED = {name: row for name, row in RECIPES.items() if is_placement(row)}
TOKENS = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(7))
EPS = 2.0**-52  # of torch's RMSNorm in float64


def rms(x):
    return x / ((x**2).mean(-1, keepdim=True) + EPS).sqrt()


def placed(slots, depth):
    """Write a block from its slots only: a norm is there or it is not, and nothing is merged."""

    def put(slot):
        return rms if slot in slots else lambda x: x

    def half(name, after):
        return lambda x, s: put(after)(x + put(f"{name}-out")(s.f(put(f"{name}-in")(x))))

    def attention(x, s):
        return half("attention", "middle")(put("embedding")(x) if s.block == 0 else x, s)

    def feed_forward(x, s):
        y = half("feed-forward", "end")(x, s)
        last = slots and s.block == depth - 1
        return rms(y) if last and "end" not in slots else y

    heads = "".join(slot for slot in slots if slot in "qkvc")
    return row(attention, feed_forward, heads, final=False)


@each(slots=[PLACED[name] for name in PLACED] + SUBSETS[:: len(SUBSETS) // 60])
def test_slots_make_the_model_that_they_draw(slots):
    slots = slots if isinstance(slots, tuple) else read_slots(slots)
    config = ModelConfig("at:" + ",".join(slots), dim=16, heads=4, vocab=11, depth=3)
    model = Transformer(config).double()
    with torch.no_grad():  # large enough that each norm counts
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
    wanted = Reference(placed(slots, config.depth), model).logits(TOKENS)
    # float64; the reference adds and divides in another order, through six sublayers
    torch.testing.assert_close(model(TOKENS), wanted, rtol=1e-9, atol=1e-9)


def test_one_norm_more_or_less_is_another_function():
    config = ModelConfig(recipe="at:q,k,v,middle", dim=16, heads=4, vocab=11, depth=3)
    model = Transformer(config).double()
    for other in (("q", "k", "v"), ("q", "k", "v", "middle", "end"), ("q", "k", "v", "end")):
        found = Reference(placed(other, 3), model).logits(TOKENS)
        assert (found - model(TOKENS)).abs().max() > 1e-3


def test_every_choice_of_slots_is_read_back():
    assert len(SUBSETS) == 2 ** len(SLOTS) == 2048
    for slots in SUBSETS:
        name = "at:" + ",".join(slots)
        assert read_slots(build_recipe(slots)) == read_slots(parse_slots(name)) == slots


def test_a_recipe_is_its_slots_where_its_row_says_nothing_else():
    """The row's own fields decide, read here one by one."""
    open_to_slots = {"block", "source", "note", "final_norm", "embedding_norm"}
    steps = {getattr(residual, name) for name in dir(residual) if name.endswith("Norm")}
    for name, found in RECIPES.items():
        plain = all(
            getattr(found, field.name) == field.default
            for field in fields(Recipe)
            if field.name not in open_to_slots and field.default is not MISSING
        )
        of_steps = {found.block.attention, found.block.feed_forward} <= steps
        words = (found.block.heads or "q rms").split()
        assert is_placement(found) == (plain and of_steps and words[1:] == ["rms"]), name


@each(name=PLACED)
def test_the_norms_inside_attention_are_those_of_the_equations_written_again(name):
    inside = "".join(slot for slot in read_slots(RECIPES[name]) if slot in "qkvc")
    assert inside == EQUATIONS[name].heads


def test_no_two_recipes_have_one_block_but_those_that_are_one():
    seen = {}
    for name, found in PLACED.items():
        seen.setdefault(read_slots(found), []).append(name)
    assert [names for names in seen.values() if len(names) > 1] == [["qk", "pre-qk-pre"]]
    assert RECIPES["qk"].content() == RECIPES["pre-qk-pre"].content()


@pytest.mark.parametrize("name", ["pre", "post", "hybrid", "overwritten", "post-pre", "none"])
def test_slots_name_the_run_that_a_recipe_has(name):
    other = Arm({"recipe": "at:" + ",".join(read_slots(RECIPES[name]))})
    assert build_base_run("S", other).key() == build_base_run("S", Arm({"recipe": name})).key()


def test_what_is_no_slot_is_refused_with_its_reason(capsys):
    with pytest.raises(
        ValueError, match=r"unknown slot 'atention-in'; did you mean 'attention-in'"
    ):
        recipe("at:atention-in")
    with pytest.raises(ValueError, match="'q' twice; leave one out"):
        recipe("at:q,q")
    assert recipe("at: k , q").content() == recipe("at:q,k").content()
    assert main(["leaderboard", "pre", "at:qq", "--list"]) == 2
    assert "unknown slot 'qq'" in capsys.readouterr().err


def test_a_block_of_ones_own_is_shown_and_trains(capsys, tmp_path, monkeypatch):
    assert main(["show", "at:q,middle"]) == 0
    assert "Y = X + MHA_Q(X)" in capsys.readouterr().out
    for each_file in ("chapters", "data"):
        (tmp_path / each_file).mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABKIT_TRAIN", raising=False)
    command = ["leaderboard", "pre", "at:attention-in,v,end", "--rung", "smoke"]
    assert main([*command, "--engine", "serial"]) == 0
    assert "at:attention-in,v,end" in capsys.readouterr().out


def test_every_arm_that_is_a_recipe_has_a_name():
    from labkit.experiments import ladder

    assert set(NAMES) == {name for name in RECIPES if name in ladder.ARMS}
    assert len(set(NAMES.values())) == len(NAMES)
