"""Conversion preserves gain, shift, eps, statistics, dtype and sharing."""

import pytest
import torch
from convert_models import draw
from peers import hf, peer
from torch import nn
from variants_rows import AnnotatedTransformer

from labkit.convert import convert
from labkit.convert.fill import ChannelsFirst
from labkit.convert.read import read_norm
from labkit.norms import NORMS, facts, make_norm
from labkit.norms.layer_norm import LayerNorm


def test_a_shift_that_rms_cannot_hold_is_reported():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4))
    model[1].bias.data[2] = 0.25
    rows = convert(model, {"LayerNorm": "rms"}).swapped
    assert (rows[0].dropped, rows[0].same) == (("bias (all 0)",), "same on zero-mean input")
    assert (rows[1].dropped, rows[1].same) == (("bias (largest 0.25)",), "another function")


STATELESS = [key for key in NORMS if key != "none"]


@pytest.mark.parametrize("old", STATELESS)
def test_a_report_of_sameness_is_true(old):
    for new in NORMS:
        # eps 0 leaves the formulas alone; rows of mean 0 for those that say so
        model = nn.Sequential(make_norm(old, 8), nn.Linear(8, 8)).eval().double()
        draw(model, shifts=False)
        x = torch.randn(2, 3, 8, dtype=torch.float64)
        centred = x - x.mean(-1, keepdim=True)
        before, before_centred = model(x), model(centred)
        same = convert(model, {type(model[0]).__name__: new}).swapped[0].same
        # another place of eps (at most 1e-5) moves rows of size 0.3 and more by 1e-4 at most
        rtol = 2e-4 if "eps" in same else 1e-9
        if same.startswith("same on zero-mean input"):
            torch.testing.assert_close(model(centred), before_centred, rtol=rtol, atol=rtol)
        elif same.startswith("same"):
            torch.testing.assert_close(model(x), before, rtol=rtol, atol=rtol)
        else:
            close = torch.allclose(model(x), before, rtol=1e-3, atol=1e-3)
            # untrained, PowerNorm evaluates as RMSNorm and PRepBN as RepBN: by chance, not for long
            by_chance = "power" in (old, new) or (old, new) == ("rep-batch", "prep-batch")
            assert not close or by_chance, (old, new)


def test_gemmas_gain_becomes_plain_and_back():
    norm = hf("gemma").GemmaRMSNorm(8)
    norm.weight.data = torch.randn(8)
    model = nn.Sequential(norm)
    x = torch.randn(3, 8)
    before = model(x)
    convert(model, {"GemmaRMSNorm": "rms"})
    torch.testing.assert_close(model[0].weight, 1 + norm.weight, rtol=0, atol=0)
    torch.testing.assert_close(model(x), before, rtol=1e-6, atol=1e-6)
    convert(model, {"RMSNorm": "rms-gemma"})
    # 1 + w was rounded once at the size of 1
    torch.testing.assert_close(model[0].weight, norm.weight, rtol=0, atol=2e-7)
    torch.testing.assert_close(model(x), before, rtol=1e-6, atol=1e-6)


def test_a_gain_that_bfloat16_cannot_hold_is_reported():
    norm = hf("gemma").GemmaRMSNorm(8).bfloat16()
    norm.weight.data.fill_(0.001)
    row = convert(nn.Sequential(norm), {"GemmaRMSNorm": "rms"}).swapped[0]
    assert row.dropped == ("weight: rounded to bfloat16",) and row.same == "another function"


# Foreign norms, by what they compute: class name does not tell.
FOREIGN = {
    ("llama", "LlamaRMSNorm"): ("rms", 1.0),
    ("t5", "T5LayerNorm"): ("rms", 1.0),
    ("gemma", "GemmaRMSNorm"): ("rms", 0.0),
    ("gemma3n", "Gemma3nRMSNorm"): ("rms", 1.0),
    ("llama4", "Llama4TextRMSNorm"): ("rms", 1.0),
    ("cohere", "CohereLayerNorm"): ("layer", 1.0),
    ("olmo", "OlmoLayerNorm"): ("layer", 1.0),
    ("nemotron", "NemotronLayerNorm1P"): ("layer", 0.0),
}


@pytest.mark.parametrize(("module", "name"), FOREIGN, ids=lambda part: part)
def test_a_foreign_norm_is_known_by_what_it_computes(module, name):
    norm = draw(getattr(hf(module), name)(16))
    found = read_norm(norm)
    assert (found.key, found.start) == FOREIGN[module, name]
    x = 0.01 * torch.randn(3, 5, 16)  # small, so that a wrong eps shows
    model = nn.Sequential(norm)
    before = model(x)
    convert(model, {name: found.key})
    torch.testing.assert_close(model(x), before, rtol=1e-5, atol=1e-6)


def test_a_norm_of_a_tutorial_is_known_by_what_it_computes():
    found = read_norm(AnnotatedTransformer(16))
    told = (found.key, found.gain, found.shift, found.eps)
    assert told == ("annotated-layer", "a_2", "b_2", 1e-6)


def test_reading_a_norm_leaves_it_and_the_random_state_alone():
    norm = draw(hf("gemma").GemmaRMSNorm(8))
    weight, state = norm.weight.clone(), torch.get_rng_state()
    read_norm(norm)
    assert torch.equal(norm.weight, weight) and torch.equal(torch.get_rng_state(), state)


class OneGroup(nn.GroupNorm):
    """Like poolformer's: its own constructor, and a copy of its parent's formula."""

    def __init__(self, channels):
        super().__init__(1, channels)

    def forward(self, input):
        return nn.functional.group_norm(input, 1, self.weight, self.bias, self.eps)


class OneGroupPlain(nn.GroupNorm):
    def __init__(self, channels):
        super().__init__(1, channels)


@pytest.mark.parametrize("kind", [OneGroup, OneGroupPlain])
def test_a_subclass_that_does_what_its_parent_does_has_its_parents_formula(kind):
    model = nn.Sequential(nn.Conv2d(3, 8, 1), kind(8))
    model[1].weight.data.uniform_(0.5, 2)
    x = torch.randn(2, 3, 5, 4)
    y = model(x)
    (row,) = convert(model, {kind: "group"}).swapped
    assert (row.kept, row.same) == (("weight", "bias", "eps 1e-05"), "same")
    assert torch.equal(model(x), y)


def test_two_eps_of_one_model_are_seen_in_the_table():
    model = nn.Sequential(nn.RMSNorm(4, eps=1e-3), nn.RMSNorm(4, eps=1e-6))
    told = str(convert(model, {"RMSNorm": "rms-llama"}))
    assert "eps 0.001" in told and "eps 1e-06" in told


def test_two_axes_fit_a_target_that_knows_them():
    model, x = nn.Sequential(nn.LayerNorm((3, 4))), torch.randn(2, 3, 4)
    nn.init.normal_(model[0].weight)
    before = model(x)
    assert convert(model, {"LayerNorm": "layer"}).swapped[0].same == "same"
    torch.testing.assert_close(model(x), before, rtol=0, atol=0)
    convert(model, {"LayerNorm": "rms"})
    assert model[0].weight.shape == (3, 4)


def test_images_keep_their_channels_on_axis_1():
    x = torch.randn(2, 6, 3, 3)
    model = nn.Sequential(nn.BatchNorm2d(6))
    model(x)
    model.eval()
    before = model(x)
    assert convert(model, {"BatchNorm2d": "batch"}).swapped[0].same == "same"
    assert torch.equal(model(x), before)
    row = convert(model, {"BatchNorm": "layer"}).swapped[0]
    assert row.new == "ChannelsFirst(LayerNorm)" and isinstance(model[0], ChannelsFirst)
    # each position by itself, over its channels
    torch.testing.assert_close(model(x).mean(1), torch.zeros(2, 3, 3), rtol=0, atol=1e-6)


class LayerNorm2d(nn.LayerNorm):
    """Like timm's: LayerNorm over axis 1 of an image."""

    def forward(self, x):
        y = nn.functional.layer_norm(
            x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps
        )
        return y.permute(0, 3, 1, 2)


def test_a_layer_norm_over_channels_stays_over_channels():
    model, x = draw(nn.Sequential(LayerNorm2d(6))), torch.randn(2, 6, 3, 3)
    before = model(x)
    assert convert(model, {"LayerNorm2d": "layer"}).swapped[0].same == "same"
    torch.testing.assert_close(model(x), before, rtol=1e-6, atol=1e-6)


def test_an_argument_wins_over_the_old_norms_value():
    model = nn.Sequential(nn.LayerNorm(4, eps=1e-3), nn.LayerNorm(4, eps=1e-3))
    convert(model, {"LayerNorm": "rms"}, only="0", eps=1e-7)
    convert(model, {"LayerNorm": "rms"}, only="1")
    assert (model[0].eps, model[1].eps) == (1e-7, 1e-3)
    model = nn.Sequential(nn.LayerNorm(4))
    row = convert(model, {"LayerNorm": "l2"}, temperature=7.0).swapped[0]
    assert model[0].weight.item() == 7.0 and "weight (an argument was given)" in row.dropped


def test_torchs_eps_of_none_is_that_of_its_computation():
    for dtype, eps in ((torch.float64, 2.0**-52), (torch.bfloat16, 2.0**-23)):
        model = nn.Sequential(nn.RMSNorm(4, dtype=dtype))
        convert(model, {"RMSNorm": "rms-llama"})
        assert model[0].eps == eps


def test_a_gain_for_each_feature_becomes_one_number_only_where_it_is_one():
    model = nn.Sequential(nn.RMSNorm(4, eps=1e-9), nn.RMSNorm(4, eps=1e-9)).double()
    model[0].weight.data.fill_(1.5)
    model[1].weight.data.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    x = torch.randn(2, 4, dtype=torch.float64)
    before = model[0](x)
    rows = convert(model, {"RMSNorm": "scale"}).swapped
    torch.testing.assert_close(model[0](x), before, rtol=1e-8, atol=0)
    assert rows[0].kept == ("weight",) and rows[0].same == "same, but for eps"
    assert rows[1].dropped == ("weight: 4 gains became their mean",)
    assert model[1].weight.item() == 2.5 * 4**0.5 and rows[1].same == "another function"


# --- what must not change: dtype, device, mode, grad, sharing ---


def test_dtype_mode_and_requires_grad_stay():
    model = nn.Sequential(nn.LayerNorm(4, dtype=torch.bfloat16), nn.LayerNorm(4).double())
    model[0].requires_grad_(False).eval()
    convert(model, {"LayerNorm": "dyt"})
    assert {p.dtype for p in model[0].parameters()} == {torch.bfloat16}
    assert not any(p.requires_grad for p in model[0].parameters()) and not model[0].training
    assert {p.dtype for p in model[1].parameters()} == {torch.float64} and model[1].training
    assert all(p.requires_grad for p in model[1].parameters())


def test_a_shared_norm_stays_shared():
    norm = nn.LayerNorm(4)
    model = nn.Sequential(norm, nn.Linear(4, 4), norm)
    conversion = convert(model, {"LayerNorm": "rms"})
    assert model[0] is model[2] and [row.name for row in conversion.swapped] == ["0 = 2"]
    conversion.undo()
    assert model[0] is norm and model[2] is norm
    with pytest.raises(ValueError, match="`only` leaves one of its places out"):
        convert(model, {"LayerNorm": "rms"}, only="0")


def test_tied_parameters_stay_where_they_are():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4))
    model[1].weight = model[0].weight
    model.register_parameter("outside", model[2].bias)
    conversion = convert(model, {"LayerNorm": "rms"})
    assert [row.name for row in conversion.swapped] == ["3"]
    assert [row.reason for row in conversion.left] == [
        f"its parameter is tied to {other}; untie it first"
        for other in ("1.weight", "0.weight", "outside")
    ]
    assert model[0].weight is model[1].weight and model[2].bias is model.outside


def test_a_norm_inside_a_norm_goes_with_it():
    xt = peer("x_transformers.x_transformers")
    model, x = nn.Sequential(draw(xt.LayerNorm(16))), torch.randn(3, 16)
    before = model(x)
    conversion = convert(model, {"LayerNorm": "layer"})
    assert [row.name for row in conversion.swapped] == ["0"] and not conversion.left
    assert conversion.swapped[0].kept[0] == "gamma as weight"
    assert type(model[0]) is LayerNorm
    torch.testing.assert_close(model(x), before, rtol=1e-5, atol=1e-6)


def test_running_statistics_are_copies():
    norm = nn.BatchNorm1d(4)
    model = nn.Sequential(norm)
    conversion = convert(model, {"BatchNorm1d": "batch"})
    assert "running_mean" in conversion.swapped[0].kept
    model(torch.randn(8, 4) + 5)
    assert model[0].running_mean.abs().min() > 0 and (norm.running_mean == 0).all()


@pytest.mark.parametrize(
    "key", [key for key in NORMS if facts(key).eps_place != facts("layer").eps_place]
)
def test_an_eps_from_another_place_of_the_formula_is_not_carried_over(key):
    model = nn.Sequential(nn.LayerNorm(4, eps=1e-3))
    row = convert(model, {"LayerNorm": key}).swapped[0]
    assert model[0].eps == facts(key).options["eps"] and "eps" not in row.kept


class HiddenEps(nn.Module):
    """RMSNorm whose eps has an unpredictable name."""

    def __init__(self):
        super().__init__()
        self.g, self.little = nn.Parameter(torch.ones(4)), 1e-8

    def forward(self, x):
        return self.g * x * (x.square().mean(-1, keepdim=True) + self.little).rsqrt()


def test_an_eps_is_read_off_small_rows_where_it_has_no_known_name():
    found = read_norm(HiddenEps())
    assert (found.key, found.gain, found.eps) == ("rms", "g", 1e-8)
