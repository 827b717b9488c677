"""Special checks of the norm and rotation of queries and keys: functions without arguments."""

import itertools
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from normkernels import formulas, qk_norm_rope
from torch import Tensor

from .cases import NAMED
from .laws_formula import compare_with_formula
from .laws_torch import refused
from .measure import BRAIN, DEVICE, FLOAT, fused, identical

ORDERS = list(itertools.product(("rms", "l2", None), (False, True)))


def draw(*shape: int, dtype: torch.dtype = FLOAT, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator) + 0.5).to(dtype).to(DEVICE)


def parts(heads: int, kv_heads: int, n: int) -> tuple[Tensor, Tensor]:
    """Draw q and k as parts of a projection (2, 5, heads + 2 · kv_heads, n), as by one Linear."""
    qkv = draw(2, 5, heads + 2 * kv_heads, n)
    return qkv[:, :, :heads], qkv[:, :, heads : heads + kv_heads]


def turns(time: int, pairs: int) -> Tensor:
    return 3 * draw(time, pairs, seed=3)


def gains(heads: int, n: int, own: bool, seed: int = 7) -> Tensor:
    return 0.5 + 0.3 * draw(*((heads, n) if own else (n,)), seed=seed)


def compare(q: Tensor, k: Tensor, *others: Tensor | None, **how: Any) -> None:
    """Compare results and gradients with the formula; others are gains and angles."""
    names = ("q", "k", "q_weight", "k_weight", "angles")
    inputs = dict(zip(names, (q, k, *others), strict=False))
    case = replace(NAMED["qk_norm_rope"], options=how)
    compare_with_formula(case, inputs, shaky=True)


def near(actual: Tensor, exact: Tensor, share: float = 2e-6) -> None:
    """Compare with float64: sums may lose `share` of the largest value of each vector."""
    error = (actual.double() - exact.double()).abs()
    assert (error <= share * exact.double().abs().amax(-1, keepdim=True)).all()


# --- Where q and k lie ---


def check_parts_of_a_packed_projection_are_read_where_they_lie():
    """No copy is made, and the bits are those of dense tensors."""
    real = Tensor.contiguous
    inputs: set[int] = set()

    def watched(self: Tensor, *args: Any, **kw: Any) -> Tensor:
        result = real(self, *args, **kw)
        place = self.untyped_storage().data_ptr()
        assert place not in inputs or result.data_ptr() == self.data_ptr(), "an input was copied"
        return result

    for heads, kv_heads, n in ((4, 2, 64), (3, 1, 96)):
        q, k = parts(heads, kv_heads, n)
        given = {"q": q, "k": k, "q_weight": gains(heads, n, True), "angles": turns(5, n // 2)}
        dense = fused(NAMED["qk_norm_rope"], given | {"q": q.contiguous(), "k": k.contiguous()})
        across = tuple(dy.transpose(1, 2).contiguous().transpose(1, 2) for dy in dense.dys)
        inputs.update(t.untyped_storage().data_ptr() for t in (q, *across))
        with (
            mock.patch.object(Tensor, "contiguous", watched),
            mock.patch.object(Tensor, "clone", side_effect=AssertionError("a tensor was cloned")),
        ):
            actual = fused(NAMED["qk_norm_rope"], given, dys=across)
        inputs.clear()
        for i, (one, other) in enumerate(zip(actual.outputs, dense.outputs, strict=True)):
            assert one.is_contiguous()
            identical(f"result {i}", one, other)
        for name, grad in actual.grads.items():
            identical(f"gradient of {name}", grad, dense.grads[name])


def check_any_axes_before_time_and_any_order_of_them():
    """No memory layout and no number of batch axes changes a bit of the result."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    dense = qk_norm_rope(q, k, angles=angles)
    for order in ((0, 2, 1, 3), (3, 2, 1, 0)):
        back = [order.index(i) for i in range(4)]
        moved = [t.permute(order).contiguous().permute(back) for t in (q, k)]
        for one, other in zip(qk_norm_rope(*moved, angles=angles), dense, strict=True):
            assert one.is_contiguous() and torch.equal(one, other)
    deep = qk_norm_rope(q[:, None], k[:, None], angles=angles)
    lone = qk_norm_rope(q[1], k[1], angles=angles)
    for i in range(2):
        assert torch.equal(deep[i][:, 0], dense[i]) and torch.equal(lone[i], dense[i][1])


# --- Values and gradients ---


def check_two_norms_before_and_after_the_rotation():
    for norm, after in ORDERS:
        weights = gains(3, 64, False), gains(2, 64, True)
        compare(*parts(3, 2, 64), *weights, turns(5, 20), norm=norm, after_rope=after, scale=1.2)


def check_grouped_heads_in_all_orders():
    """Head counts that fill their tiles or do not, and tokens that fill none."""
    for heads, kv_heads, n in ((8, 8, 64), (5, 1, 96), (3, 3, 8), (14, 2, 40)):
        weights = gains(heads, n, heads % 3 == 2), gains(kv_heads, n, kv_heads > 1, seed=8)
        for norm, after in ORDERS:
            how = {"norm": norm, "after_rope": after, "eps": 0.0}
            compare(*parts(heads, kv_heads, n), *weights, turns(5, n // 2), **how)


def check_with_and_without_gains_angles_and_offset():
    shared, own = gains(3, 64, False), gains(2, 64, True)
    for weights in ((None, None), (shared, None), (None, own), (shared, own)):
        for norm, after in ORDERS:
            for angles in (turns(5, 32), None):
                how = {"norm": norm, "after_rope": after, "offset": 1.0}
                compare(*parts(3, 2, 64), *weights, angles, **how)


def check_odd_and_tiny_heads():
    """head_dim 1, and odd sizes, in which one channel never rotates."""
    for n in (1, 2, 3, 7, 41):
        for pairs in {0, n // 4, n // 2}:
            for norm, after in ORDERS:
                if n > 1 or norm is None:  # a single channel keeps its sign only
                    how = {"norm": norm, "after_rope": after}
                    compare(*parts(3, 2, n), gains(3, n, True), None, turns(5, pairs), **how)


def check_zero_and_short_vectors_under_the_l2_norm():
    """0 stays 0, gradients are those of x / eps; without eps, those of x. Nothing is NaN.

    So it is with all vectors shorter than eps, of which there are some when eps is large.
    """
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    q[0, 2, 1] = 0
    k[1, 4] = 1e-9
    for eps, after in itertools.product((1e-6, 0.0, 16.0), (False, True)):
        weights = gains(3, 64, False), gains(1, 64, True)
        compare(q, k, *weights, angles, norm="l2", eps=eps, after_rope=after)


# --- The rotation ---


def check_what_does_not_turn_is_not_touched():
    """Channels beyond 2·pairs keep their bits; a NaN there does not spread, inside or outside."""
    wide = torch.full((2, 5, 4, 64 + 16), float("nan"), device=DEVICE)
    q = wide[..., 8:72].copy_(draw(2, 5, 4, 64))  # all around it: NaN
    for pairs in (1, 20, 31):
        for one in qk_norm_rope(q, q[:, :, :2], angles=turns(5, pairs), norm=None):
            before = q[:, :, : one.shape[2]]
            assert torch.equal(one[..., 2 * pairs :], before[..., 2 * pairs :])
            assert one.isfinite().all() and not torch.equal(one, before)
    poisoned = q.clone()
    poisoned[0, 1, 2, 50] = float("nan")
    y, _ = qk_norm_rope(poisoned, q, angles=turns(5, 16), norm=None)
    assert torch.equal(y.isnan(), poisoned.isnan())


def check_the_unread_angles_do_not_matter():
    """cos and sin beyond the given rows and columns are not read: they are surrounded by NaN."""
    q, k = parts(3, 2, 96)
    around = torch.full((7, 48), float("nan"), device=DEVICE)
    angles = around[1:6, :24].copy_(turns(5, 24))
    cos, sin = (around.clone()[1:6, :24].copy_(t) for t in (angles.cos(), angles.sin()))
    plain = qk_norm_rope(q, k, angles=turns(5, 24))
    for given in (angles, (cos, sin)):
        for one, other in zip(qk_norm_rope(q, k, angles=given), plain, strict=True):
            assert torch.equal(one, other)


def check_partners_may_be_neighbours():
    """Interleaved, channel 2i turns with 2i + 1, for odd and for partly turning heads too."""
    for n, pairs in ((64, 32), (64, 20), (41, 20), (7, 2)):
        for norm, after in ORDERS:
            weights = gains(3, n, False), gains(2, n, True)
            how = {"norm": norm, "after_rope": after, "interleaved": True, "offset": 1.0}
            compare(*parts(3, 2, n), *weights, turns(5, pairs), **how)
    q, k = parts(3, 2, 64)
    order = torch.arange(64, device=DEVICE).view(2, 32).T.flatten()  # neighbours to halves
    halves = qk_norm_rope(q, k, angles=turns(5, 32))
    beside = qk_norm_rope(q[..., order], k[..., order], angles=turns(5, 32), interleaved=True)
    for one, other in zip(halves, beside, strict=True):
        near(other, one[..., order])


def check_positions_may_differ_by_sequence():
    """Each sequence has its own angles; further batch axes share them, and q may be a part."""
    tables = 3 * draw(2, 5, 20, seed=3)
    for norm, after in ORDERS:
        weights = gains(3, 64, False), gains(2, 64, True)
        compare(*parts(3, 2, 64), *weights, tables, norm=norm, after_rope=after)
    q, k = parts(3, 2, 64)
    many = [t.expand(3, *t.shape) for t in (q, k)]
    for one, other in zip(
        qk_norm_rope(*many, angles=tables), qk_norm_rope(q, k, angles=tables), strict=True
    ):
        assert all(torch.equal(part, other) for part in one)
    for i in range(2):
        alone = qk_norm_rope(q[i], k[i], angles=tables[i])
        both = qk_norm_rope(q, k, angles=tables)
        assert all(torch.equal(one, of[i]) for one, of in zip(alone, both, strict=True))


def check_large_angles_keep_their_digits():
    """At position 100 000 the rotation is as exact as at 0, for the given angles."""
    frequency = 10_000.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
    angles = ((100_000 + torch.arange(5, dtype=torch.float64))[:, None] * frequency).to(DEVICE)
    q, k = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1)
    for given, true in (
        (angles, angles),
        ((angles.cos().float(), angles.sin().float()), angles),
        (angles.float(), angles.float().double()),
    ):
        exact = formulas.qk_norm_rope(q.double(), k.double(), angles=true)
        for one, other in zip(qk_norm_rope(q, k, angles=given), exact, strict=True):
            near(one, other, 1e-6)


def check_the_norm_after_the_rotation_is_that_of_what_came_out():
    """cos and sin that also scale (YaRN's) change the size before the norm, which undoes it."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    once, twice = (angles.cos(), angles.sin()), (2 * angles.cos(), 2 * angles.sin())
    for norm in ("rms", "l2"):
        plain, _ = qk_norm_rope(q, k, angles=once, norm=norm, eps=0.0, after_rope=True)
        undone, _ = qk_norm_rope(q, k, angles=twice, norm=norm, eps=0.0, after_rope=True)
        near(undone, plain)
        kept, _ = qk_norm_rope(q, k, angles=twice, norm=norm, eps=0.0)
        near(kept, 2 * plain)


# --- Refusals ---


def check_errors_say_what_to_do():
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64), turns(5, 32)
    learning = angles.clone().requires_grad_()
    for error, text, given, how in (
        (TypeError, "needs float32, bfloat16", (q.double(), k.double()), {}),
        (TypeError, "q and k of the same dtype", (q, k.to(BRAIN)), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q, k[:, :4]), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q, k[..., :32]), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q[0, 0], k[0, 0]), {}),
        (ValueError, "head_dim up to", (draw(1, 1, 1, 2000), draw(1, 1, 1, 2000)), {}),
        (ValueError, "q_weight of shape (64,)", (q, k, gains(1, 64, True)), {}),
        (ValueError, "k_weight of shape (64,)", (q, k, None, gains(3, 64, True)), {}),
        (ValueError, "(time, pairs) = (5, up to 32)", (q, k, None, None, angles[1:]), {}),
        (ValueError, "got (5, 33)", (q, k, None, None, turns(5, 33)), {}),
        (ValueError, "(batch, time, pairs)", (q, k, None, None, turns(5, 32).expand(3, 5, 32)), {}),
        (ValueError, "(5, 32) and (5, 31)", (q, k, None, None, (angles, angles[:, 1:])), {}),
        (ValueError, "no gradient for angles", (q, k, None, None, learning), {}),
        (ValueError, "supports norm 'rms', 'l2' and None", (q, k), {"norm": "layer"}),
        (ValueError, "needs eps >= 0", (q, k), {"eps": -1.0}),
        (ValueError, "needs eps >= 0", (q, k), {"eps": "1e-6"}),
    ):  # fmt: skip
        refused(error, text, lambda given=given, how=how: qk_norm_rope(*given, **how))


for many in (
    check_partners_may_be_neighbours,
    check_grouped_heads_in_all_orders,
    check_with_and_without_gains_angles_and_offset,
    check_odd_and_tiny_heads,
    check_zero_and_short_vectors_under_the_l2_norm,
):
    many.slow = True  # hundreds of interpreted programs each
