"""Probes of chapter 07: the map of a norm, and what folding leaves unchanged."""

import pytest
import torch

from labkit.corpora import Digits, Text
from labkit.model import ModelConfig
from labkit.model.vit import ViTConfig
from labkit.norms import DynamicTanh, LayerNorm, PRepBatchNorm
from labkit.probes.norm_maps import bend, describe, norm_maps
from labkit.probes.timing import fold_prenorms
from labkit.training import TrainConfig, train


def test_the_bend_of_a_line_is_one_and_of_a_squash_below():
    x = torch.linspace(-5, 5, 1001)
    assert bend(x, 3 * x) == pytest.approx(1)
    assert bend(x, torch.tanh(x)) < 0.4 < 1 < bend(x, x**3)


def test_a_token_of_layer_norm_lies_on_a_line_and_many_make_an_s():
    torch.manual_seed(0)
    x = torch.randn(1, 200, 32)
    x[:, :20] *= 20
    norm = LayerNorm(32)
    with torch.no_grad():
        norm.weight.fill_(7.0)  # gain and shift are not part of the map
    told = describe("n", norm, x)
    assert told["bend"] < 0.3 and told["alpha"] is None and told["flat"] is None
    xs, ys = map(torch.tensor, told["points"])
    assert len(xs) == len(ys) and ys.abs().max() < 32**0.5
    for x0, y0, x1, y1 in told["lines"]:
        slope = (y1 - y0) / (x1 - x0)
        assert any(abs(slope * row.std(unbiased=False) - 1) < 0.01 for row in x[0])


def test_dyt_tells_its_slope_and_what_is_flat():
    told = describe("n", DynamicTanh(8, alpha=2.0), torch.full((1, 3, 8), 5.0))
    assert told["alpha"] == pytest.approx(2.0) and told["flat"] == 1.0


def test_norms_are_listed_first_to_last():
    model = ModelConfig(dim=16, depth=2, norm="layer").build()
    names = [row["name"] for row in norm_maps(model, torch.arange(8)[None])]
    assert names[0] == "blocks.0.attention.norm" and names[-1] == "final_norm" and len(names) == 5


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_folding_leaves_the_answers(activation):
    config = ViTConfig(dim=16, depth=2, heads=2, norm="prep-batch", activation=activation)
    model, corpus = config.build(), Digits(16).load()
    train(model, corpus.train(0), TrainConfig(4), progress=False)
    images = corpus.held_out["test"][0][0]
    folded = fold_prenorms(model)
    torch.testing.assert_close(folded(images), model.eval()(images), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(module, PRepBatchNorm) for module in folded.modules())
    with pytest.raises(TypeError, match="LayerNorm, which cannot be folded"):
        fold_prenorms(ViTConfig(dim=16, depth=1, heads=2).build())


def test_few_characters_are_the_first_ones():
    few = Text(4, 8, characters=64).load().train(0)
    windows = {tuple(row.tolist()) for _ in range(40) for row in next(few)[0]}
    assert len(windows) <= 64
    with pytest.raises(ValueError, match="two batches of training text"):
        Text(4, 8, characters=63)
