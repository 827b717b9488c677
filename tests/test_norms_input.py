"""Norms refuse bad input in words, and keep their laws on any good one (hypothesis)."""

import pytest
import torch
from cases import CASES
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import norms
from labkit.norms import make_norm

MISUSES = {
    "layer, integers": (lambda: norms.layer_norm(torch.ones(3, dtype=torch.int64)),
                        TypeError, "floating-point tensor, got torch.int64"),
    "rms, integers": (lambda: norms.rms_norm(torch.ones(3, dtype=torch.int32)),
                      TypeError, "floating-point tensor, got torch.int32"),
    "batch, integers": (lambda: norms.batch_norm(torch.ones(3, 2, dtype=torch.int64)),
                        TypeError, "floating-point tensor"),
    "group, integers": (lambda: norms.group_norm(torch.ones(3, 2, dtype=torch.int64), 2),
                        TypeError, "floating-point tensor"),
    "layer, negative eps": (lambda: norms.layer_norm(torch.ones(3), eps=-1e-5),
                            ValueError, "eps >= 0, got -1e-05"),
    "rms, negative eps": (lambda: norms.rms_norm(torch.ones(3), eps=-1.0),
                          ValueError, "eps >= 0, got -1.0"),
    "batch, negative eps": (lambda: norms.batch_norm(torch.ones(3, 2), training=True, eps=-1.0),
                            ValueError, "eps >= 0"),
    "group, negative eps": (lambda: norms.group_norm(torch.ones(3, 2), 2, eps=-1.0),
                            ValueError, "eps >= 0"),
    "rms, eps not a number": (lambda: norms.rms_norm(torch.ones(3), eps=float("nan")),
                              ValueError, "eps >= 0, got nan"),
    "made, negative eps": (lambda: make_norm("rms", 4, eps=-1.0), ValueError, "eps >= 0"),
    "layer, weight": (lambda: norms.layer_norm(torch.ones(2, 3), torch.ones(2)),
                      ValueError, r"weight of shape \(3,\).*got \(2,\)"),
    "layer, weight of one": (lambda: norms.layer_norm(torch.ones(2, 3), torch.ones(1)),
                             ValueError, r"weight of shape \(3,\)"),
    "layer, bias": (lambda: norms.layer_norm(torch.ones(2, 3), None, torch.ones(2, 3)),
                    ValueError, r"bias of shape \(3,\)"),
    "rms, weight": (lambda: norms.rms_norm(torch.ones(2, 3), torch.ones(4)),
                    ValueError, r"weight of shape \(3,\)"),
    "batch, weight": (lambda: norms.batch_norm(torch.ones(4, 3), None, None, torch.ones(4),
                                               training=True), ValueError, r"weight of shape"),
    "batch, running": (lambda: norms.batch_norm(torch.ones(4, 3), torch.ones(4), torch.ones(3)),
                       ValueError, "running_mean of shape"),
    "group, weight": (lambda: norms.group_norm(torch.ones(4, 6), 2, torch.ones(2)),
                      ValueError, r"weight of shape \(6,\)"),
    "scalar": (lambda: norms.layer_norm(torch.tensor(1.0)), ValueError, "at least one axis"),
    "one value per channel": (lambda: norms.batch_norm(torch.ones(1, 3), training=True),
                              ValueError, "more than one value per channel"),
    "one value per channel, module": (lambda: norms.BatchNorm(3)(torch.ones(1, 3)),
                                      ValueError, "more than one value per channel"),
    "empty batch": (lambda: norms.BatchNorm(3)(torch.ones(0, 3)),
                    ValueError, "more than one value per channel"),
    "one axis": (lambda: norms.batch_norm(torch.ones(3), training=True),
                 ValueError, r"\(batch, channels, …\)"),
    "groups do not divide": (lambda: norms.group_norm(torch.ones(2, 6), 4),
                             ValueError, r"channels \(6\) to be a multiple of the groups \(4\)"),
    "no groups": (lambda: norms.group_norm(torch.ones(2, 6), 0), ValueError, "multiple"),
    "groups do not divide, module": (lambda: norms.GroupNorm(4, 6), ValueError, "multiple"),
    "layer, other size": (lambda: norms.LayerNorm(4)(torch.ones(2, 3)),
                          ValueError, r"ends in \(4,\), got \(2, 3\)"),
    "rms, other size": (lambda: norms.RMSNorm(4)(torch.ones(2, 3)),
                        ValueError, r"ends in \(4,\), got \(2, 3\)"),
    "batch, other size": (lambda: norms.BatchNorm(4)(torch.ones(2, 3)),
                          ValueError, "needs 4 channels on axis 1"),
    "batch, other axis": (lambda: norms.BatchNorm(4, channel_axis=2), ValueError, "1 or -1"),
    "group, other axis": (lambda: norms.GroupNorm(2, 4, channel_axis=0), ValueError, "1 or -1"),
    "group, other size": (lambda: norms.GroupNorm(2, 4)(torch.ones(2, 3)),
                          ValueError, "needs 4 channels"),
    "layer module, integers": (lambda: norms.LayerNorm(3)(torch.ones(3, dtype=torch.int64)),
                               TypeError, "floating-point"),
    "rms module, integers": (lambda: norms.RMSNorm(3)(torch.ones(3, dtype=torch.int64)),
                             TypeError, "floating-point"),
    "batch module, integers": (lambda: norms.BatchNorm(3)(torch.ones(4, 3, dtype=torch.int64)),
                               TypeError, "floating-point"),
    "group module, integers": (lambda: norms.GroupNorm(3, 3)(torch.ones(4, 3, dtype=torch.int64)),
                               TypeError, "floating-point"),
    "layer module, negative eps": (lambda: norms.LayerNorm(3, eps=-1.0)(torch.ones(3)),
                                   ValueError, "eps >= 0"),
    "rms module, negative eps": (lambda: norms.RMSNorm(3, eps=-1.0)(torch.ones(3)),
                                 ValueError, "eps >= 0"),
    "batch module, negative eps": (lambda: norms.BatchNorm(3, eps=-1.0)(torch.ones(4, 3)),
                                   ValueError, "eps >= 0"),
    "batch, scalar": (lambda: norms.BatchNorm(3, channel_axis=-1)(torch.tensor(1.0)),
                      ValueError, "axis"),
    "batch, one axis, last": (lambda: norms.BatchNorm(3, channel_axis=-1)(torch.ones(3)),
                              ValueError, "axis"),
    "no features": (lambda: make_norm("layer", 0), ValueError, "at least one feature"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_a_misuse_is_refused_with_the_rule_and_what_came(name):
    misuse, kind, words = MISUSES[name]
    with pytest.raises(kind, match=words):
        misuse()


@pytest.mark.parametrize("norm", ["layer", "rms", "group"])
def test_an_empty_batch_of_rows_stays_empty(norm):
    assert make_norm(norm, 8)(torch.zeros(0, 8)).shape == (0, 8)


# --- any good input ---

bounded = settings(max_examples=25, deadline=None, derandomize=True)
sizes = st.integers(1, 5)
good_inputs = st.fixed_dictionaries(
    {
        "lead": st.lists(sizes, max_size=3),
        "dim": st.sampled_from([2, 3, 4, 6, 12, 17]),
        "exponent": st.integers(-12, 12),
        "offset": st.sampled_from([0.0, 1.0, -3.0]),
        "eps": st.sampled_from([1e-12, 1e-6, 1e-5, 1e-2, 1.0]),
        "dtype": st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
        "step": st.integers(1, 3),
        "seed": st.integers(0, 2**16),
    }
)


def drawn(lead, dim, exponent, offset, eps, dtype, step, seed):
    """Numbers of size 2**exponent, in memory with a stride."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(*lead, dim * step, generator=draw) + offset
    return (x * 2.0**exponent).to(dtype)[..., ::step], eps


@bounded
@given(good_inputs)
def test_layer_norm_is_its_formula_on_any_input(given_):
    x, eps = drawn(**given_)
    wide = x.double()
    deviation = (wide.var(-1, correction=0, keepdim=True) + eps).sqrt()
    room = 16 * torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
    magnified = 1 + wide.abs().amax(-1, keepdim=True) / deviation
    expected = CASES["layer"].formula(wide, None, None, eps)
    y = norms.layer_norm(x, eps=eps)
    assert y.dtype == x.dtype and y.shape == x.shape
    # one rounding of the result, and a few of x that small deviations magnify; the last term is
    # the smallest step of float16
    allowed = 0.6 * torch.finfo(x.dtype).eps * expected.abs() + room * magnified + 6e-8
    assert ((y.double() - expected).abs() <= allowed).all()
    # mean 0, variance var / (var + eps)
    mean_room = torch.finfo(x.dtype).eps + room * magnified.squeeze(-1)
    assert (y.double().mean(-1).abs() <= 2 * mean_room).all()


@bounded
@given(good_inputs)
def test_rms_norm_is_its_formula_on_any_input(given_):
    x, eps = drawn(**given_)
    expected = CASES["rms"].formula(x.double(), None, None, eps)
    y = norms.rms_norm(x, eps=eps)
    assert y.dtype == x.dtype and y.shape == x.shape
    # nothing is subtracted: relative errors only, and float16's smallest step
    room = 16 * torch.finfo(torch.promote_types(x.dtype, torch.float32)).eps
    allowed = (0.6 * torch.finfo(x.dtype).eps + room) * expected.abs() + 6e-8
    assert ((y.double() - expected).abs() <= allowed).all()
    assert torch.equal(norms.rms_norm(-x, eps=eps), -y)


@bounded
@given(good_inputs, st.sampled_from(["layer", "rms", "batch"]))
def test_modules_are_their_functions_on_any_input(given_, name):
    x, eps = drawn(**{**given_, "dtype": torch.float32})
    if name == "batch" and (x.ndim < 2 or x.numel() == x.shape[-1]):
        return
    module = make_norm(name, x.shape[-1], eps=eps)
    rows = x.reshape(-1, x.shape[-1])
    calls = {
        "layer": lambda: norms.layer_norm(rows, eps=eps),
        "rms": lambda: norms.rms_norm(rows, eps=eps),
        "batch": lambda: norms.batch_norm(rows, training=True, eps=eps),
    }
    axis = 0 if name == "batch" else -1
    deviation = (rows.double().var(axis, correction=0, keepdim=True) + eps).sqrt()
    magnified = 1 + rows.double().abs().amax(axis, keepdim=True) / deviation
    # both round x's mean; few values with a small spread magnify that
    room = 16 * torch.finfo(torch.float32).eps * (magnified if name != "rms" else 4.0)
    gap = (module(x).reshape(rows.shape).double() - calls[name]().double()).abs()
    assert (gap <= room).all()


@bounded
@given(
    st.integers(2, 6), st.integers(1, 4), st.integers(1, 3), st.sampled_from([1e-5, 1e-2]),
    st.integers(0, 2**16),
)  # fmt: skip
def test_group_norm_is_layer_norm_of_each_group(batch, groups, size, eps, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, groups * size, 3, generator=draw, dtype=torch.float64)
    y = norms.group_norm(x, groups, eps=eps)
    each = [norms.layer_norm(part.flatten(1), eps=eps) for part in x.chunk(groups, dim=1)]
    expected = torch.cat([part.view(batch, size, 3) for part in each], dim=1)
    torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-10)  # another order of sums
