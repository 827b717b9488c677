"""HybridNorm's theory: gradients of attention with and without norms on q, k, v, and their bounds.

One head, no rotation, no mask: S = softmax(Q Kᵀ / sqrt(d_k)) V W_O, matrices W as in x W, vectors
by rows. Lemmas A.1 and A.2 of arXiv 2503.04598 are exact; its Theorem A.3 needs corrections.
"""

import math

import pytest
import torch
from each import each
from torch import Tensor
from torch.func import functional_call

from labkit.attention import Attention, rotary_angles
from labkit.attention.jacobians import attention_jacobians
from labkit.attention.norms import attention_norms
from labkit.context import Context
from labkit.norms import rms_norm

S, D = 5, 4  # tokens; width, which is the head's too
WEIGHTS = ("q", "k", "v", "out")


def attention(normed: bool) -> Attention:
    norms = attention_norms("qkv rms no-gain") if normed else None
    layer = Attention(D, 1, 1, causal=False, norms=norms, eps=0.0, rotary=False).double()
    for weight in layer.parameters():
        torch.nn.init.normal_(weight, std=D**-0.5)
    return layer


def by_autograd(layer: Attention, x: Tensor, name: str) -> Tensor:
    """Differentiate S by W, both row by row: a matrix of (s·d) × (size of W)."""
    weight = layer.get_submodule(name).weight.detach().T

    def S_of(w: Tensor) -> Tensor:
        return functional_call(layer, {f"{name}.weight": w.T}, (x[None],))[0]

    return torch.autograd.functional.jacobian(S_of, weight).reshape(x.numel(), -1)


def kron(a: Tensor, b: Tensor) -> Tensor:
    return torch.kron(a.contiguous(), b.contiguous())


def unit_rms(z: Tensor) -> Tensor:
    return z / z.square().mean(-1, keepdim=True).sqrt()


def norm_jacobian(z: Tensor) -> Tensor:
    """Return ∂ Norm(Z) / ∂Z: a block sqrt(d) / |z_i| (I − z_i z_iᵀ / |z_i|²) for each row."""
    size = z.shape[-1]
    blocks = [
        math.sqrt(size) / r.norm() * (torch.eye(size).double() - torch.outer(r, r) / (r @ r))
        for r in z
    ]
    return torch.block_diag(*blocks)


def softmax_jacobian(a: Tensor) -> Tensor:
    return torch.block_diag(*[torch.diag(r) - torch.outer(r, r) for r in a])


def transposition(rows: int, columns: int) -> Tensor:
    """Return the matrix that turns the rows of Z, one after another, into the rows of Zᵀ."""
    order = torch.arange(rows * columns).view(rows, columns).T.flatten()
    return torch.eye(rows * columns, dtype=torch.float64)[order]


def lemma(layer: Attention, x: Tensor, normed: bool) -> dict[str, Tensor]:
    """Write out Lemma A.1 (x is the normalized input) or A.2 (Q, K and V are normalized)."""
    W_Q, W_K, W_V, W_O = (layer.get_submodule(n).weight.detach().T for n in WEIGHTS)
    raw = {"q": x @ W_Q, "k": x @ W_K, "v": x @ W_V}
    Q, K, V = (unit_rms(raw[n]) if normed else raw[n] for n in "qkv")
    size = W_Q.shape[1]
    A = torch.softmax(Q @ K.T / math.sqrt(size), dim=-1)
    tokens, inner = torch.eye(len(x)).double(), torch.eye(size).double()
    by_logits = kron(tokens, W_O.T @ V.T) @ softmax_jacobian(A)
    into = {n: kron(x, inner) for n in "qkv"}
    if normed:
        into = {n: norm_jacobian(raw[n]) @ into[n] for n in "qkv"}
    by_Q = by_logits @ kron(tokens, K / math.sqrt(size))
    by_K = by_logits @ kron(Q / math.sqrt(size), tokens) @ transposition(*K.shape)
    return {
        "q": by_Q @ into["q"],
        "k": by_K @ into["k"],
        "v": kron(A, W_O.T) @ into["v"],
        "out": kron(A @ V, torch.eye(W_O.shape[1]).double()),
    }


@each(name=WEIGHTS, normed=[False, True])
def test_the_gradients_of_attention_are_those_of_the_lemma(normed, name):
    layer, x = attention(normed), torch.randn(S, D, dtype=torch.float64)
    x = x if normed else rms_norm(x, eps=0.0)
    # float64, a few dozen terms
    torch.testing.assert_close(
        by_autograd(layer, x, name), lemma(layer, x, normed)[name], rtol=1e-10, atol=1e-12
    )


def draw(tokens: int, width: int, head: int) -> tuple[Tensor, dict[str, Tensor]]:
    shapes = {"q": (width, head), "k": (width, head), "v": (width, head), "out": (head, width)}
    W = {n: torch.randn(*shape, dtype=torch.float64) for n, shape in shapes.items()}
    return torch.randn(tokens, width, dtype=torch.float64), W


class Weights:
    """Matrices of any head size, in the shape that `lemma` reads a layer in."""

    def __init__(self, W: dict[str, Tensor]):
        self.W = W

    def get_submodule(self, name: str):
        return type("Linear", (), {"weight": self.W[name].T})


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
        found = {n: J.norm().item() for n, J in lemma(Weights(W), x, True).items()}
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
            n: J.norm().item() for n, J in lemma(Weights(W), rms_norm(x, eps=0.0), False).items()
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
    found = lemma(Weights(W), x, True)
    for name in "qk":
        assert found[name].norm().item() == pytest.approx(math.sqrt(2) * d_k, rel=1e-12)


def value_block(x: Tensor, W_V: Tensor) -> float:
    """Measure |∂V_N/∂V (X ⊗ I)|, the step of the proof that the theorem's V row rests on."""
    inner = torch.eye(W_V.shape[1], dtype=torch.float64)
    return (norm_jacobian(x @ W_V) @ kron(x, inner)).norm().item()


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
    found = lemma(Weights(W), x, True)["v"].norm().item()
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
    found = lemma(Weights(W), x, True)["out"].norm().item()
    assert found == pytest.approx(math.sqrt(1 * 4 * 16))  # printed: s d = 4
    x, W = draw(4, 4, 16)
    assert lemma(Weights(W), x, True)["out"].norm().item() <= 4 * 4


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


def test_the_gradient_of_one_matrix_does_depend_on_its_direction():
    # "not by themselves" is true of the bounds only: A depends on W_Q
    layer, x = attention(True), torch.randn(S, D, dtype=torch.float64)
    before = by_autograd(layer, x, "q").norm()
    with torch.no_grad():
        layer.q.weight.copy_(torch.randn(D, D))
    assert abs(by_autograd(layer, x, "q").norm() / before - 1) > 0.01


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
