"""The constants of deep recipes, as printed in their papers; chapter 05 measures their effect."""

import math

import pytest
from each import each

from labkit.model import ModelConfig, Transformer
from labkit.model.init import magneto_gain
from labkit.placements.scaled import deepnorm_constants

DIM = 64
DEPTHS = [6, 12, 18, 50, 100, 500, 1000]


@each(n=DEPTHS, stack=["encoder", "decoder"])
def test_deepnorm_keeps_its_bound_in_one_stack(stack, n):
    blocks = (n, 0) if stack == "encoder" else (0, n)
    alpha, beta = deepnorm_constants(stack, *blocks)
    assert (alpha, beta) == pytest.approx(((2 * n) ** 0.25, (8 * n) ** -0.25))
    # Σ over 2N sublayers of (v² + w²) / α² with v = w = β: independent of depth
    assert 2 * n * 2 * beta**2 / alpha**2 == pytest.approx(1, rel=1e-12)


@each(depths=[(6, 6), (18, 18), (100, 100), (500, 500), (6, 100), (100, 6)])
def test_deepnorm_keeps_its_bounds_in_two_stacks(depths):
    n, m = depths
    (alpha_e, beta_e), (alpha_d, beta_d) = (
        deepnorm_constants(stack, n, m) for stack in ("encoder", "decoder")
    )
    assert 3 * m * 2 * beta_d**2 / alpha_d**2 == pytest.approx(1, rel=1e-12)
    # The encoder is read by M cross-attentions, each with the gain v w / α = β² / α.
    through = m * beta_d**2 / alpha_d
    # 0.81 and 0.87 are printed with two digits, to 0.6 % each: the product of four is off by 2.4 %
    assert 2 * n * 2 * beta_e**2 / alpha_e**2 * through == pytest.approx(1, rel=0.024)


def test_deepnorm_has_the_numbers_of_the_thousand_layer_model():
    encoder, decoder = (deepnorm_constants(stack, 500, 500) for stack in ("encoder", "decoder"))
    assert [round(c, 4) for c in encoder] == [5.6482, 0.1248]
    assert [round(c, 4) for c in decoder] == [6.2233, 0.1136]
    assert [round(c, 4) for c in deepnorm_constants("decoder", 0, 1000)] == [6.6874, 0.1057]
    assert round(deepnorm_constants("encoder", 70, 0).alpha, 3) == 3.440


def test_magneto_has_the_gains_of_its_paper():
    assert magneto_gain("decoder", 0, 24) == pytest.approx(1.9676, abs=1e-4)  # sqrt(ln 48)
    assert magneto_gain("encoder", 12, 0) == pytest.approx(math.sqrt(math.log(24)))
    assert magneto_gain("decoder", 12, 6) == pytest.approx(math.sqrt(math.log(18)))
    assert magneto_gain("encoder", 12, 6) == pytest.approx(
        math.sqrt(math.log(18) * math.log(24) / 3)
    )


GAINS = {
    ("deepnorm", "decoder"): {"blocks": 40**-0.25},
    ("deepnorm", "encoder"): {"blocks": 40**-0.25},
    ("deepnorm", "encoder-decoder"): {
        "encoder": 0.87 * (4**4 * 5) ** (-1 / 16),
        "blocks": 60**-0.25,
    },
    ("sub-ln", "decoder"): {"blocks": math.log(10) ** 0.5},
    ("sub-ln", "encoder"): {"blocks": math.log(10) ** 0.5},
    ("sub-ln", "encoder-decoder"): {
        "encoder": (math.log(15) * math.log(8) / 3) ** 0.5,
        "blocks": math.log(15) ** 0.5,
    },
}


@each(gained=GAINS)
def test_only_value_output_and_feed_forward_take_the_gain(gained):
    recipe, kind = gained
    depths = {"depth": 5, "encoder_depth": 4 if kind == "encoder-decoder" else None}
    model = Transformer(ModelConfig(recipe=recipe, kind=kind, dim=DIM, hidden=128, **depths))
    seen: dict[tuple[str, str], list[float]] = {}
    for path, weight in model.named_parameters():
        stack, name = path.split(".")[0], path.split(".")[-2]
        if weight.ndim == 2 and stack in ("blocks", "encoder"):
            xavier = math.sqrt(2 / sum(weight.shape))
            seen.setdefault((stack, name), []).append(weight.std().item() / xavier)
    names = {name for _, name in seen}
    assert names == {"q", "k", "v", "out", "gate", "up", "down"}
    for (stack, name), ratios in seen.items():
        expected = 1.0 if name in ("q", "k") else GAINS[recipe, kind][stack]
        # at least 4 matrices of 4,096 draws: 0.6 % is one standard deviation
        assert sum(ratios) / len(ratios) == pytest.approx(expected, rel=0.03), (stack, name)
    # what is in no block is plain Xavier, and the embedding has unit size per channel
    assert model.output.weight.std().item() == pytest.approx(math.sqrt(2 / (64 + 96)), rel=0.04)
    assert model.embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.04)
