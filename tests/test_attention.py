"""Attention agrees with its float64 equations; masks, caps, chains and clips keep their laws."""

import math

import attention_formula as formula
import pytest
import torch
import torch.nn.functional as F
from each import each
from torch import nn

from labkit.attention import Attention, rotary_angles, rotate
from labkit.attention.logits import clip_factors
from labkit.attention.norms import attention_norms
from labkit.context import Context

TEXTS = (
    None,
    "qkv rms",
    "qkvc rms",
    "qkvc rms own",
    "qkvc layer width",
    "c layer width shift",
    "kv layer",
    "kc rms own",
    "qk rms width",
    "qk rms after-rope",
    "qk layer own after-rope",
    "qk layer no-gain after-rope",
    "qk rms no-gain",
    "qk l2",
    "qkvc none own",
    "henry length=9",
    "vit-22b",
    "swin-v2",
    "gemma3",
    "qwen3",
    "olmo2",
    "cohere",
    "hybrid",
    "nanochat",
)
OPTIONS = {"softcap": 1.5, "head_gain": True, "chain": "self"}
# Every text without options and with all of them; each option alone where few texts suffice.
VARIANTS = [(text, options) for text in TEXTS for options in ({}, OPTIONS)]
VARIANTS += [(t, {name: value}) for t in TEXTS[:3] for name, value in OPTIONS.items()]
PADDING = torch.tensor([[True] * 5, [False, True, True, True, False]])


def make(text=None, kv_heads=2, dim=16, heads=4, **kw) -> Attention:
    """Make attention in float64 with gains, shifts and temperatures unlike their initial values."""
    norms = attention_norms(text)
    eps = None if norms is None or norms.norm == "none" else formula.EPS
    layer = Attention(dim, heads, kv_heads, norms=norms, eps=eps, **kw).double()
    for name, parameter in layer.named_parameters():
        if name not in ("q.weight", "k.weight", "v.weight", "out.weight"):
            nn.init.uniform_(parameter, 0.5, 1.5)
        else:
            nn.init.normal_(parameter)  # logits large enough for the softmax to be far from flat
    return layer


def tokens(*shape) -> torch.Tensor:
    return torch.randn(*(shape or (2, 5, 16)), dtype=torch.float64, requires_grad=True)


def assert_same_with_gradients(actual, expected, inputs):
    # float64 sums of a few dozen terms
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    direction = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad((y * direction).sum(), inputs) for y in (actual, expected))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-8, atol=1e-10)


@each(variant=VARIANTS)
def test_attention_is_its_formula(variant):
    text, options = variant
    layer, x = make(text, **options), tokens()
    actual = layer(x, Context(angles=rotary_angles(5, 4)))
    expected, _ = formula.attention(layer, x, rotated=True)
    assert_same_with_gradients(actual, expected, [x, *layer.parameters()])


@each(
    options=[{}, {"softcap": 1.5, "chain": "self", "head_gain": True}],
    causal=[True, False],
    kv_heads=[4, 2, 1],
    text=[None, "qkvc rms own", "qkvc layer width"],
)
def test_padded_attention_is_its_formula(text, kv_heads, causal, options):
    layer, x = make(text, kv_heads, causal=causal, **options), tokens()
    actual = layer(x, Context(angles=rotary_angles(5, 4), padding=PADDING))
    expected, _ = formula.attention(layer, x, rotated=True, padding=PADDING)
    assert_same_with_gradients(actual, expected, [x, *layer.parameters()])


@each(
    options=[{}, {"softcap": 1.5, "chain": "cross"}],
    text=[None, "qkvc rms", "qk rms width", "swin-v2"],
)
def test_cross_attention_reads_the_memory_and_knows_no_positions(text, options):
    layer, x, memory = make(text, cross=True, **options), tokens(), tokens(2, 3, 16)
    padding = torch.tensor([[True, True, False], [False] * 3])  # nothing to read: 0, no gradient
    context = Context(rotary_angles(5, 4), PADDING, memory, padding)
    expected, _ = formula.attention(layer, x, memory=memory, memory_padding=padding)
    assert_same_with_gradients(layer(x, context), expected, [x, memory, *layer.parameters()])


@pytest.mark.parametrize("head_dim", [4, 16])
def test_nothing_asked_is_torch_s_attention_bit_by_bit(head_dim):
    dim = 4 * head_dim
    torch.manual_seed(5)
    layer = Attention(dim, 4, 2)
    after = torch.rand(3)
    torch.manual_seed(5)
    rows = {"q": dim, "k": dim // 2, "v": dim // 2, "out": dim}
    weights = {name: nn.Linear(dim, rows[name], bias=False).weight for name in rows}
    # the order of names and draws is what recorded runs depend on
    assert list(layer.state_dict()) == [f"{name}.weight" for name in weights]
    assert all(torch.equal(getattr(layer, name).weight, w) for name, w in weights.items())
    assert torch.equal(after, torch.rand(3))
    x = torch.randn(2, 5, dim)
    q, k, v = ((x @ weights[n].T).view(2, 5, -1, head_dim).transpose(1, 2) for n in "qkv")
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    expected = mixed.transpose(1, 2).flatten(-2) @ weights["out"].T
    if head_dim == 16:
        assert torch.equal(layer(x), expected)
    else:  # heads below 16 are filled up with zeros: other sums of the same numbers
        torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-6)


def test_extra_modules_follow_the_matrices_and_draw_nothing():
    torch.manual_seed(5)
    plain = Attention(16, 4, 2)
    torch.manual_seed(5)
    extra = Attention(16, 4, 2, norms=attention_norms("qkvc rms"), head_gain=True)
    names = [name for name, _ in extra.named_modules() if name]
    assert names == ["q", "k", "v", "out", "norm_q", "norm_k", "norm_v", "norm_c"]
    assert all(torch.equal(extra.get_parameter(n), p) for n, p in plain.named_parameters())


@each(text=TEXTS)
def test_only_a_gain_or_a_mean_after_the_rotation_sees_absolute_positions(text):
    layer, x, angles = make(text), tokens(), rotary_angles(25, 4)
    moved = (layer(x, Context(angles=angles[:5])) - layer(x, Context(angles=angles[20:]))).abs()
    absolute = text is not None and "after-rope" in text
    assert moved.max() > 0.1 if absolute else moved.max() < 1e-11


@each(
    text=["qkvc rms", "qkvc layer own", "qk rms width", "swin-v2"],
    options=[{}, {"softcap": 2.0, "head_gain": True}],
)
def test_bfloat16_comes_back_and_is_near_float64(text, options):
    layer, x = make(text, **options), tokens().detach()
    exact = layer(x)
    low = layer.bfloat16()(x.bfloat16())
    assert low.dtype == torch.bfloat16
    # eight bits, through two projections of 16 terms, a norm and an average
    assert (low.double() - exact).abs().max() < 0.06 * exact.abs().max()


def test_a_chain_adds_up_logits_before_the_mask():
    x = tokens()
    layers = [make(chain="self", softcap=cap) for cap in (None, None, 2.0)]
    context, earlier = Context(padding=PADDING), None
    for layer in layers:
        expected, earlier = formula.attention(layer, x, padding=PADDING, earlier=earlier)
        torch.testing.assert_close(layer(x, context), expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(context.scores["self"], earlier, rtol=1e-9, atol=1e-11)
    # the last layer's output reaches the first layer's queries
    first = layers[0].q.weight
    assert_same_with_gradients(context.scores["self"], earlier, [first])


def largest(layer, x, padding=None) -> torch.Tensor:
    """Return the largest logit of each head, over the pairs of real tokens that attention mixes."""
    best = torch.full((layer.heads,), -math.inf, dtype=torch.float64)
    for b in range(x.shape[0]):
        for i, logit in enumerate(formula.logits_of(layer, x[b], x[b], rotated=True)):
            for t in range(x.shape[1]):
                for s in range(t + 1 if layer.causal else x.shape[1]):
                    if padding is None or (padding[b, t] and padding[b, s]):
                        best[i] = max(best[i], logit[t, s].item())
    return best


@each(
    options=[{}, {"softcap": 1.0, "chain": "self"}],
    padding=[None, PADDING],
    causal=[True, False],
    kv_heads=[4, 2, 1],
)
def test_after_a_clip_no_logit_exceeds_the_threshold(kv_heads, causal, padding, options):
    layer, x = make("v rms", kv_heads, causal=causal, clip=True, **options), tokens()
    context = Context(angles=rotary_angles(5, 4), padding=padding)
    context.scores["self"] = 1e4 * torch.ones(2, 4, 5, 5, dtype=torch.float64)
    layer(x, context)
    before = largest(layer, x, padding)
    torch.testing.assert_close(layer.largest_logit, before)
    threshold = before.sort().values[1:3].mean().item()  # two heads above it, two below
    assert threshold > 0
    weights = {name: getattr(layer, name).weight.clone() for name in ("q", "k")}
    values = layer.v.weight.clone(), layer.out.weight.clone()
    gamma = layer.clip_logits(threshold)
    expected = torch.where(before > threshold, threshold, before)
    # a product of two square roots and a quotient
    torch.testing.assert_close(largest(layer, x, padding), expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(layer.largest_logit, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(gamma, expected / before, rtol=1e-12, atol=0)
    assert torch.equal(layer.v.weight, values[0]) and torch.equal(layer.out.weight, values[1])
    for name, heads in (("q", 4), ("k", kv_heads)):
        factor = (getattr(layer, name).weight / weights[name]).view(heads, -1)
        assert (factor.std(dim=1) < 1e-12).all()  # one factor for each head's rows
        if kv_heads == 4:
            torch.testing.assert_close(factor[:, 0], gamma.sqrt())
    again = layer.q.weight.clone()
    assert (layer.clip_logits(threshold) - 1).abs().max() < 1e-12  # a second clip finds no work
    torch.testing.assert_close(layer.q.weight, again, rtol=1e-12, atol=0)


def test_a_shared_key_head_takes_the_smallest_factor_and_queries_the_rest():
    query, key = clip_factors(torch.tensor([400.0, 50.0, 90.0, -3.0]), 100.0, kv_heads=2)
    assert key.tolist() == [0.5, 1.0] and query.tolist() == [0.5, 2.0, 1.0, 1.0]


def test_a_clip_leaves_heads_without_a_finite_logit_alone():
    broken = torch.tensor([math.inf, math.nan, -math.inf, 200.0])
    query, key = clip_factors(broken, 100.0, kv_heads=4)
    assert query[:3].tolist() == key[:3].tolist() == [1.0, 1.0, 1.0]
    torch.testing.assert_close((query * key)[3], torch.tensor(0.5))


def test_recording_changes_no_output_and_no_state_dict():
    x = tokens()
    layer, plain = make(clip=True), make()
    plain.load_state_dict(layer.state_dict())
    torch.testing.assert_close(layer(x), plain(x), rtol=1e-12, atol=1e-13)
    assert set(layer.state_dict()) == set(plain.state_dict())
    assert layer.largest_logit is not None and not layer.largest_logit.requires_grad


@each(
    refusal=[
        ({"dim": 18}, r"dim must be a positive multiple of heads.*dim=18, heads=4"),
        ({"kv_heads": 3}, r"heads a multiple of kv_heads; .*kv_heads=3"),
        ({"heads": 0}, r"multiple of heads.*heads=0"),
        ({"softcap": 0.0}, "softcap must be positive"),
        ({"softcap": math.inf}, "softcap must be positive"),
        ({"norms": attention_norms("qk rms"), "clip": True}, "a norm of q or k cancels"),
        ({"norms": attention_norms("kv rms"), "clip": True}, "a norm of q or k cancels"),
        ({"norms": attention_norms("henry")}, "needs the length L"),
    ]
)
def test_attention_refuses_nonsense(refusal):
    change, message = refusal
    with pytest.raises(ValueError, match=message):
        Attention(**{"dim": 16, "heads": 4, "kv_heads": 4, **change})


@each(
    refusal=[
        (Context(), {"cross": True}, "context.memory is None"),
        (Context(padding=PADDING[:, :4]), {}, r"bool of shape \(2, 5\).*got torch.bool of shape"),
        (Context(padding=PADDING.double()), {}, "padding must be bool"),
        (Context(scores={"a": torch.zeros(2, 4, 3, 3)}), {"chain": "a"}, "use a different chain"),
    ]
)
def test_a_forward_pass_refuses_nonsense(refusal):
    context, options, message = refusal
    with pytest.raises(ValueError, match=message):
        make(**options)(tokens(), context)


def test_a_clip_refuses_nonsense():
    with pytest.raises(ValueError, match="make Attention with clip=True"):
        make().clip_logits(100.0)
    for threshold in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="positive threshold"):
            make(clip=True).clip_logits(threshold)


def test_rotation_leaves_lengths_and_depends_on_distance_only():
    q, k = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)
    angles = rotary_angles(40, 8)
    q, k = rotate(q.expand(1, 1, 40, 8), angles)[0, 0], rotate(k.expand(1, 1, 40, 8), angles)[0, 0]
    torch.testing.assert_close(q.norm(dim=-1), q[0].norm().expand(40))
    torch.testing.assert_close(q[7] @ k[3], q[34] @ k[30])
    assert abs(q[7] @ k[3] - q[7] @ k[4]) > 1e-6
