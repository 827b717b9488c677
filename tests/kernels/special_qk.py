"""What is special to the norm and rotation of queries and keys: `CHECKS`, without arguments."""

import itertools
from typing import Any
from unittest import mock

import torch
from normkernels import qk_norm_rope
from torch import Tensor

from . import cases
from .measure import BRAIN, DEVICE, FLOAT, HALF, rounded

NORMS = ("rms", "l2", None)
ORDERS = list(itertools.product(NORMS, (False, True)))


def draw(*shape: int, dtype: torch.dtype = FLOAT, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(shape, generator=generator) + 0.5).to(dtype).to(DEVICE)


def packed_qkv(heads: int, kv_heads: int, n: int, dtype: torch.dtype = FLOAT) -> Tensor:
    """Draw a projection (2, 5, heads + 2 · kv_heads, n): what one Linear gives q, k and v."""
    return draw(2, 5, heads + 2 * kv_heads, n, dtype=dtype)


def parts(qkv: Tensor, heads: int, kv_heads: int) -> tuple[Tensor, Tensor]:
    return qkv[:, :, :heads], qkv[:, :, heads : heads + kv_heads]


def turns(time: int, pairs: int, seed: int = 3) -> Tensor:
    return 3 * draw(time, pairs, seed=seed)


def gains(heads: int, n: int, own: bool, seed: int = 7) -> Tensor:
    return 0.5 + 0.3 * draw(*((heads, n) if own else (n,)), seed=seed)


def near(what: str, actual: Tensor, exact: Tensor, share: float = 2e-6) -> None:
    """Compare with float64: `share` of the largest value of each vector may go lost in sums."""
    assert actual.shape == exact.shape, what
    error = (actual.double() - exact.double()).abs()
    allowed = share * exact.double().abs().amax(-1, keepdim=True).clamp_min(1e-30)
    worst = float((error / allowed).max()) if error.numel() else 0.0
    assert worst <= 1, f"{what}: off by {worst:.3g} × {share}"


def with_gradients(
    function: Any, tensors: list[Tensor | None], how: dict, dys: Any
) -> list[Tensor]:
    """Return both results, and the gradients of q, k and the gains that there are."""
    leaves = [None if t is None else t.detach().requires_grad_() for t in tensors]
    results = function(*leaves, **how)
    learn = [t for t in leaves if t is not None]
    wide = results[0].dtype
    grads = torch.autograd.grad(results, learn, [dy.to(wide) for dy in dys])
    return [*(y.detach() for y in results), *grads]


def compare(
    tensors: list[Tensor | None], angles: Any = None, share: float = 8e-6, **how: Any
) -> None:
    """Hold results and gradients against the formula in float64."""
    q, k = tensors[:2]
    assert q is not None and k is not None
    dys = draw(*q.shape, seed=11).to(q.dtype), draw(*k.shape, seed=12).to(k.dtype)
    actual = with_gradients(qk_norm_rope, tensors, {**how, "angles": angles}, dys)
    wide = [None if t is None else t.double() for t in tensors]
    how["angles"] = None if angles is None else angles.double()
    exact = with_gradients(cases.qk_norm_rope, wide, how, dys)
    for i, (one, other) in enumerate(zip(actual, exact, strict=True)):
        # Gradients are differences and sums of larger terms.
        near(f"result {i} of {how}", one, other, 2e-6 if i < 2 else share)


# --- Where q and k lie ---


def check_parts_of_a_packed_projection_are_read_where_they_lie():
    """No copy is made on the way, and the bits are those of dense tensors."""
    real = Tensor.contiguous
    inputs: set[int] = set()

    def watched(self: Tensor, *args: Any, **kw: Any) -> Tensor:
        result = real(self, *args, **kw)
        place = self.untyped_storage().data_ptr()
        assert place not in inputs or result.data_ptr() == self.data_ptr(), "an input was copied"
        return result

    for heads, kv_heads, n in ((4, 2, 64), (3, 1, 96), (2, 2, 128)):
        qkv = packed_qkv(heads, kv_heads, n)
        q, k = parts(qkv, heads, kv_heads)
        weights, angles = [gains(heads, n, True), gains(kv_heads, n, True)], turns(5, n // 2)
        dys = draw(*q.shape, seed=11), draw(*k.shape, seed=12)
        across = [dy.transpose(1, 2).contiguous().transpose(1, 2) for dy in dys]
        how = {"angles": angles}
        inputs.update(t.untyped_storage().data_ptr() for t in (qkv, *across))
        with (
            mock.patch.object(Tensor, "contiguous", watched),
            mock.patch.object(Tensor, "clone", side_effect=AssertionError("a tensor was cloned")),
        ):
            actual = with_gradients(qk_norm_rope, [q, k, *weights], how, across)
        dense = [q.contiguous(), k.contiguous(), *weights]
        for one, other in zip(actual, with_gradients(qk_norm_rope, dense, how, dys), strict=True):
            assert one.is_contiguous() and torch.equal(one, other)
        inputs.clear()


def check_any_order_of_the_axes_in_memory():
    """Heads before time, batch innermost but one, head_dim not dense: the same bits."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    dense = qk_norm_rope(q, k, angles=angles)
    for order in ((0, 2, 1, 3), (2, 1, 0, 3), (1, 0, 2, 3), (3, 2, 1, 0), (0, 1, 3, 2)):
        back = [order.index(i) for i in range(4)]
        moved = [t.permute(order).contiguous().permute(back) for t in (q, k)]
        for one, other in zip(qk_norm_rope(*moved, angles=angles), dense, strict=True):
            assert one.is_contiguous() and torch.equal(one, other)


def check_one_token_seen_many_times():
    """A token expanded over the batch, strides of 0, is as good as its copies."""
    q, k, angles = draw(1, 5, 3, 64), draw(1, 5, 1, 64, seed=1), turns(5, 32)
    many = qk_norm_rope(q.expand(4, -1, -1, -1), k.expand(4, -1, -1, -1), angles=angles)
    for one, other in zip(many, qk_norm_rope(q, k, angles=angles), strict=True):
        assert all(torch.equal(sample, other[0]) for sample in one)


def check_any_axes_before_time():
    """(time, heads, head_dim) and (a, b, time, heads, head_dim) are taken as well."""
    q, k, angles = draw(6, 5, 3, 64), draw(6, 5, 1, 64, seed=1), turns(5, 32)
    flat = qk_norm_rope(q, k, angles=angles)
    deep = qk_norm_rope(q.view(2, 3, 5, 3, 64), k.view(2, 3, 5, 1, 64), angles=angles)
    one = qk_norm_rope(q[2], k[2], angles=angles)
    for i in range(2):
        assert torch.equal(deep[i].flatten(0, 1), flat[i]) and torch.equal(one[i], flat[i][2])


# --- Values and gradients ---


def check_grouped_heads_in_all_orders():
    """Gradients of everything, for head counts that fill their tiles and such that do not."""
    for (heads, kv_heads, n), own in zip(
        ((8, 8, 64), (8, 2, 64), (5, 1, 96), (3, 3, 8), (14, 2, 40)), (0, 1, 0, 1, 1), strict=True
    ):
        q, k = parts(packed_qkv(heads, kv_heads, n), heads, kv_heads)
        weights = gains(heads, n, bool(own)), gains(kv_heads, n, bool(own), seed=8)
        for norm, after in ORDERS:
            compare([q, k, *weights], turns(5, n // 2), norm=norm, after_rope=after, scale=1.2)


def check_with_and_without_gains_angles_and_offset():
    q, k = parts(packed_qkv(3, 2, 64), 3, 2)
    shared, own = gains(3, 64, False), gains(2, 64, True)
    for weights in ((None, None), (shared, None), (None, own), (shared, own)):
        for norm, after in ORDERS:
            how = {"norm": norm, "after_rope": after, "offset": 1.0}
            compare([q, k, *weights], turns(5, 32), **how)
            compare([q, k, *weights], None, **how)


def check_odd_and_tiny_heads():
    """head_dim 1, and odd ones, of which one channel never turns."""
    for n in (1, 2, 3, 7, 41):
        q, k = parts(packed_qkv(3, 2, n), 3, 2)
        for pairs in {0, n // 4, n // 2}:
            for norm, after in ORDERS:
                if n > 1 or norm is None:  # a single channel keeps its sign only
                    # Of two or three channels, the norm leaves little for the gradient.
                    how = {"norm": norm, "after_rope": after, "share": 1e-4 if n < 7 else 8e-6}
                    compare([q, k, gains(3, n, True), None], turns(5, pairs), **how)


def check_dtypes_may_differ_from_the_gains():
    for dtype, weight_dtype in ((BRAIN, FLOAT), (HALF, BRAIN), (FLOAT, HALF)):
        q, k = parts(packed_qkv(3, 2, 64, dtype), 3, 2)
        weights = gains(3, 64, False).to(weight_dtype), gains(2, 64, True)
        y = qk_norm_rope(q, k, *weights, turns(5, 32))
        wide = [t.double() for t in (q, k, *weights)]
        exact = cases.qk_norm_rope(*wide, turns(5, 32).double())
        for one, other in zip(y, exact, strict=True):
            assert one.dtype == dtype
            # One rounding: next to a tie of the dtype, float32 may fall to either side.
            near(f"{dtype}", one, rounded(other, dtype), 2e-6 if dtype == FLOAT else 2.0**-9)
            if dtype != FLOAT:
                assert (one.double() != rounded(other, dtype)).double().mean() < 0.01


# --- The rotation ---


def check_what_does_not_turn_is_not_touched():
    """Channels beyond 2·pairs keep their bits; a NaN among them stays alone, inside or outside."""
    wide = torch.full((2, 5, 4, 64 + 16), float("nan"), device=DEVICE)
    q = wide[..., 8:72].copy_(draw(2, 5, 4, 64))  # all around it: NaN
    for pairs in (1, 16, 20, 31):
        for one in qk_norm_rope(q, q[:, :, :2], angles=turns(5, pairs), norm=None):
            heads = one.shape[2]
            assert torch.equal(one[..., 2 * pairs :], q[:, :, :heads, :][..., 2 * pairs :])
            assert one.isfinite().all() and not torch.equal(one, q[:, :, :heads])
    poisoned = q.clone()
    poisoned[0, 1, 2, 50] = float("nan")
    y, _ = qk_norm_rope(poisoned, q, angles=turns(5, 16), norm=None)
    assert torch.equal(y.isnan(), poisoned.isnan())
    compare([q, q[:, :, :2], gains(4, 64, True), gains(2, 64, False)], turns(5, 20))


def check_the_unread_angles_do_not_matter():
    """cos and sin beyond the rows and columns given are not read: NaN all around them."""
    q, k = parts(packed_qkv(3, 2, 96), 3, 2)
    around = torch.full((7, 48), float("nan"), device=DEVICE)
    angles = around[1:6, :24].copy_(turns(5, 24))
    cos, sin = (around.clone()[1:6, :24].copy_(t) for t in (angles.cos(), angles.sin()))
    plain = qk_norm_rope(q, k, angles=turns(5, 24))
    for given in (angles, (cos, sin)):
        for one, other in zip(qk_norm_rope(q, k, angles=given), plain, strict=True):
            assert torch.equal(one, other)


def check_large_angles_keep_their_digits():
    """At position 100 000 the rotation is as exact as at 0: to float32, from float64's angles."""
    frequency = 10_000.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
    angles = ((100_000 + torch.arange(5, dtype=torch.float64))[:, None] * frequency).to(DEVICE)
    q, k = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1)
    exact = cases.qk_norm_rope(q.double(), k.double(), angles=angles)
    both = angles.cos().float(), angles.sin().float()
    for given in (angles, both):
        for one, other in zip(qk_norm_rope(q, k, angles=given), exact, strict=True):
            near("large angles", one, other, 1e-6)
    # float32 angles are rounded before anyone sees them; what is given is turned exactly.
    narrow = angles.float()
    exact = cases.qk_norm_rope(q.double(), k.double(), angles=narrow.double())
    for one, other in zip(qk_norm_rope(q, k, angles=narrow), exact, strict=True):
        near("large float32 angles", one, other, 1e-6)


def check_products_depend_on_distances_only():
    """Turned by t · f and s · f, q and k meet as they do at any t and s of the same distance."""
    frequency = 100.0 ** (-torch.arange(32, dtype=torch.float64) / 32)
    positions = torch.tensor([0.0, 7.0, 40.0, 47.0], dtype=torch.float64)
    angles = (positions[:, None] * frequency).to(DEVICE)
    q, k = draw(1, 1, 2, 64).expand(1, 4, -1, -1), draw(1, 1, 2, 64, seed=1).expand(1, 4, -1, -1)
    y, z = qk_norm_rope(q, k, gains(2, 64, False), gains(2, 64, True), angles)
    product = (y.double()[0, :, None] * z.double()[0, None]).sum(-1)
    assert (product[1, 0] - product[3, 2]).abs().max() < 1e-4
    assert (product[2, 0] - product[3, 1]).abs().max() < 1e-4
    assert (product[1, 0] - product[2, 0]).abs().max() > 1e-2


def check_the_norm_after_the_rotation_is_that_of_what_came_out():
    """cos and sin that also scale (YaRN's) change the size before the norm, which undoes it."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    cos, sin = angles.cos(), angles.sin()
    for norm in ("rms", "l2"):
        plain, _ = qk_norm_rope(q, k, angles=(cos, sin), norm=norm, eps=0.0, after_rope=True)
        twice, _ = qk_norm_rope(
            q, k, angles=(2 * cos, 2 * sin), norm=norm, eps=0.0, after_rope=True
        )
        near("size undone", twice, plain)
        before, _ = qk_norm_rope(q, k, angles=(2 * cos, 2 * sin), norm=norm, eps=0.0)
        near("size kept", before, 2 * plain)


# --- Hard rows ---


def check_zero_and_short_vectors_under_the_l2_norm():
    """0 stays 0, gradients are those of x / eps; without eps, those of x. Nothing is NaN.

    So it is with all vectors shorter than eps, of which there are some when eps is large.
    """
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    q[0, 2, 1] = 0
    k[1, 4] = 1e-9
    for eps, after in itertools.product((1e-6, 0.0, 16.0), (False, True)):
        how = {"norm": "l2", "eps": eps, "after_rope": after}
        compare([q, k, gains(3, 64, False), gains(1, 64, True)], angles, **how)


def check_no_eps_and_tokens_that_fill_no_tile():
    """Without eps, the rows of a tile that are not there leave the gains' gradients alone."""
    for heads, tokens, n in ((1, 1, 64), (3, 5, 64), (9, 3, 8), (5, 7, 96)):
        q, k = draw(1, tokens, heads, n), draw(1, tokens, 1, n, seed=1)
        for norm, after in ORDERS:
            weights = [gains(heads, n, False), gains(1, n, True)]
            how = {"norm": norm, "eps": 0.0, "after_rope": after}
            compare([q, k, *weights], turns(tokens, n // 2), **how)


def check_a_bad_token_leaves_the_others_alone():
    """NaN or ∞ in one head of one token spoils that vector's result and gradient, and no other."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 2, 64, seed=1), turns(5, 32)
    dys = draw(*q.shape, seed=11), draw(*k.shape, seed=12)
    for (norm, after), value in itertools.product(ORDERS, (float("nan"), float("inf"))):
        how = {"norm": norm, "after_rope": after, "angles": angles}
        clean = with_gradients(qk_norm_rope, [q, k], how, dys)
        spoilt = q.clone()
        spoilt[1, 3, 2, 5] = value
        actual = with_gradients(qk_norm_rope, [spoilt, k], how, dys)
        for of_q, one, other in zip((1, 0, 1, 0), actual, clean, strict=True):
            differ = (one != other) & ~(one.isnan() & other.isnan())
            if of_q:
                differ[1, 3, 2] = False
            assert not differ.any()
        assert not actual[0][1, 3, 2].isfinite().all()


# --- Batches ---


def check_a_token_alone_is_the_token_in_a_batch():
    """Bit for bit, results and gradients, whatever stands beside it."""
    for heads, kv_heads, n, dtype in ((5, 1, 64, FLOAT), (8, 2, 128, BRAIN), (3, 3, 8, HALF)):
        q, k = draw(6, 5, heads, n, dtype=dtype), draw(6, 5, kv_heads, n, dtype=dtype, seed=1)
        dys = draw(*q.shape, dtype=dtype, seed=11), draw(*k.shape, dtype=dtype, seed=12)
        angles = turns(5, n // 2)
        for norm, after in ORDERS:
            how = {"norm": norm, "after_rope": after}
            many = with_gradients(qk_norm_rope, [q, k], {**how, "angles": angles}, dys)
            for b, t in ((0, 0), (3, 2), (5, 4)):
                alone = [x[b : b + 1, t : t + 1] for x in (q, k)]
                lone = {**how, "angles": angles[t : t + 1]}
                dy = [x[b : b + 1, t : t + 1] for x in dys]
                actual = with_gradients(qk_norm_rope, alone, lone, dy)
                for one, other in zip(actual, many, strict=True):
                    assert torch.equal(one[0, 0], other[b, t])


def check_no_tokens_at_all():
    for shape in ((0, 5), (2, 0)):
        q, k = draw(*shape, 3, 64), draw(*shape, 1, 64)
        weights = gains(3, 64, True), gains(1, 64, False)
        how = {"angles": turns(shape[1], 32)}
        actual = with_gradients(qk_norm_rope, [q, k, *weights], how, (q, k))
        assert [t.shape for t in actual] == [t.shape for t in (q, k, q, k, *weights)]
        assert not actual[4].any() and not actual[5].any()


def check_one_of_the_two_results_is_enough():
    """Whose result is not used has no gradient; the other's is what it was."""
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64, seed=1), turns(5, 32)
    weights = [gains(3, 64, True), gains(1, 64, True)]
    dys = draw(*q.shape, seed=11), draw(*k.shape, seed=12)
    both = with_gradients(qk_norm_rope, [q, k, *weights], {"angles": angles}, dys)[2:]
    for i in range(2):
        leaves = [t.clone().requires_grad_() for t in (q, k, *weights)]
        y = qk_norm_rope(*leaves, angles=angles)[i]
        actual = torch.autograd.grad(y, leaves, dys[i], allow_unused=True)
        for j, (one, other) in enumerate(zip(actual, both, strict=True)):
            if j % 2 == i:
                assert one is not None and torch.equal(one, other)
            else:
                assert one is None


def check_errors_say_what_to_do():
    q, k, angles = draw(2, 5, 3, 64), draw(2, 5, 1, 64), turns(5, 32)
    learning = angles.clone().requires_grad_()
    for error, text, given, how in (
        (TypeError, "takes float32, bfloat16", (q.double(), k.double()), {}),
        (TypeError, "q and k of one dtype", (q, k.to(BRAIN)), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q, k[:, :4]), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q, k[..., :32]), {}),
        (ValueError, "needs q of shape (…, time, heads, head_dim)", (q[0, 0], k[0, 0]), {}),
        (ValueError, "head_dim from 1 up to", (draw(1, 1, 1, 2000), draw(1, 1, 1, 2000)), {}),
        (ValueError, "q_weight of shape (64,)", (q, k, gains(1, 64, True)), {}),
        (ValueError, "k_weight of shape (64,)", (q, k, None, gains(3, 64, True)), {}),
        (ValueError, "(time, pairs) = (5, up to 32)", (q, k, None, None, angles[1:]), {}),
        (ValueError, "got (5, 33)", (q, k, None, None, turns(5, 33)), {}),
        (ValueError, "(5, 32) and (5, 31)", (q, k, None, None, (angles, angles[:, 1:])), {}),
        (ValueError, "no gradient for angles", (q, k, None, None, learning), {}),
        (ValueError, "knows norm 'rms', 'l2' and None", (q, k), {"norm": "layer"}),
        (ValueError, "needs eps >= 0", (q, k), {"eps": -1.0}),
    ):  # fmt: skip
        try:
            qk_norm_rope(*given, **how)
        except error as caught:
            assert text in str(caught), caught
        else:
            raise AssertionError(f"no error: {text}")


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
for many in (
    check_grouped_heads_in_all_orders,
    check_with_and_without_gains_angles_and_offset,
    check_odd_and_tiny_heads,
    check_a_token_alone_is_the_token_in_a_batch,
    check_no_eps_and_tokens_that_fill_no_tile,
):
    many.slow = True  # hundreds of interpreted programs each
