"""Norms in a named arithmetic: against float64, the cliff of one pass, and models made of them."""

import pytest
import torch
from each import each
from torch import nn

from labkit import ModelConfig
from labkit.norms import LayerNorm, RMSNorm, layer_norm, rms_norm
from labkit.norms.arithmetic import (
    ARITHMETICS,
    layer_norm_in,
    rms_norm_in,
    set_arithmetic,
    variance_in,
)
from labkit.probes import mean_share
from labkit.probes.look import residual_streams

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
        (RMSNorm(8), "bfloat16 one-pass", "has no one-pass form"),
        (nn.Identity(), "bfloat16", "for the norms layer and rms, got Identity"),
    ]
)
def test_an_arithmetic_that_does_not_fit_is_refused(misfit):
    norm, arithmetic, message = misfit
    with pytest.raises(ValueError, match=message):
        set_arithmetic(norm, arithmetic)


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_a_model_takes_an_arithmetic_for_all_its_norms(norm):
    torch.manual_seed(0)
    plain = ModelConfig("pre", norm, dim=32, depth=2).build()
    torch.manual_seed(0)
    low = ModelConfig("pre", norm, dim=32, depth=2, norm_arithmetic="bfloat16").build()
    kinds = {type(m).__name__ for m in low.modules() if isinstance(m, LayerNorm | RMSNorm)}
    assert kinds == {"LayerNormIn" if norm == "layer" else "RMSNormIn"}
    assert list(plain.state_dict()) == list(low.state_dict())
    with torch.no_grad():
        gap = (plain(TOKENS) - low(TOKENS)).abs().max()
    assert 0 < gap < 0.2


def test_an_offset_moves_every_channel_of_the_stream_and_layer_norm_does_not_see_it():
    torch.manual_seed(0)
    plain = ModelConfig("pre", "layer", dim=32, depth=2).build().double()
    moved = ModelConfig("pre", "layer", dim=32, depth=2, embedding_offset=10.0).build().double()
    moved.load_state_dict(plain.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(moved.embed(TOKENS), plain.embed(TOKENS) + 10)
        torch.testing.assert_close(moved(TOKENS), plain(TOKENS))
        shares = mean_share(moved, (TOKENS, TOKENS))
        first = residual_streams(moved, TOKENS)[0]
    squared_cosine = nn.functional.cosine_similarity(first, torch.ones(32).double(), dim=-1) ** 2
    assert shares[0] == pytest.approx(squared_cosine.mean().item())
    assert len(shares) == 3 and min(shares) > 0.9
