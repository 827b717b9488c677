"""Jacobians of blocks and of BatchNorm, and how large attention's logits can become."""

import math

import pytest
import torch
from each import each
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from labkit.attention import Attention, rotary_angles
from labkit.attention.logits import soft_cap
from labkit.attention.norms import attention_norms
from labkit.context import Context
from labkit.feed_forward import FeedForward
from labkit.norms import batch_norm, make_norm
from labkit.placements import (
    BottomToTop,
    DeepNorm,
    Keel,
    NoNorm,
    OutputNorm,
    Place,
    PostNorm,
    PreNorm,
    SandwichNorm,
    StreamNorm,
)

D = 6
I = torch.eye(D, dtype=torch.float64)  # noqa: E741


def norm_jacobian(name: str, x: Tensor, weight: Tensor) -> Tensor:
    """Return diag(w) (P − x̂ x̂ᵀ/d) / r at one vector: P = I (RMSNorm) or I − 11ᵀ/d (LayerNorm)."""
    centre = I - 1 / D if name == "layer" else I
    eps = 1e-5 if name == "layer" else 2.0**-52
    r = ((centre @ x).square().mean() + eps).sqrt()
    scaled = centre @ x / r
    return weight[:, None] * (centre - torch.outer(scaled, scaled) / D) / r


def value(name: str, x: Tensor, weight: Tensor) -> Tensor:
    centred = x - x.mean() if name == "layer" else x
    eps = 1e-5 if name == "layer" else 2.0**-52
    return weight * centred / (centred.square().mean() + eps).sqrt()


# Each step's Jacobian from J = ∂f at what f reads, N(x) and ∂N at a point, both norms' gains.
JACOBIANS = {
    NoNorm: lambda x, f, J, N, dN, M, dM: I + J(x),
    PostNorm: lambda x, f, J, N, dN, M, dM: dN(x + f(x)) @ (I + J(x)),
    PreNorm: lambda x, f, J, N, dN, M, dM: I + J(N(x)) @ dN(x),
    OutputNorm: lambda x, f, J, N, dN, M, dM: I + dN(f(x)) @ J(x),
    SandwichNorm: lambda x, f, J, N, dN, M, dM: I + dM(f(N(x))) @ J(N(x)) @ dN(x),
    StreamNorm: lambda x, f, J, N, dN, M, dM: (I + J(N(x))) @ dN(x),
    DeepNorm: lambda x, f, J, N, dN, M, dM: dN(8**0.25 * x + f(x)) @ (8**0.25 * I + J(x)),
    Keel: lambda x, f, J, N, dN, M, dM: dM(8 * x + f(N(x))) @ (8 * I + J(N(x)) @ dN(x)),
    # the entry is a second input: its path passes one norm and nothing else
    BottomToTop: lambda x, f, J, N, dN, M, dM: dN(2 * x + f(x)),
}


@each(norm=["layer", "rms"], kind=JACOBIANS)
def test_the_jacobian_of_a_step_is_its_chain_rule(kind, norm):
    place = Place(block=1, decoder=4, dim=D)
    step = kind(lambda: make_norm(norm, D), FeedForward(D, 9, "swiglu"), place).double()
    gains = [torch.rand(D, dtype=torch.float64) + 0.5 for _ in "NM"]
    with torch.no_grad():
        for name, gain in zip(step.norms, gains, strict=False):
            getattr(step, name).weight.copy_(gain)
    x = torch.randn(D, dtype=torch.float64)
    f = step.sublayer
    if kind is BottomToTop:
        actual = jacobian(lambda e: step(x, Context(entry=e)), x)
    else:
        actual = jacobian(step, x)
    (N, dN), (M, dM) = (
        (
            lambda z, w=w: value(norm, z, w),
            lambda z, w=w: norm_jacobian(norm, z, w),
        )
        for w in gains
    )
    expected = JACOBIANS[kind](x, f, lambda z: jacobian(f, z), N, dN, M, dM)
    # float64; products of three small matrices
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("depth", [3, 10])
def test_pre_norm_has_a_path_without_norms_and_post_norm_has_none(depth):
    """With sublayers that write nothing, Pre-Norm's Jacobian is I and Post-Norm's loses rank."""

    def stack(kind) -> Tensor:
        steps = [kind(lambda: make_norm("layer", D), nn.Linear(D, D)) for _ in range(depth)]
        for step in steps:
            nn.init.zeros_(step.sublayer.weight)
            nn.init.zeros_(step.sublayer.bias)
        return jacobian(nn.Sequential(*steps).double(), torch.randn(D, dtype=torch.float64))

    torch.testing.assert_close(stack(PreNorm), I, rtol=0, atol=0)
    singular = torch.linalg.svdvals(stack(PostNorm))
    # LayerNorm: the constant direction is lost for good, that of x up to eps, at each of the norms
    assert singular[-1] < 1e-12
    assert singular[-2] < 1e-4 * singular[0]


@pytest.mark.parametrize("gain", [1.0, 0.3])
def test_batch_norms_gradient_is_shortened_exactly_as_santurkar_has_it(gain):
    """Hold |∇_y L̂|² against γ²/σ² (|∇L|² − ⟨1,∇L⟩²/m − ⟨∇L, ŷ⟩²/m): equal, ∇L the same upstream."""
    m = 32
    y = torch.randn(m, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(m, 3, dtype=torch.float64)
    weight = torch.full((3,), gain, dtype=torch.float64)
    out = batch_norm(y, None, None, weight, None, training=True, eps=0.0)
    (found,) = torch.autograd.grad((out * upstream).sum(), y)
    sigma = (y - y.mean(0)).square().mean(0).sqrt()
    hat = ((y - y.mean(0)) / sigma).detach()
    removed = upstream.sum(0) ** 2 / m + (upstream * hat).sum(0) ** 2 / m
    expected = (gain / sigma.detach()) ** 2 * (upstream.square().sum(0) - removed)
    torch.testing.assert_close(found.square().sum(0), expected, rtol=1e-10, atol=0)
    assert (removed > 0).all()


def largest_logit(words: str, head_dim: int = 64) -> float:
    """Return the largest logit that the norms let pass: every query its own key, huge weights."""
    norms = attention_norms(words, length=64)
    layer = Attention(head_dim, 1, 1, norms=norms, rotary=False, eps=0.0).double()
    with torch.no_grad():
        layer.q.weight.normal_(std=10)
        layer.k.weight.copy_(layer.q.weight)
    x = torch.randn(1, 32, head_dim, dtype=torch.float64)
    q, k, _ = layer.project(x, Context(rotary_angles(32, head_dim)))
    scale = 1.0 if norms is not None and norms.temperature else head_dim**-0.5
    return (scale * q @ k.transpose(-2, -1)).abs().max().item()


@pytest.mark.parametrize("head_dim", [16, 64])
def test_rms_norms_bound_logits_by_the_root_of_the_head_size_and_l2_by_its_inverse(head_dim):
    # q = k: each bound is reached
    assert largest_logit("qk rms no-gain", head_dim) == pytest.approx(head_dim**0.5)
    assert largest_logit("qk l2 no-gain", head_dim) == pytest.approx(head_dim**-0.5)
    assert largest_logit("henry", head_dim) == pytest.approx(math.log2(64**2 - 64), rel=1e-6)
    assert largest_logit("swin-v2", head_dim) == pytest.approx(10, rel=1e-6)
    assert largest_logit("nanochat", head_dim) == pytest.approx(1.44 * head_dim**0.5)
    # LayerNorm's vectors are as long as RMSNorm's
    assert largest_logit("qk layer no-gain", head_dim) == pytest.approx(head_dim**0.5)


def test_logits_of_cosines_cannot_point_at_one_key():
    keys = 2048

    def sharpest(bound: float) -> float:
        logits = torch.full((keys,), -bound, dtype=torch.float64)
        logits[0] = bound
        return torch.softmax(logits, dim=0)[0].item()

    assert sharpest(1.0) == pytest.approx(0.0036, abs=5e-5)  # L2, without temperature
    assert sharpest(64**-0.5) == pytest.approx(0.00063, abs=5e-6)  # and with the usual scale
    assert sharpest(8.0) > 0.9997  # RMS at head size 64
    # Henry's start: one cosine of 1 among others of 0 takes almost everything
    logits = torch.zeros(keys, dtype=torch.float64)
    logits[0] = math.log2(keys**2 - keys)
    assert math.log2(keys**2 - keys) == pytest.approx(22, abs=1e-3)
    assert torch.softmax(logits, dim=0)[0] > 0.999999


@pytest.mark.parametrize("cap", [30.0, 50.0])
def test_a_soft_cap_bends_by_one_percent_at_a_sixth_of_its_bound(cap):
    logits = torch.linspace(-3 * cap, 3 * cap, 201, dtype=torch.float64, requires_grad=True)
    capped = soft_cap(logits, cap)
    (slope,) = torch.autograd.grad(capped.sum(), logits)
    torch.testing.assert_close(slope, 1 - torch.tanh(logits.detach() / cap) ** 2)
    assert capped.abs().max() < cap
    share = soft_cap(torch.tensor([0.17 * cap, 0.18 * cap]).double(), cap) / cap
    assert share[0] / 0.17 > 0.99 > share[1] / 0.18
