"""Norms inside attention: their descriptions, the laws of their logits, and published twins."""

import math

import pytest
import torch
from each import each
from torch import nn

from labkit.attention import Attention, rotary_angles
from labkit.attention.norms import QK_NORMS, AttentionNorms, attention_norms
from labkit.context import Context
from labkit.norms import NORMS, facts

PER_TOKEN = [name for name in NORMS if facts(name).scope == "token"]

MEANINGS = {
    None: None,
    "rms": AttentionNorms("qk", "rms", "head"),
    "qkv rms": AttentionNorms("qkv", "rms", "head"),
    "qkvc": AttentionNorms("qkvc", "rms", "head"),
    "kc layer own": AttentionNorms("kc", "layer", "own"),
    "own layer kc": AttentionNorms("kc", "layer", "own"),
    "c layer width shift": AttentionNorms("c", "layer", "width", shift=True),
    "qk rms after-rope": AttentionNorms("qk", "rms", after_rope=True),
    "times=1.5 qk": AttentionNorms("qk", times=1.5),
    "l2 no-gain temperature=module length=97": AttentionNorms(
        "qk", "l2", gain=False, temperature="module", length=97
    ),
    "henry": AttentionNorms("qk", "l2", gain=False, temperature="module", length=512),
    "henry length=97": AttentionNorms("qk", "l2", gain=False, temperature="module", length=97),
    "vit-22b": AttentionNorms("qk", "layer"),
    "swin-v2": AttentionNorms("qk", "l2", gain=False, temperature="head"),
    "gemma3": AttentionNorms("qk", "rms-gemma"),
    "qwen3": AttentionNorms("qk", "rms-llama"),
    "olmo2": AttentionNorms("qk", "rms", "width"),
    "olmo2 no-gain layer": AttentionNorms("qk", "layer", "width", gain=False),
    "cohere": AttentionNorms("qk", "layer", "own"),
    "hybrid": AttentionNorms("qkv", "rms"),
    "nanochat": AttentionNorms("qk", "rms", after_rope=True, gain=False, times=1.2),
}


def test_every_published_choice_has_a_meaning_an_equation_and_a_source():
    assert set(QK_NORMS) < set(MEANINGS)
    for row in QK_NORMS.values():
        assert row.equation and row.source


@each(text=MEANINGS)
def test_a_text_means_its_norms(text):
    assert attention_norms(text, length=512) == MEANINGS[text]


@each(
    refusal=[
        ("", "the norms must be a nonempty string"),
        ("  ", "the norms must be a nonempty string"),
        ("qkx rms", "'qkx' is not a setting.*name one of henry"),
        ("kq rms", "'kq' is not a setting"),
        ("qk rsm", r"'rsm' is not a setting.*\(batch, layer"),
        ("qk rms layer", "gives norm twice"),
        ("qk kv rms", "gives tensors twice"),
        ("rms olmo2", "'olmo2' is not a setting"),
        ("qk batch", "acts on each vector separately, got 'batch'; choose one of"),
        ("qk instance", "each vector separately, got 'instance'"),
        ("qk power", "each vector separately, got 'power'"),
        ("qk rms own no-gain", "leave out no-gain"),
        ("qk layer own shift", "leave out shift"),
        ("vc rms after-rope", "both q and k are normalized, but tensors is 'vc'"),
        ("kv l2 temperature=head", "a temperature applies only if both q and k"),
        ("q rms times=2", "times applies only if both q and k"),
        ("qk rms width after-rope", "is applied before the heads are split and rotated"),
        ("qk rms times=fast", "times= needs a number, got 'times=fast'"),
        ("qk rms times=0", "times must be a positive number"),
        ("qk rms times=nan", "times must be a positive number"),
        ("henry length=1", "length must be at least 2"),
        ("henry length=1.5", "length= needs a number, got 'length=1.5'"),
        ("qk l2 temperature=warm", "unknown temperature 'warm'; choose one of module, head"),
        # what no text can say
        ({"tensors": ""}, "one or more of q, k, v and c, in this order; got ''"),
        ({"tensors": "kq"}, "in this order; got 'kq'"),
        ({"share": "group"}, "unknown share 'group'; choose one of head, own, width"),
        ({"norm": "rsm"}, "one of layer"),
    ]
)
def test_what_means_nothing_is_refused(refusal):
    given, message = refusal
    with pytest.raises(ValueError, match=message):
        attention_norms(given) if isinstance(given, str) else AttentionNorms(**given)


@pytest.mark.parametrize("norm", PER_TOKEN)
@each(tensors=["qkv", "c"], share=["head", "own", "width"])
def test_every_norm_of_one_vector_works_in_attention(norm, share, tensors):
    x = torch.randn(2, 5, 64)
    layer = Attention(64, 4, 2, norms=AttentionNorms(tensors, norm, share))
    shapes = {"head": (16,), "own": (4, 16), "width": (64,)}
    first = getattr(layer, f"norm_{tensors[0]}")
    if norm not in ("none", "l2", "scale") or share == "own":
        assert first.weight.shape == shapes[share]
    assert not any(name.endswith("bias") for name, _ in layer.named_parameters())
    y = layer(x, Context(angles=rotary_angles(5, 16)))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad is not None and p.grad.any() for p in layer.parameters())
    if share != "own":
        bare = Attention(64, 4, 2, norms=AttentionNorms(tensors, norm, share, gain=False))
        names = [name for name, _ in bare.named_parameters() if name.startswith("norm")]
        assert not any(name.endswith(("weight", "bias")) for name in names)
        bare.load_state_dict(layer.state_dict(), strict=False)
        # gains start where they change nothing, so that only float32's order of sums differs
        torch.testing.assert_close(bare(x), layer(x), rtol=1e-4, atol=1e-5)


def logits(layer, x, angles=None) -> torch.Tensor:
    q, k, _ = layer.project(x, Context(angles=angles))
    scale = 1.0 if layer.temperature is not None else layer.head_dim**-0.5
    return scale * q @ k.repeat_interleave(layer.heads // layer.kv_heads, dim=1).mT


@each(
    bounded=[
        ("qk rms no-gain", math.sqrt(8)),
        ("qk layer no-gain", math.sqrt(8)),
        ("qk rms no-gain after-rope", math.sqrt(8)),
        ("nanochat", 1.44 * math.sqrt(8)),
        ("qk l2 no-gain", 1 / math.sqrt(8)),
        ("henry length=9", math.log2(72)),
        ("swin-v2", 10.0),
    ]
)
def test_a_norm_of_queries_and_keys_bounds_the_logits_whatever_the_weights(bounded):
    text, bound = bounded
    layer = Attention(32, 4, 4, norms=attention_norms(text)).double()
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    for scale in (1.0, 1e3):
        nn.init.normal_(layer.q.weight, std=scale)
        nn.init.normal_(layer.k.weight, std=scale)
        assert logits(layer, x, rotary_angles(9, 8)).abs().max() <= bound * (1 + 1e-12)
    with torch.no_grad():
        layer.k.weight.copy_(layer.q.weight)  # a key like its query reaches the bound
    reached = logits(layer, x, rotary_angles(9, 8)).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(reached, torch.full_like(reached, bound), rtol=1e-6, atol=0)


def test_swin_v2_clamps_the_temperature_at_100():
    layer = Attention(32, 4, 4, norms=attention_norms("swin-v2")).double()
    x = torch.randn(2, 9, 32, dtype=torch.float64)
    torch.testing.assert_close(layer.temperature.exp(), torch.full((4,), 10.0).double())
    nn.init.constant_(layer.temperature, 20.0)
    assert logits(layer, x).abs().max() <= 100 * (1 + 1e-12)
    layer(x).sum().backward()
    assert not layer.temperature.grad.any()  # beyond the clamp nothing is learned


def test_henry_s_temperature_starts_at_the_logarithm_of_the_pairs():
    layer = Attention(32, 4, 4, norms=attention_norms("henry", length=2048))
    assert layer.temperature.tolist() == pytest.approx([math.log2(2048 * 2047)])


@each(
    text=["qkv rms", "qkv layer own", "qkv rms width", "swin-v2", "nanochat"],
    options=[{}, {"softcap": 2.0}],
)
def test_the_scale_of_a_normalized_projection_means_nothing(text, options):
    norms = attention_norms(text)
    layer = Attention(16, 4, 2, norms=norms, eps=0.0, **options).double()
    x, angles = torch.randn(2, 5, 16, dtype=torch.float64), rotary_angles(5, 4)
    y = layer(x, Context(angles=angles))
    direction = torch.randn_like(y)
    (y * direction).sum().backward()
    for tensor in "qkv":
        weight = getattr(layer, tensor).weight
        # so that the gradient has no part along the weight, relative to its length
        along = (weight * weight.grad).sum() / (weight.norm() * weight.grad.norm())
        assert (abs(along) < 1e-12) == (tensor in norms.tensors)
        with torch.no_grad():
            weight.mul_(7.0)
        moved = (layer(x, Context(angles=angles)) - y).abs().max()
        assert moved < 1e-12 if tensor in norms.tensors else moved > 0.1
        with torch.no_grad():
            weight.div_(7.0)
