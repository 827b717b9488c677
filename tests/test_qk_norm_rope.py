"""The formula of the fused norm and rotation: Attention's modules as one function."""

import pytest
import torch
from each import each
from torch import Tensor

from labkit.attention import Attention, attention_norms, qk_norm_rope, rotary_angles
from labkit.attention.sphere import SphereAttention
from labkit.context import Context

HEADS, KV_HEADS, WIDTH, TIME = 6, 2, 16, 5
NORMS = ("rms", "l2", None)


def drawn(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Queries and keys as parts of one packed projection."""
    qkv = torch.randn(2, TIME, HEADS + 2 * KV_HEADS, WIDTH, dtype=torch.float64).to(dtype)
    return qkv[:, :, :HEADS], qkv[:, :, HEADS : HEADS + KV_HEADS]


def projected(attention: Attention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys before norm and rotation, (batch, time, heads, head_dim)."""
    q, k = (
        layer(x).unflatten(-1, (-1, attention.head_dim)) for layer in (attention.q, attention.k)
    )
    return q, k


# --- what attention's modules do ---


@each(
    choice=[
        (None, {"norm": None}),
        ("qk rms", {}),
        ("qk rms own", {}),
        ("qk rms no-gain", {}),
        ("qk rms own after-rope", {"after_rope": True}),
        ("qk rms-gemma", {"offset": 1.0}),
        ("qk l2 no-gain", {"norm": "l2", "eps": 1e-12}),
        ("qk l2 own", {"norm": "l2", "eps": 1e-12}),
        ("nanochat", {"after_rope": True, "scale": 1.2}),
    ],
    turning=[False, True],
)
def test_it_is_what_attention_projects(choice, turning):
    text, how = choice
    attention = Attention(HEADS * WIDTH, HEADS, KV_HEADS, norms=attention_norms(text)).double()
    weights = [
        getattr(getattr(attention, f"norm_{name}"), "weight", None) if text else None
        for name in "qk"
    ]
    for weight in weights:
        if weight is not None:
            torch.nn.init.normal_(weight)
    if how.get("norm", "rms") == "rms" and text is not None:
        norm = attention.norm_q
        own = getattr(norm, "norm", norm)
        how = {"eps": own.eps or torch.finfo(torch.float64).eps, **how}
    x = torch.randn(2, TIME, HEADS * WIDTH, dtype=torch.float64)
    angles = rotary_angles(TIME, WIDTH) if turning else None
    q, k, _ = attention.project(x, Context(angles=angles))
    actual = qk_norm_rope(*projected(attention, x), *weights, angles, **how)
    for one, other in zip(actual, (q, k), strict=True):
        torch.testing.assert_close(one.transpose(1, 2), other)


def test_it_is_what_ngpt_projects():
    attention = SphereAttention(HEADS * WIDTH, HEADS, causal=True).double()
    torch.nn.init.normal_(attention.s_qk.weight)
    x = torch.randn(2, TIME, HEADS * WIDTH, dtype=torch.float64)
    x[0, 2] = 0  # what attention writes for a padded query: its unit vector is 0
    angles = rotary_angles(TIME, WIDTH)
    q, k, _ = attention.project(x, Context(angles=angles))
    own = attention.s_qk().view(HEADS, WIDTH)
    how = {"norm": "l2", "eps": 0.0, "after_rope": True}
    actual = qk_norm_rope(*projected(attention, x), WIDTH * own, own, angles, **how)
    for one, other in zip(actual, (q, k), strict=True):
        torch.testing.assert_close(one.transpose(1, 2), other)


# --- laws ---


@each(norm=NORMS, after=[False, True])
def test_cos_and_sin_say_what_angles_say(norm, after):
    q, k = drawn(torch.float32)
    angles = rotary_angles(TIME, WIDTH)
    how = {"norm": norm, "after_rope": after}
    both = qk_norm_rope(q, k, angles=(angles.cos(), angles.sin()), **how)
    for one, other in zip(both, qk_norm_rope(q, k, angles=angles, **how), strict=True):
        assert torch.equal(one, other)


def test_zero_vectors_stay_zero():
    q, k = drawn()
    q[0, 2, 1] = 0
    for eps, size in ((0.0, 1.0), (1e-6, 1e6)):
        x = q.clone().requires_grad_()
        y, _ = qk_norm_rope(x, k, norm="l2", eps=eps)
        (dx,) = torch.autograd.grad(y.sum(), x)
        assert not y[0, 2, 1].any() and torch.equal(dx[0, 2, 1], torch.full_like(dx[0, 2, 1], size))


def test_results_are_dense_and_shapes_are_free():
    q, k = drawn()
    for how in ({"norm": None}, {"angles": rotary_angles(TIME, WIDTH)}):
        whole = qk_norm_rope(q, k, **how)
        assert all(t.is_contiguous() for t in whole)
        one = qk_norm_rope(q[1], k[1], **how)
        deep = qk_norm_rope(q[None], k[None], **how)
        for i in range(2):
            assert torch.equal(one[i], whole[i][1]) and torch.equal(deep[i][0], whole[i])


# --- errors ---


def test_errors_say_what_to_do():
    q, k = drawn()
    angles = rotary_angles(TIME, WIDTH)
    own = torch.ones(HEADS, WIDTH)
    shape = r"needs q of shape \(…, time, heads, head_dim\) and k"
    for error, text, given, how in (
        (TypeError, "floating-point tensor, got torch.int64", (q.long(), k), {}),
        (TypeError, "q and k of the same dtype", (q, k.float()), {}),
        (ValueError, shape, (q, k[:, :4]), {}),
        (ValueError, shape, (q, k[..., :8]), {}),
        (ValueError, shape, (q[0, 0], k[0, 0]), {}),
        (ValueError, r"q_weight of shape \(16,\), shared", (q, k, own[:2]), {}),
        (ValueError, r"k_weight of shape \(16,\), shared", (q, k, None, own), {}),
        (ValueError, r"\(time, pairs\) = \(5, up to 8\)", (q, k, None, None, angles[1:]), {}),
        (ValueError, r"got \(5, 9\)", (q, k, None, None, rotary_angles(TIME, 18)), {}),
        (ValueError, r"\(5, 8\) and \(5, 7\)", (q, k, None, None, (angles, angles[:, 1:])), {}),
        (ValueError, "no gradient", (q, k, None, None, angles.requires_grad_()), {}),
        (ValueError, "supports norm 'rms', 'l2' and None", (q, k), {"norm": "layer"}),
        (ValueError, "needs eps >= 0", (q, k), {"eps": -1.0}),
    ):
        with pytest.raises(error, match=text):
            qk_norm_rope(*given, **how)
