"""The transformer agrees with equations written out in float64, and keeps its invariants."""

import math

import pytest
import torch
from each import each
from torch import nn

from labkit.attention import rotary_angles
from labkit.model import ModelConfig, Transformer
from labkit.model.init import INITS, Matrix
from labkit.model.vision import CHANNEL_NORMS, CNNConfig, MLPConfig
from labkit.norms import NORMS
from labkit.placements import Highway, Place

TOKENS = torch.randint(96, (2, 12), generator=torch.Generator().manual_seed(7))


def test_a_final_norm_is_there_or_not_when_a_config_says_so():
    without = Transformer(ModelConfig(final_norm=False)).final_norm
    assert isinstance(without, nn.Identity)
    with_one = Transformer(ModelConfig(recipe="post", final_norm=True)).final_norm
    assert not isinstance(with_one, nn.Identity)


def test_tied_weights_are_one_tensor():
    model = Transformer(ModelConfig(tie=True))
    assert model.output.weight is model.embedding.weight


DEPTH, DIM = 8, 64
STD = {
    # name: (std of a block's input matrix (dim × dim), of its output matrix in block 8)
    "normal": ((2.5 * DIM) ** -0.5, (2.5 * DIM) ** -0.5),
    "megatron": ((2.5 * DIM) ** -0.5, (2.5 * DIM * 2 * DEPTH) ** -0.5),
    "depth-scaled": (DIM**-0.5, (2 * DIM * DEPTH) ** -0.5),
    "gpt2": (0.02, 0.02 / (2 * DEPTH) ** 0.5),
    "xavier": ((2 / (2 * DIM)) ** 0.5, (2 / (2 * DIM)) ** 0.5),
    "half-xavier": (0.5 * (2 / (2 * DIM)) ** 0.5, 0.5 * (2 / (2 * DIM)) ** 0.5),
    "deepnorm": (DIM**-0.5, DIM**-0.5 * (8 * DEPTH) ** -0.25),
    "magneto": (DIM**-0.5, DIM**-0.5 * math.log(2 * DEPTH) ** 0.5),
    "b2t": ((DIM * DEPTH) ** -0.5, (DIM * DEPTH) ** -0.5),
}


def test_a_seed_draws_the_same_weights_under_every_torch():
    torch.manual_seed(4)
    weight = torch.empty(64, 64)
    INITS["normal"](weight, Matrix("q", dim=64))
    # As torch 2.13's own trunc_normal_ has them; that of 2.11 draws others.
    assert weight[-1, -1].item() == 0.10592179745435715
    assert torch.rand(1).item() == 0.25649768114089966
    assert weight.abs().max() <= 3 * (2.5 * 64) ** -0.5


@each(init=INITS)
def test_an_initialization_has_its_standard_deviations(init):
    assert set(STD) == set(INITS)
    model = Transformer(ModelConfig(dim=DIM, depth=DEPTH, init=init))
    attention = model.blocks[-1].attention.sublayer
    inside, outside = attention.q.weight.std().item(), attention.out.weight.std().item()
    # 4,096 draws: the standard deviation of a sample is off by 1.1 %; truncation takes 1.3 %
    assert (inside, outside) == pytest.approx(STD[init], rel=0.06)


def test_the_gate_of_a_highway_is_drawn_by_its_width():
    gate = Highway(nn.Identity, nn.Identity(), Place(dim=DIM)).weight
    assert gate.std().item() == pytest.approx(DIM**-0.5, rel=0.06)


@each(
    network=[(CNNConfig, norm) for norm in CHANNEL_NORMS]
    + [(MLPConfig, norm) for norm in CHANNEL_NORMS if norm != "instance"]
)
def test_an_image_network_gives_ten_logits(network):
    kind, norm = network
    network = kind(norm=norm, width=16, groups=4).build()
    assert network(torch.rand(5, 1, 8, 8)).shape == (5, 10)


def test_an_image_config_refuses_nonsense():
    with pytest.raises(ValueError, match="choose one of batch, layer"):
        MLPConfig(norm="power")
    with pytest.raises(ValueError, match=r"width \(30\) must be a multiple of groups \(8\)"):
        CNNConfig(norm="group", width=30)
    with pytest.raises(ValueError, match="averages over positions, but a perceptron"):
        MLPConfig(norm="instance")


def test_positions_keep_their_precision_through_every_change_of_dtype():
    config = ModelConfig(dim=32, heads=2, depth=1, context=2048, vocab=20)
    model = Transformer(config)
    exact = rotary_angles(2048, 16)
    for change in (torch.bfloat16, torch.float16, torch.float32, torch.float64):
        assert torch.equal(model.to(change).get_buffer("angles"), exact)
    tokens = torch.randint(20, (1, 2048))
    wide = model.double()(tokens).detach()
    half = model.to(torch.bfloat16)(tokens).detach().double()
    gap = (half - wide).square().mean(dim=(0, 2)).sqrt() / wide.square().mean().sqrt()
    # bfloat16 keeps three digits at every position; with its own angles, late ones lost them all
    assert gap[-64:].mean() < 3 * gap[:64].mean() < 0.1


def test_the_norms_options_reach_the_same_norm_inside_attention():
    config = ModelConfig("sub-ln", "partial-rms", dim=32, norm_kw=(("p", 0.5),), norm_eps=1e-3)
    block = Transformer(config).blocks[0]
    inside = block.attention.sublayer.norm_c
    assert (inside.p, inside.eps) == (0.5, 1e-3)
    other = Transformer(ModelConfig("hybrid", "partial-rms", dim=32, norm_kw=(("p", 0.5),)))
    assert type(other.blocks[0].attention.sublayer.norm_q) is NORMS["rms"]
