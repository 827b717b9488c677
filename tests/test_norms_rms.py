"""RMSNorm's variants: two CPU implementations agree, and casts come in the stated order."""

import sys

import pytest
import torch
from cases import CASES
from each import each

from labkit import norms
from labkit.norms import RMSNorm, make_norm, rms_norm

NATIVE = sys.modules["labkit.norms.native"]
CASTS = {"torch": "rms", "llama": "rms-llama", "t5": "rms-t5", "gemma": "rms-gemma"}


@each(
    few=[0, 2**40],
    eps=[None, 1e-12, 1e-6, 1.0],
    shape=[(7,), (3, 1), (4, 5, 12), (300, 128), (2, 0, 8)],
)
def test_both_ways_are_the_formula_and_its_gradients(shape, eps, few, monkeypatch):
    monkeypatch.setattr(NATIVE, "_FEW", few)
    norm = RMSNorm(shape[-1], eps=eps)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(shape, requires_grad=True)
    top = torch.randn(shape)
    norm(x).backward(top)

    wide = x.detach().double().requires_grad_()
    weight = norm.weight.detach().double().requires_grad_()
    used = torch.finfo(torch.float32).eps if eps is None else eps
    expected = rms_norm(wide, weight, used)
    expected.backward(top.double())
    # float32: a few roundings in each value; sums over rows and over features add theirs
    close = {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(norm(x).double(), expected, **close)
    torch.testing.assert_close(x.grad.double(), wide.grad, **close)
    rows = max(1, x.numel() // max(1, shape[-1]))
    torch.testing.assert_close(
        norm.weight.grad.double(), weight.grad, rtol=1e-5, atol=1e-6 * rows**0.5 * 10
    )


@each(few=[0, 2**40])
def test_several_trailing_axes_are_one(few, monkeypatch):
    monkeypatch.setattr(NATIVE, "_FEW", few)
    norm = RMSNorm((3, 4), eps=1e-6)
    torch.nn.init.normal_(norm.weight)
    x = torch.randn(5, 3, 4)
    expected = rms_norm(x.flatten(1), norm.weight.flatten(), 1e-6).view_as(x)
    torch.testing.assert_close(norm(x), expected, rtol=1e-6, atol=1e-6)  # another order of sums


def test_the_second_derivative_is_refused_clearly_on_our_own_way():
    x = torch.randn(512, 128, requires_grad=True)
    (slope,) = torch.autograd.grad(RMSNorm(128)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def gained(kind: str, x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """Call one of the four; Gemma stores its weight minus 1."""
    call = {"torch": norms.rms_norm, "llama": norms.rms_norm_llama, "t5": norms.rms_norm_t5}
    return (
        norms.rms_norm_gemma(x, weight - 1, eps) if kind == "gemma" else call[kind](x, weight, eps)
    )


def in_order(kind: str, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Apply the order of casts step by step, as in the models' code."""
    wide = x.float()
    standard = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    if kind == "llama":
        return weight * standard.to(x.dtype)
    if kind == "t5":
        half = weight.dtype in (torch.float16, torch.bfloat16)
        return weight * (standard.to(weight.dtype) if half else standard)
    return (standard * weight.float()).to(x.dtype)


@pytest.mark.parametrize("kind", CASTS)
@each(half=[torch.bfloat16, torch.float16], mixed=[False, True])
def test_casts_come_bit_for_bit_in_the_stated_order(kind, mixed, half):
    x = torch.randn(64, 96, dtype=half)
    # 1/4 steps, so that Gemma's weight − 1 is exact
    weight = (torch.randint(1, 12, (96,)) / 4).to(torch.float32 if mixed else half)
    y = gained(kind, x, weight)
    assert torch.equal(y, in_order(kind, x, weight))
    unrounded = mixed and kind in ("llama", "t5")
    assert y.dtype == (torch.float32 if unrounded else half)
    module = make_norm(CASTS[kind], 96, eps=1e-6, dtype=weight.dtype)
    with torch.no_grad():
        module.weight.copy_(weight - 1 if kind == "gemma" else weight)
    assert torch.equal(module(x), y)


@pytest.mark.parametrize("kind", CASTS)
@each(few=[0, 2**40], top=[torch.ones(()).expand(5, 96), torch.randn(96, 5).T])
def test_the_modules_take_the_fast_way_in_float32(kind, few, top, monkeypatch):
    monkeypatch.setattr(NATIVE, "_FEW", few)
    module = make_norm(CASTS[kind], 96, eps=1e-6)
    torch.nn.init.normal_(module.weight)
    x = torch.randn(5, 96, requires_grad=True)
    case = CASES[CASTS[kind]]
    own = torch.autograd.grad(module(x), [x, module.weight], top)
    p = {"weight": module.weight}
    wanted = torch.autograd.grad(case.call(x, p, 1e-6), [x, module.weight], top)
    for actual, expected in zip(own, wanted, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)  # another order of sums


# 6.25 %, rounded down, and at least one feature
@each(share=[(16, 0.0625, 1), (8, 0.0625, 1), (100, 0.0625, 6), (10, 0.35, 3), (10, 1.0, 10)])
def test_partial_rms_norm_reads_its_first_features_only(share):
    dim, p, k = share
    x = torch.randn(5, dim, dtype=torch.float64)
    y = norms.partial_rms_norm(x, p=p)
    root = (sum(x[:, i] ** 2 for i in range(k)) / k + 1e-6).sqrt()
    torch.testing.assert_close(y, x / root[:, None], rtol=1e-12, atol=0)
    moved = x.clone()
    moved[:, k:] *= 3
    assert torch.equal(norms.partial_rms_norm(moved, p=p)[:, :k], y[:, :k])
