"""Recipes beside other people's models with the same weights, forward and gradients.

`python tests/peers_table.py` prints the table of largest differences.
"""

import pytest
import torch
from peers import distance, peer
from peers_recipes import (
    DEPTH,
    DIM,
    HEADS,
    OURS,
    TWINS,
    ngpt_twin,
    stream,
    through_blocks,
    tokens,
    views,
    x_transformers_twin,
)

from labkit.context import Context
from labkit.model import ModelConfig
from labkit.placements import RECIPES

BY_NAME = {twin.name: twin for twin in TWINS}
# Recipes that no package beside the CPU build of torch has, whole or up to settings.
PEERLESS = set(RECIPES) - {twin.recipe for twin in TWINS}


def test_every_twin_has_its_own_name_and_a_recipe():
    assert len(BY_NAME) == len(TWINS)
    assert {twin.recipe for twin in TWINS} <= set(RECIPES)
    # the main families stand beside a peer; pre and post beside three kinds of code
    assert not PEERLESS & {"pre", "post", "sandwich", "olmo2", "gemma2", "gemma3", "ngpt", "dyt"}
    for recipe in ("pre", "post"):
        assert len({twin.package for twin in TWINS if twin.recipe == recipe}) >= 2


@pytest.mark.parametrize("name", BY_NAME)
def test_a_peer_with_our_weights_computes_our_function(name):
    twin = BY_NAME[name]
    forward, gradient = twin.compare()
    # transformers runs in float32, three blocks deep; x-transformers takes its softmax in float32
    # even for float64; torch and GPT-2 stay in float64
    assert forward < twin.tolerance and gradient < 10 * twin.tolerance


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("gemma2 | Gemma2", "model.layers.1.post_feedforward_layernorm.weight"),
        ("olmo2 | Olmo2", "model.layers.0.self_attn.k_norm.weight"),
        ("ngpt | nGPT", "layers.2.1.branch_scale.scale"),
    ],
)
def test_the_comparison_sees_a_wrong_weight(name, parameter):
    twin = BY_NAME[name]
    ours, theirs = twin.models()
    views(theirs)[parameter].mul_(1.05)
    mine, other = twin.run(ours, theirs)
    assert distance(mine, other) > 100 * twin.tolerance


# --- where peers differ ---


def test_x_transformers_stores_gains_minus_one_unless_told():
    """Its Decoder adds 1 to every gain by default; weight decay then pulls the gain to 1."""
    theirs = peer("x_transformers").Decoder(dim=DIM, depth=1, heads=HEADS)
    assert theirs.final_norm.unit_offset and (theirs.final_norm.gamma == 0).all()
    assert (ModelConfig(**OURS).build().final_norm.weight == 1).all()


def test_x_transformers_keel_lacks_the_papers_first_block():
    """KEEL's first attention is plain Pre-Norm and its first feed-forward has α = 1.

    x-transformers' pre_and_post_norm with a constant on the skip treats all blocks alike: it
    agrees from the second block on, and differs in the first.
    """
    twin = x_transformers_twin(
        "keel", "layer", {"norm": 0, "norm_out": 2},
        pre_and_post_norm=True, scale_residual_constant=2.0 * DEPTH,
    )  # fmt: skip
    ours, theirs = twin.make()
    other = views(theirs)
    assert "blocks.0.attention.norm_out.weight" not in dict(ours.named_parameters())
    for parameter, _, target in twin.pairs(ours, other):
        other[target].copy_(parameter)
    x = stream().double()
    mine, context = x, Context()
    for block in ours.blocks[1:]:
        mine = block(mine, context)
    late = x
    for norms, layer, residual in theirs.layers[2:]:
        out = layer(norms[0](late))
        late = norms[2](residual(out[0] if isinstance(out, tuple) else out, late))
    assert distance(mine, late) < 1e-6
    assert distance(through_blocks(ours, x), theirs(x)) > 0.01


def test_swapping_two_norms_of_a_sandwich_shows():
    """Gemma 2's names are misleading: post_attention_layernorm norms the write, not the stream."""
    twin = BY_NAME["gemma2 | Gemma2"]
    ours, theirs = twin.models()
    for layer in theirs.model.layers:
        layer.input_layernorm, layer.post_attention_layernorm = (
            layer.post_attention_layernorm,
            layer.input_layernorm,
        )
    mine, other = twin.run(ours, theirs)
    assert distance(mine, other) > 100 * twin.tolerance


def test_gemma_3_has_no_cap_and_gemma_2_no_norm_on_q_and_k():
    config = peer("transformers").Gemma2Config()
    assert config.attn_logit_softcapping == 50.0 == RECIPES["gemma2"].softcap
    assert config.final_logit_softcapping == 30.0 == RECIPES["gemma2"].logit_softcap
    assert RECIPES["gemma3"].softcap is None is RECIPES["gemma3"].logit_softcap
    gemma2, gemma3 = (BY_NAME[name].models()[1] for name in ("gemma2 | Gemma2", "gemma3 | Gemma3"))
    assert not any("q_norm" in name for name, _ in gemma2.named_modules())
    assert any("q_norm" in name for name, _ in gemma3.named_modules())


def test_llamas_post_attention_norm_is_the_pre_norm_of_its_feed_forward():
    """In Llama post_attention_layernorm stands before the MLP; in OLMo 2 it norms the write."""
    llama, olmo = (BY_NAME[name] for name in ("pre | Llama", "olmo2 | Olmo2"))
    name = "model.layers.{}.post_attention_layernorm.weight"
    assert llama.names["blocks.{}.feed_forward.norm.weight"] == name
    assert olmo.names["blocks.{}.attention.norm.weight"] == name


def test_the_ngpt_package_differs_where_the_paper_is_followed_here():
    module = peer("nGPT_pytorch.nGPT")
    theirs = module.nGPT(num_tokens=8, dim=16, depth=4, dim_head=8, heads=2)
    # α starts at 0.05 in the paper's code, at 1/depth here; values mix across blocks by default
    assert theirs.layers[0][0].branch_scale.forward_scale == pytest.approx(0.25 * 16**0.5)
    assert theirs.add_value_residual
    # one scale on q for the paper's one on both q and k: stored at 1/d, not 1/sqrt(d)
    assert theirs.layers[0][0].fn.qk_scale.scale[0].item() == pytest.approx(1 / 16)
    ours = ModelConfig(recipe="ngpt", dim=16, depth=4, heads=2, vocab=8).build()
    assert ours.blocks[0].attention.alpha.factor == pytest.approx(0.05 * 16**0.5)
    assert ours.blocks[0].attention.sublayer.s_qk.weight[0].item() == pytest.approx(0.25)


def test_a_negative_alpha_of_ngpt_moves_forward_here_and_backward_there():
    """The paper's code takes |α|; the package does not."""
    twin = ngpt_twin()
    ours, theirs = twin.models()
    for model, name in ((ours, "blocks.0.attention.alpha.weight"), (theirs, None)):
        weight = dict(model.named_parameters())[name or "layers.0.0.branch_scale.scale"]
        weight.data.neg_()
    mine, other = twin.run(ours, theirs)
    assert distance(mine, other) > 1e-3
    ours.blocks[0].attention.alpha.weight.data.neg_()
    assert torch.equal(ours(tokens()), mine)
