"""HybridNorm's theory: gradients of attention with and without norms on q, k, v, and their bounds.

One head, no rotation, no mask: S = softmax(Q Kᵀ / sqrt(d_k)) V W_O, matrices W as in x W, vectors
by rows. Lemmas A.1 and A.2 of arXiv 2503.04598 are exact; its Theorem A.3 needs corrections.
"""

import math

import pytest
import torch
from each import each
from torch import Tensor

from labkit.attention import Attention, rotary_angles
from labkit.attention.jacobians import attention_jacobians, rms_jacobian
from labkit.attention.norms import attention_norms
from labkit.context import Context
from labkit.norms import rms_norm

WEIGHTS = ("q", "k", "v", "out")


def unit_rms(z: Tensor) -> Tensor:
    return z / z.square().mean(-1, keepdim=True).sqrt()


def draw(tokens: int, width: int, head: int) -> tuple[Tensor, dict[str, Tensor]]:
    shapes = {"q": (width, head), "k": (width, head), "v": (width, head), "out": (head, width)}
    W = {n: torch.randn(*shape, dtype=torch.float64) for n, shape in shapes.items()}
    return torch.randn(tokens, width, dtype=torch.float64), W


def spectral(w: Tensor) -> float:
    return torch.linalg.matrix_norm(w, 2).item()


def smallest(w: Tensor) -> float:
    return torch.linalg.svdvals(w).min().item()


SIZES = [(5, 4, 4), (3, 4, 7), (6, 8, 8), (1, 3, 6), (8, 2, 5)]


@each(sizes=SIZES)
def test_the_corrected_bounds_of_qkv_norm_hold(sizes):
    s, d, d_k = sizes  # d_k ≥ d
    for _ in range(10):
        x, W = draw(*sizes)
        found = {n: J.norm().item() for n, J in attention_jacobians(x, W, qkv_norm=True).items()}
        out = spectral(W["out"])
        slack = 1 + 1e-9
        assert found["v"] <= slack * math.sqrt(s * d_k * (d_k - 1)) * out / smallest(W["v"])
        for name in "qk":
            assert found[name] <= slack * math.sqrt(s) * d_k * out / smallest(W[name])
        assert found["out"] <= slack * math.sqrt(s * d * d_k)


@each(sizes=[*SIZES, (6, 8, 3)])
def test_the_printed_bounds_of_pre_norm_hold_and_k_deserves_the_half_of_q(sizes):
    s, d, d_k = sizes
    for _ in range(10):
        x, W = draw(*sizes)
        found = {
            n: J.norm().item()
            for n, J in attention_jacobians(rms_norm(x, eps=0.0), W, qkv_norm=False).items()
        }
        q, k, v, out = (spectral(W[n]) for n in WEIGHTS)
        assert found["out"] <= s * d * v
        # one token: an equality, up to float64
        assert found["v"] <= (1 + 1e-9) * s * math.sqrt(d) * W["out"].norm().item()
        both = (s * d) ** 1.5 / (2 * math.sqrt(d_k)) * v * out
        assert found["q"] <= both * k
        assert found["k"] <= both * q


@pytest.mark.parametrize("d_k", [2, 5])
def test_the_bounds_of_q_and_k_are_reached(d_k):
    # two opposite tokens whose keys are orthogonal to their queries: all weights are one half
    eye = torch.eye(d_k, dtype=torch.float64)
    W = {"q": eye, "k": eye.roll(1, 1), "v": eye, "out": eye}
    x = torch.stack((eye[0], -eye[0]))
    found = attention_jacobians(x, W, qkv_norm=True)
    for name in "qk":
        assert found[name].norm().item() == pytest.approx(math.sqrt(2) * d_k, rel=1e-12)


def value_block(x: Tensor, W_V: Tensor) -> float:
    """Measure |∂V_N/∂V (X ⊗ I)|, the step of the proof that the theorem's V row rests on."""
    inner = torch.eye(W_V.shape[1], dtype=torch.float64)
    return (rms_jacobian(x @ W_V) @ torch.kron(x, inner)).norm().item()


def test_the_value_block_has_a_factor_that_the_paper_lost():
    s = d = d_k = 16
    x, W = draw(s, d, d_k)
    v = x @ W["v"]
    exact = math.sqrt((d_k * (d_k - 1) * (x.norm(dim=1) / v.norm(dim=1)) ** 2).sum())
    assert value_block(x, W["v"]) == pytest.approx(exact, rel=1e-9)
    orthogonal = torch.linalg.qr(W["v"])[0]  # its smallest singular value is 1
    assert value_block(x, orthogonal) == pytest.approx(math.sqrt(s * d_k * (d_k - 1)), rel=1e-9)
    assert round(math.sqrt(s * d_k * (d_k - 1)), 2) == 61.97  # printed: sqrt(s d_k) = 16


def test_the_printed_bound_of_v_fails_for_one_token():
    x, W = draw(1, 16, 16)
    W |= {"v": torch.linalg.qr(W["v"])[0], "out": torch.eye(16, dtype=torch.float64)}
    found = attention_jacobians(x, W, qkv_norm=True)["v"].norm().item()
    printed = 1 * math.sqrt(16) / smallest(W["v"]) * spectral(W["out"])
    assert found == pytest.approx(math.sqrt(16 * 15), rel=1e-9)
    assert found > 15 > 4 == pytest.approx(printed)


def test_the_bounds_need_a_head_as_wide_as_the_stream():
    s, d, d_k = 4, 16, 4
    _, W = draw(s, d, d_k)
    null = torch.linalg.svd(W["v"].T).Vh[-1]  # xᵀ W_V = 0
    x = null + 1e-3 * torch.randn(s, d, dtype=torch.float64)
    corrected = math.sqrt(s * d_k * (d_k - 1)) / smallest(W["v"])
    assert value_block(x, W["v"]) > 100 * corrected
    # what holds for every width: the largest |x_i| / |v_i| in the place of 1 / σ
    ratio = (x.norm(dim=1) / (x @ W["v"]).norm(dim=1)).max().item()
    assert value_block(x, W["v"]) <= math.sqrt(s * d_k * (d_k - 1)) * ratio


def test_the_printed_bound_of_the_output_matrix_needs_a_head_of_at_most_s_times_d():
    x, W = draw(1, 4, 16)
    found = attention_jacobians(x, W, qkv_norm=True)["out"].norm().item()
    assert found == pytest.approx(math.sqrt(1 * 4 * 16))  # printed: s d = 4
    x, W = draw(4, 4, 16)
    assert attention_jacobians(x, W, qkv_norm=True)["out"].norm().item() <= 4 * 4


# What is exactly true, and for several heads, rotation and mask too.


def loss_of(layer: Attention, x: Tensor, out: Tensor) -> Tensor:
    return (layer(x, Context(rotary_angles(x.shape[1], layer.head_dim))) * out).sum()


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_with_qkv_norm_the_size_of_a_matrix_matters_for_its_own_gradient_only(name):
    norms = attention_norms("qkv rms")
    layer = Attention(16, 4, 2, norms=norms, eps=0.0).double()
    x, out = torch.randn(2, 2, 6, 16, dtype=torch.float64)
    weight = layer.get_submodule(name).weight
    before = loss_of(layer, x, out)
    slopes = torch.autograd.grad(before, list(layer.parameters()))
    own = dict(zip((n for n, _ in layer.named_parameters()), slopes, strict=True))[f"{name}.weight"]
    scale = own.norm() * weight.norm()
    assert abs((weight * own).sum().item()) < 1e-12 * scale.item() < 1
    with torch.no_grad():
        weight.mul_(3)
    after = loss_of(layer, x, out)
    assert after.item() == pytest.approx(before.item(), rel=1e-12)
    for (path, _), one, two in zip(
        layer.named_parameters(),
        slopes,
        torch.autograd.grad(after, list(layer.parameters())),
        strict=True,
    ):
        expected = one / 3 if path == f"{name}.weight" else one
        torch.testing.assert_close(two, expected, rtol=1e-9, atol=1e-11, msg=path)


@each(sizes=[(5, 4, 3), (3, 4, 7), (1, 3, 3)], normed=[False, True])
def test_what_labkit_writes_out_is_what_autograd_finds(normed, sizes):
    x, W = draw(*sizes)
    written = attention_jacobians(x, W, qkv_norm=normed)
    for name in WEIGHTS:

        def head(w: Tensor, name=name) -> Tensor:
            at = W | {name: w}
            q, k, v = (x @ at[n] for n in "qkv")
            if normed:
                q, k, v = unit_rms(q), unit_rms(k), unit_rms(v)
            return torch.softmax(q @ k.T / math.sqrt(sizes[2]), -1) @ v @ at["out"]

        found = torch.autograd.functional.jacobian(head, W[name]).reshape(x.numel(), -1)
        torch.testing.assert_close(written[name], found, rtol=1e-9, atol=1e-11, msg=name)
