"""A model's configuration: invalid values are refused, and missing ones are completed."""

import math

import pytest
import torch
from each import each

from labkit.model import ModelConfig, Transformer
from labkit.placements import ALIASES, RECIPES, Place, recipe
from labkit.placements.scaled import deepnorm_constants
from labkit.placements.streams import BottomToTop

NUMBERS = ("dim", "depth", "heads", "vocab", "context", "kv_heads", "hidden", "experts")


@each(
    refusal=[
        ({"tie": "no"}, "tie must be True or False, got 'no'"),
        ({"final_norm": "yes"}, "final_norm must be True or False"),
        ({"depth": True}, "depth must be a whole number, got True"),
        ({"norm_eps": "1e-5"}, "norm_eps must be a number, got '1e-5'"),
        ({"softcap": "50"}, "softcap must be a number, got '50'"),
        ({"norm": "dyt", "alpha": 1.0}, "alpha must be a tuple of two positive numbers"),
        ({"norm": "dyt", "alpha": ("a", "b")}, "alpha must be a tuple of two positive numbers"),
        ({"qk_norm": 3}, "qk_norm must be a string, got 3"),
        ({"recipe": ["pre"]}, "recipe must be a string"),
        ({"norm_kw": ("bias", False)}, "norm_kw must be a tuple of"),
        ({"norm_kw": None}, "norm_kw must be a tuple of"),
        ({"norm_kw": {"bias": False}}, "norm_kw must be a tuple of"),
        ({"norm_kw": (("p", 0.1), ("p", 0.2))}, "p is given twice"),
        ({"norm_kw": (("eps", 1e-3),), "norm_eps": 1e-5}, "eps is given twice"),
        ({"recipe": "sub-ln", "norm": "group"}, "num_channels"),
        ({"qk_norm": "qk dyt", "norm_eps": 1e-5}, "norm 'dyt' has no option eps"),
        ({"recipe": "normformer", "norm": "batch", "experts": 4}, "are meaningless there"),
        ({"recipe": "prenorm"}, "unknown recipe 'prenorm'; did you mean 'pre-norm'"),
        ({"norm": "rsm"}, "unknown norm 'rsm'; did you mean 'rms'"),
        ({"init": "he"}, "unknown initialization 'he'; choose one of normal"),
        ({"kind": "both"}, "choose one of decoder, encoder, encoder-decoder"),
        ({"activation": "silu"}, "choose one of swiglu, relu, gelu"),
        *[({name: 0}, f"{name} must be at least 1, got 0") for name in NUMBERS],
        *[({name: -2}, f"{name} must be at least 1, got -2") for name in NUMBERS],
        ({"kind": "encoder-decoder", "encoder_depth": 0}, "encoder_depth must be at least 1"),
        ({"experts_per_token": 0}, "experts_per_token must be at least 1, got 0"),
        ({"dim": 30}, r"dim must be an even multiple of heads \(4\), .*; got 30"),
        ({"dim": 36}, r"dim must be an even multiple of heads \(4\), .*; got 36"),
        ({"kv_heads": 3}, r"heads \(4\) must be a multiple of kv_heads \(3\)"),
        ({"kv_heads": 8}, r"heads \(4\) must be a multiple of kv_heads \(8\)"),
        ({"norm_eps": -1e-6}, "norm_eps must be at least 0"),
        ({"norm_eps": math.nan}, "norm_eps must be at least 0"),
        *[
            ({name: value}, f"{name} must be above 0")
            for name in ("softcap", "logit_softcap", "qk_clip")
            for value in (0.0, -1.0, math.nan)
        ],
        (
            {"encoder_depth": 2},
            "encoder_depth applies only to kind='encoder-decoder', got kind='decoder'",
        ),
        ({"kind": "encoder", "encoder_depth": 2}, "give a single stack only depth"),
        ({"experts": 1}, r"experts_per_token \(2\) must be at most experts \(1\)"),
        ({"qk_norm": ""}, "the norms must be a nonempty string"),
        ({"qk_norm": "qk batch"}, "each vector separately, got 'batch'"),
        ({"qk_norm": "kq rms"}, "'kq' is not a setting of attention's norms"),
        ({"qk_norm": "qk rms own no-gain"}, "leave out no-gain"),
        ({"recipe": "hybrid", "qk_norm": "qk rms"}, "qk_norm applies only to recipes without"),
        ({"recipe": "sub-ln", "qk_norm": "qk rms"}, "choose another recipe"),
        ({"embedding_size": 0.0}, "embedding_size must be above 0 and finite, got"),
        ({"embedding_size": None}, "embedding_size must be a number"),
        ({"recipe": "ngpt", "kind": "encoder-decoder"}, "defines its own kind"),
        (
            {"recipe": "ngpt", "kv_heads": 2},
            "defines its own kv_heads, so kv_heads must be None or 4; got 2",
        ),
        ({"recipe": "ngpt", "activation": "gelu"}, "defines its own activation"),
        ({"recipe": "ngpt", "qk_norm": "qk rms"}, "defines its own qk_norm"),
        ({"recipe": "ngpt", "softcap": 50.0}, "defines its own softcap"),
        ({"recipe": "ngpt", "qk_clip": 100.0}, "defines its own qk_clip"),
        ({"recipe": "ngpt", "experts": 4}, "defines its own experts"),
        ({"recipe": "ngpt", "final_norm": True}, "defines its own final_norm"),
        ({"logit_softcap": math.inf}, "logit_softcap"),  # inf · tanh(x / inf) is not a number
        ({"softcap": math.inf}, "softcap"),
        ({"qk_clip": math.inf}, "qk_clip"),
        ({"norm_eps": math.inf}, "norm_eps"),
        ({"depth": 2.5}, "depth"),
        ({"dim": 64.0}, "dim"),
        ({"depth": None}, "depth"),
        ({"qk_clip": 1.0, "qk_norm": "qk rms"}, "QK-Clip"),
        ({"qk_clip": 1.0, "recipe": "hybrid"}, "QK-Clip"),
        ({"recipe": "dyt", "norm_eps": 1e-5}, "eps"),
        ({"norm": "none", "norm_eps": 1e-5}, "eps"),
        ({"norm_kw": (("epz", 1.0),)}, "epz"),
        ({"recipe": "dyt", "alpha": (1.0,)}, "alpha"),
        ({"recipe": "dyt", "alpha": (math.nan, 1.0)}, "alpha"),
        ({"alpha": (1.0, 1.0)}, "alpha"),  # no norm here has one
        ({"experts": 4, "balance": -1.0}, "balance"),
        ({"experts": 4, "router_z": math.nan}, "router_z"),
        ({"norm": "batch", "recipe": "sub-ln"}, "each vector separately, got 'batch'"),
    ]
)
def test_a_description_refuses_nonsense(refusal):
    change, message = refusal
    with pytest.raises((ValueError, TypeError), match=message):
        ModelConfig(**change)


@each(
    refusal=[
        ({}, {"kind": "encoder-decoder"}, r"model\(tokens, source=source\)"),
        ({"tokens": torch.zeros(2, 0, dtype=torch.int64)}, {}, "at least one token"),
        ({"tokens": torch.zeros(2, 4)}, {}, "as integers of shape"),
        ({"tokens": torch.zeros(4, dtype=torch.int64)}, {}, r"\(batch, time\)"),
        ({"tokens": torch.zeros(1, 65, dtype=torch.int64)}, {}, "at most 64 tokens .*, got 65"),
        ({"tokens": torch.full((2, 4), 96)}, {}, "tokens must be from 0 to 95, got 96 to 96"),
        ({"source_padding": torch.ones(2, 4) > 0}, {}, "write padding=… if you mean the mask"),
        ({"padding": [True]}, {}, "padding must be a bool tensor.*got list"),
        (
            {"source": torch.zeros(2, 3, dtype=torch.int64)},
            {},
            "needs exactly one sequence, but got a source",
        ),
        ({"padding": torch.ones(2, 4)}, {}, "bool tensor.*got torch.float32"),
        ({"padding": torch.ones(2, 3) > 0}, {}, r"\(2, 4\), got \(2, 3\)"),
    ]
)
def test_a_model_refuses_what_does_not_fit(refusal):
    inputs, change, message = refusal
    model = Transformer(ModelConfig(dim=16, heads=2, depth=1, **change))
    with pytest.raises(ValueError, match=message):
        model(**{"tokens": torch.zeros(2, 4, dtype=torch.int64), **inputs})


def test_a_step_that_needs_its_blocks_input_says_so():
    step = BottomToTop(torch.nn.Identity, torch.nn.Identity())
    with pytest.raises(ValueError, match="needs the input of its block, but got none"):
        step(torch.zeros(1, 1, 4))


@each(wrong=[("both", 1, 1), ("encoder", 0, 4), ("decoder", 4, 0)])
def test_deepnorm_constants_refuse_a_stack_that_is_not_there(wrong):
    with pytest.raises(ValueError, match="at least one block in it"):
        deepnorm_constants(*wrong)


def test_an_unknown_recipe_is_told_all_names():
    with pytest.raises(ValueError) as told:
        recipe("prenorm")
    assert all(name in str(told.value) for name in [*RECIPES, *ALIASES])


@each(named=ALIASES.items())
def test_an_alias_is_its_recipe(named):
    alias, name = named
    assert recipe(alias) is RECIPES[name]
    assert ModelConfig(recipe=alias).init_name == ModelConfig(recipe=name).init_name


def test_a_recipe_fills_in_what_it_is_made_for_and_an_explicit_wish_wins():
    assert ModelConfig(recipe="deepnorm").init_name == "deepnorm"
    assert ModelConfig(recipe="sub-ln").init_name == "magneto"
    assert ModelConfig(recipe="lns").init_name == "normal"
    assert ModelConfig(recipe="pre").init_name == "megatron"
    assert ModelConfig(recipe="deepnorm", init="xavier").init_name == "xavier"
    gemma = ModelConfig(recipe="gemma2")
    assert (gemma.attention_cap, gemma.output_cap, gemma.norm_name) == (50.0, 30.0, "rms-gemma")
    other = ModelConfig(recipe="gemma2", softcap=5.0, logit_softcap=3.0)
    assert (other.attention_cap, other.output_cap) == (5.0, 3.0)


def test_places_count_sublayers_by_stack():
    assert Place(stack="decoder", decoder=4).sublayers == 8
    assert Place(stack="decoder", encoder=3, decoder=4).sublayers == 12
    assert Place(stack="encoder", encoder=3, decoder=4).sublayers == 6
