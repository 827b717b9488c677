"""Norms in a given arithmetic: compared with float64, the failure of one pass, and models."""

import pytest
import torch
from each import each
from torch import nn

from labkit.norms import LayerNorm, RMSNorm, layer_norm, rms_norm
from labkit.norms.arithmetic import (
    ARITHMETICS,
    layer_norm_in,
    rms_norm_in,
    set_arithmetic,
    variance_in,
)

TOKENS = torch.randint(96, (2, 12), generator=torch.Generator().manual_seed(3))


@each(arithmetic=ARITHMETICS)
def test_on_centred_data_every_arithmetic_is_close_to_the_formula(arithmetic):
    x, weight, bias = torch.randn(20, 256), torch.randn(256), torch.randn(256)
    # a few roundings, each of at most one spacing of the format
    atol = 16 * torch.finfo(getattr(torch, arithmetic.split()[0])).eps
    got = layer_norm_in(x, arithmetic, weight, bias)
    assert got.dtype == x.dtype
    torch.testing.assert_close(got, layer_norm(x, weight, bias), atol=atol, rtol=atol)
    torch.testing.assert_close(
        rms_norm_in(x, arithmetic, weight), rms_norm(x, weight), atol=atol, rtol=atol
    )


@each(format_=[("bfloat16", 1, 30), ("float16", 3, 100), ("float32", 100, 10_000)])
def test_one_pass_is_lost_where_the_square_of_the_mean_fills_the_format(format_):
    dtype, safe, lost = format_
    for offset, low, high in ((safe, 0.0, 0.05), (lost, 0.2, float("inf"))):
        x = (torch.randn(100, 1024) + offset).to(getattr(torch, dtype))
        true = x.double().var(-1, correction=0, keepdim=True)
        error = ((variance_in(x, f"{dtype} one-pass").double() - true).abs() / true).mean()
        two_pass = ((variance_in(x, dtype).double() - true).abs() / true).mean()
        assert low <= error <= high
        assert two_pass < 0.03


def test_a_negative_variance_counts_as_zero():
    x = torch.randn(50, 1024) + 30
    assert (variance_in(x, "bfloat16 one-pass") < 0).any()
    assert layer_norm_in(x, "bfloat16 one-pass").isfinite().all()


def test_an_arithmetic_changes_the_class_and_no_parameter():
    for norm in (LayerNorm(8), RMSNorm(8)):
        parameters = dict(norm.named_parameters())
        low = set_arithmetic(norm, "bfloat16")
        assert low is norm and isinstance(low, LayerNorm | RMSNorm)
        assert all(low.get_parameter(name) is p for name, p in parameters.items())
        x = torch.randn(4, 8)
        assert not torch.equal(low(x), type(low).__mro__[1].forward(low, x))


@each(
    misfit=[
        (LayerNorm(8), "bf16", "unknown arithmetic 'bf16'; did you mean 'bfloat16'"),
        (RMSNorm(8), "bfloat16 one-pass", "has no one-pass form.*; use 'bfloat16'"),
        (
            nn.Identity(),
            "bfloat16",
            "needs labkit's LayerNorm or RMSNorm, got Identity",
        ),
    ]
)
def test_an_arithmetic_that_does_not_fit_is_refused(misfit):
    norm, arithmetic, message = misfit
    with pytest.raises(ValueError, match=message):
        set_arithmetic(norm, arithmetic)
