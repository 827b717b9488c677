"""HybridNorm's theory for heads narrower or wider than the stream; appendix E has the rest.

One head, no rotation, no mask: S = softmax(Q Kᵀ / sqrt(d_k)) V W_O, matrices W as in x W, vectors
by rows. Lemmas A.1 and A.2 of arXiv 2503.04598 are exact; its Theorem A.3 needs corrections.
"""

import math

import torch
from each import each
from torch import Tensor

from labkit.attention.jacobians import attention_jacobians, rms_jacobian

WEIGHTS = ("q", "k", "v", "out")


def unit_rms(z: Tensor) -> Tensor:
    return z / z.square().mean(-1, keepdim=True).sqrt()


def draw(tokens: int, width: int, head: int) -> tuple[Tensor, dict[str, Tensor]]:
    shapes = {"q": (width, head), "k": (width, head), "v": (width, head), "out": (head, width)}
    W = {n: torch.randn(*shape, dtype=torch.float64) for n, shape in shapes.items()}
    return torch.randn(tokens, width, dtype=torch.float64), W


def smallest(w: Tensor) -> float:
    return torch.linalg.svdvals(w).min().item()


def value_block(x: Tensor, W_V: Tensor) -> float:
    """Measure |∂V_N/∂V (X ⊗ I)|, from which the proof derives the theorem's V row."""
    inner = torch.eye(W_V.shape[1], dtype=torch.float64)
    return (rms_jacobian(x @ W_V) @ torch.kron(x, inner)).norm().item()


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


@each(sizes=[(5, 4, 3), (3, 4, 7)], normed=[False, True])
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
