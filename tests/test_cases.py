"""Bugs that users reported, reduced: what the product must say about them, and what not.

The names are those of the projects in whose trackers the reports stand.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from variants_common import Gain, affine, rms

from labkit import ModelConfig, check
from labkit.attention import Attention
from labkit.norms import NORMS, facts, make_norm


def gained(change):
    """Make an RMS norm whose gain is modified before the multiplication."""

    def norm(x, weight=None, eps=1e-6):
        y = rms(x, eps)
        return (y if weight is None else y * change(weight.to(y.dtype))).to(x.dtype)

    return norm


class CastTooEarly(Gain):
    def forward(self, x):
        return self.weight * rms(x.float(), self.eps).to(x.dtype)


class EpsOfTheDtype(nn.Module):
    def __init__(self, dim, eps=None):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        eps = torch.finfo(x.dtype).eps if self.eps is None else self.eps
        return (rms(x, eps) * self.weight).to(x.dtype)


class OnlyFloat32(Gain):
    def forward(self, x):
        return (rms(x.float(), self.eps) * self.weight.float()).to(x.dtype)


class EpsRewritten(Gain):
    def forward(self, x):
        return (rms(x, 1e-5) * self.weight).to(x.dtype)


class FusedOrder(Gain):
    def forward(self, x):
        return (self.weight * rms(x, self.eps)).to(x.dtype)


class OnePlusOne(nn.LayerNorm):
    """1 + w, in a module whose gain starts at 1."""

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, 1 + self.weight, self.bias, self.eps)


class AxisNorm(nn.LayerNorm):
    """espnet#3183: an argument dim, whose value no line uses."""

    def __init__(self, width, dim=-1, eps=1e-5):
        super().__init__(width, eps=eps)
        self.dim = dim

    def forward(self, input):
        if self.dim == -1 and input.ndim < 3:
            return super().forward(input)
        return super().forward(input.transpose(1, -1)).transpose(1, -1)


class AxisNormMended(AxisNorm):
    def forward(self, input):
        return nn.LayerNorm.forward(self, input.transpose(self.dim, -1)).transpose(self.dim, -1)


def axis_one(x, weight=None, bias=None, eps=1e-5):
    """espnet#3183 as a function: axis 1 is normalized, where the last one is meant."""
    if x.ndim < 3:
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    y = F.layer_norm(x.transpose(1, -1), (x.shape[1],), eps=eps).transpose(1, -1)
    return affine(y, weight, bias)


class Twice(nn.BatchNorm1d):
    """A module that is called twice, as a block under activation checkpointing is."""

    def forward(self, input):
        if self.training:
            super().forward(input)
        return super().forward(input)


def in_place(x, weight=None, eps=1e-6):
    wide = x.float()
    wide.mul_(torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps))
    return (wide if weight is None else wide * weight).to(x.dtype)


def all_but_first(x, weight=None, bias=None, eps=1e-5):
    return affine(F.layer_norm(x, x.shape[1:], eps=eps), weight, bias).to(x.dtype)


def deviation(x, weight=None, bias=None, eps=1e-6):
    y = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps)
    return affine(y, weight, bias)


def every_edge_in_half(x, weight=None, bias=None, eps=1e-5):
    middle = x - x.mean(-1, keepdim=True)
    y = middle / (middle.square().mean(-1, keepdim=True) + eps).sqrt()
    return affine(y, weight, bias).to(x.dtype)


def skip_from_copy(x, attention, feed_forward, norm1, norm2):
    z = norm1(x)
    h = z + attention(z)
    return h + feed_forward(norm2(h))


def normed_once_more(x, attention, feed_forward, norm1, norm2):
    h = norm1(x + attention(x))
    return norm2(norm2(h + feed_forward(h)))


class LateNorms(Attention):
    """Norms q and k after the rotation; its settings claim that it normalizes before it."""

    def project(self, x, context):
        declared, self.norms = self.norms, replace(self.norms, after_rope=True)
        try:
            return super().project(x, context)
        finally:
            self.norms = declared


class NormalizedByLength(Gain):
    def forward(self, x):
        y = F.normalize(x.to(torch.promote_types(x.dtype, torch.float32)), dim=-1, eps=self.eps)
        return (y * x.shape[-1] ** 0.5 * self.weight).to(x.dtype)


class ChannelsFirst(nn.LayerNorm):
    """EomtLayerNorm2d's form: images only, normalized over the channels."""

    def forward(self, input):
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def sum_in_half(x, weight=None, eps=1e-6):
    y = rms(x, eps)
    return (y if weight is None else y * (1 + weight)).to(x.dtype)


def divided_in_half(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(
        x.to(torch.promote_types(x.dtype, torch.float32)).square().mean(-1, True) + eps
    ).to(x.dtype)
    return y if weight is None else (y * weight).to(x.dtype)


def gain_first(x, weight=None, eps=1e-6):
    return rms(x if weight is None else x * weight, eps).to(x.dtype)


def parallel(x, attention, feed_forward, norm1, norm2):
    return x + attention(norm1(x)) + feed_forward(norm2(x))


def parallel_behind_one_norm(x, attention, feed_forward, norm1, norm2):
    return x + attention(norm1(x)) + feed_forward(norm1(x))


def grouped(x, groups=3, eps=1e-5):
    z = x.unflatten(-1, (groups, -1))
    return (z * torch.rsqrt(z.square().mean(-1, keepdim=True) + eps)).flatten(-2)


class WholeWidth(Gain):
    def forward(self, x):
        return (self.weight * rms(x, 1e-5)).to(x.dtype)


NAMED = {  # the report -> what is asked, what is said of it
    "nano-vllm#170": (lambda: check.rms_norm(in_place), "in-place operation"),
    "transformers#30236": (lambda: check.rms_norm(CastTooEarly), "gain promotes the result"),
    "transformers#30236, the way out": (
        lambda: check.rms_norm(CastTooEarly), "variant='llama' or 't5' accepts it"),
    "transformers#30236, any norm": (lambda: check.any_norm(CastTooEarly), "promotes the result"),
    "pytorch#189581": (lambda: check.rms_norm(EpsOfTheDtype), "machine epsilon of the input's"),
    "pytorch#189581, an instance": (lambda: check.rms_norm(EpsOfTheDtype(16)), "machine epsilon"),
    "pytorch#189581, any norm": (lambda: check.any_norm(EpsOfTheDtype), "eps of the input's dtype"),
    "faster-trajectory-transformer#3": (
        lambda: check.block(skip_from_copy, "pre"), "the skip is taken from the normalized copy"),
    "geometric-algebra-transformer#8": (
        lambda: check.layer_norm(all_but_first), "over all axes but the first"),
    "espnet#3183": (lambda: check.layer_norm(AxisNorm), "over the channel axis"),
    "espnet#3183, a function": (lambda: check.layer_norm(axis_one), "over the channel axis"),
    "espnet#3183, dim=2": (lambda: check.layer_norm(AxisNorm(12, 2)), "over the channel axis"),
    "mold#1074": (
        lambda: check.rms_norm(gained(lambda w: 2 + w), variant="gemma"), "1 is added twice"),
    "llama.cpp's files": (
        lambda: check.rms_norm(gained(lambda w: w), variant="gemma"), "the gain itself multiplies"),
    "a loader that takes 1 away": (
        lambda: check.rms_norm(gained(lambda w: w - 1)), "gain − 1 multiplies"),
    "Nemotron's class": (lambda: check.layer_norm(OnePlusOne), "twice as much comes out"),
    "pytorch#96136": (lambda: check.batch_norm(Twice), "the statistics move twice in one call"),
    "ConvNeXt#80": (lambda: check.layer_norm(deviation, eps=1e-6), "d − 1 instead of d"),
    "onnxruntime#31626": (lambda: check.layer_norm(every_edge_in_half), "half precision"),
    "mamba#910": (
        lambda: check.any_norm(WholeWidth, grouped), "run over 12 features of a row; the formula"),
    "snowfall#184": (
        lambda: check.block(normed_once_more, "post"), "a norm too many on the stream"),
    "QuaRot#34": (
        lambda: check.rms_norm(FusedOrder, variant="llama"), "one rounding, after the gain"),
    "llama.cpp#9310": (
        lambda: check.rms_norm(EpsRewritten, eps=1e-6), "eps is 1e-05 here"),
    "x-transformers' RMSNorm": (
        lambda: check.rms_norm(NormalizedByLength), "a floor on the length, as in F.normalize"),
    "Muse Spark's 1 + w": (
        lambda: check.rms_norm(sum_in_half, variant="gemma"), "1 + gain is rounded"),
    "Muse Spark's scaled input": (
        lambda: check.rms_norm(gain_first), "the gain multiplies x before"),
    "DeepSeek V4's": (lambda: check.rms_norm(divided_in_half), "a statistic or what divides"),
    "EoMT's": (lambda: check.layer_norm(ChannelsFirst), "over the channel axis"),
    "GPT-J's block": (
        lambda: check.block(parallel, "pre"), "parallel: the feed-forward reads the block's input"),
    "PaLM's block": (
        lambda: check.block(parallel_behind_one_norm, "pre"), "the sublayers are parallel"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_the_cause_of_a_report_is_named(name):
    ask, said = NAMED[name]
    report = ask()
    assert not report.ok and any(said in law.cause for law in report.failed), report


def test_a_norm_of_q_and_k_behind_the_rotation_is_named_where_nothing_declares_it():
    config = ModelConfig("qk", dim=32, depth=2, heads=4)
    block = config.build().blocks[1]
    block.attention.sublayer.__class__ = LateNorms
    causes = {law.cause for law in check.block(block, "qk", config).failed}
    assert causes == {"q and k are normalized after the rotation instead of before"}


def test_a_wrong_axis_is_the_only_cause_where_dim_is_ignored():
    for given in (AxisNorm, axis_one):
        report = check.layer_norm(given)
        assert {law.cause for law in report.failed} == {
            "the statistics run over the channel axis, not over the last axis"
        }
    assert check.layer_norm(AxisNormMended).ok
    channels = torch.randn(2, 12, 5)  # dim=1 is what the code does, so this is right
    assert torch.allclose(AxisNorm(12, 1)(channels), AxisNormMended(12, 1)(channels))


# --- right code, of which nothing false is said ---


def widened(function):
    """Compute in float32 for every input."""

    def norm(x, *given, **named):
        wide = {k: v.float() if isinstance(v, torch.Tensor) else v for k, v in named.items()}
        return function(x.float(), *given, **wide).to(x.dtype)

    return norm


class LayerNormFp32(nn.LayerNorm):
    def forward(self, input):
        gain, shift = self.weight.float(), self.bias.float()
        return F.layer_norm(input.float(), self.normalized_shape, gain, shift, self.eps).to(input)


def layer(x, weight=None, bias=None, eps=1e-5):
    return widened(F.layer_norm)(x, x.shape[-1:], weight=weight, bias=bias, eps=eps)


def group(x, num_groups, weight=None, bias=None, eps=1e-5):
    return widened(F.group_norm)(x, num_groups, weight=weight, bias=bias, eps=eps)


def instance(x, weight=None, bias=None, eps=1e-5):
    return widened(F.instance_norm)(x, weight=weight, bias=bias, eps=eps)


def statistic_in_float32(x):
    return x * torch.rsqrt(x.float().square().mean(-1, True) + 1e-6).to(x.dtype)


ONLY_FLOAT32 = {
    "open_clip's LayerNormFp32": lambda: check.layer_norm(LayerNormFp32),
    "a layer norm": lambda: check.layer_norm(layer),
    "a group norm": lambda: check.group_norm(group),
    "an instance norm": lambda: check.instance_norm(instance),
    "Llama's": lambda: check.rms_llama(CastTooEarly),
    "any norm": lambda: check.any_norm(OnlyFloat32),
    "any norm with a formula": lambda: check.any_norm(OnlyFloat32, rms),
    "DeepSeek V4's": lambda: check.any_norm(statistic_in_float32, rms),
}


@pytest.mark.parametrize("name", ONLY_FLOAT32)
def test_that_float64_is_lost_is_a_note_and_no_fault(name):
    report = ONLY_FLOAT32[name]()
    assert report.ok, report
    assert any("float64 comes out right to seven digits" in note for note in report.notes)


class BatchNormFp32(nn.BatchNorm1d):
    """Its x is converted to float32 but its parameters are not, so float64 raises an error."""

    def forward(self, input):
        return super().forward(input.float()).to(input.dtype)


def test_a_module_that_takes_no_float64_is_checked_in_float32():
    report = check.batch_norm(BatchNormFp32)
    assert report.ok, report
    assert any(note.startswith("a float64 module raises RuntimeError") for note in report.notes)
    assert not check.batch_norm(type("Twice32", (BatchNormFp32, Twice), {})).ok


class TwoOrThreeAxes(Gain):
    """Takes rows or a batch of sequences, like Falcon H1's norm."""

    def forward(self, x):
        sequences, length, dim = x.shape if x.ndim == 3 else (len(x), 1, x.shape[1])
        y = rms(x.view(sequences, length, dim), self.eps) * self.weight
        return y.view(x.shape).to(x.dtype)


class RowsOnly(TwoOrThreeAxes):
    def forward(self, x):
        rows, _ = x.shape
        return super().forward(x).view(rows, -1)


def test_a_norm_of_two_and_three_axes_is_right_and_one_of_rows_alone_is_not():
    report = check.rms_norm(TwoOrThreeAxes)
    assert report.ok, report
    assert "x of 1 or 4 axes raises; it was checked on 2 and 3 axes" in report.notes
    assert "shapes" in {law.name for law in check.rms_norm(RowsOnly).failed}


def test_llamas_norm_is_said_to_hand_float32_on():
    assert any("comes back float32" in note for note in check.rms_llama(CastTooEarly).notes)


@pytest.mark.parametrize(
    "name",
    [
        "transformers#30236",
        "x-transformers' RMSNorm",
        "Muse Spark's 1 + w",
        "Muse Spark's scaled input",
        "DeepSeek V4's",
        "EoMT's",
        "GPT-J's block",
    ],
)
def test_nothing_else_is_said_of_these_forms(name):
    ask, said = NAMED[name]
    report = ask()
    (cause,) = report.causes
    assert said in cause
    assert name != "DeepSeek V4's" or [law.name for law in report.failed] == ["half precision"]


class OwnEps(nn.LayerNorm):
    """A class that documents a different default, like ConvNeXt's and Llama 4's."""

    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, eps)


class OtherEps(OwnEps):
    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, 1e-3 if eps == 1e-6 else eps)


def test_a_default_eps_is_held_against_what_the_class_says():
    assert check.layer_norm(OwnEps).ok
    assert "the default eps is 0.001, documented is 1e-06" in str(check.layer_norm(OtherEps))


# --- what cannot be made or called so gets one sentence, with what works ---


class NoSize(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return rms(x, self.eps).to(x.dtype)


class TwoSizes(Gain):
    def __init__(self, dim, group_size, eps=1e-6):
        super().__init__(dim, eps)

    def forward(self, x):
        return (rms(x, self.eps) * self.weight).to(x.dtype)


class Weightless(nn.Module):
    """Falcon Mamba's form: the gain is a constant that is not in the state dict."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.register_buffer("weight", torch.ones(dim), persistent=False)

    def forward(self, x):
        return rms(x, self.eps).to(x.dtype)


def test_a_constant_gain_is_no_fault():
    assert check.rms_norm(Weightless).ok


def test_a_block_of_functions_with_one_norm_too_few_is_told_what_it_takes():
    (law,) = check.block(lambda x, attention, feed_forward, norm: x, "pre").failed
    assert "must take x, attention, feed_forward and 2 norms, in the block's order" in law.message


class Gated(Gain):
    def forward(self, x, gate):
        return (rms(x, self.eps) * self.weight * F.silu(gate)).to(x.dtype)


REFUSED = {
    "no size": (lambda: check.rms_norm(NoSize), "takes no size: pass an instance"),
    "no size, any norm": (lambda: check.any_norm(NoSize), "pass a function of x"),
    "two sizes": (lambda: check.rms_norm(TwoSizes), "pass an instance"),
    "a gate": (lambda: check.rms_norm(Gated), "it takes gate as well"),
    "a gate, an instance": (lambda: check.rms_norm(Gated(8)), "a class of your own"),
    "an instance for any norm": (lambda: check.any_norm(NoSize()), "as a function, lambda x"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_checked_so_is_told_the_way_out_once(name):
    ask, said = REFUSED[name]
    report = ask()
    assert len(report.laws) == 1 and said in report.laws[0].message, report


def test_the_ways_out_work():
    assert check.rms_norm(NoSize()).ok and check.rms_norm(TwoSizes(8, 4)).ok
    assert check.any_norm(lambda x: NoSize()(x)).ok


def test_under_autocast_labkits_norms_of_a_token_return_bfloat16():
    x = torch.randn(2, 6, 8).bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for key in (key for key in NORMS if facts(key).scope == "token"):
            assert make_norm(key, 8).bfloat16()(x).dtype == torch.bfloat16, key
