"""RMSNorm's two ways on the CPU, torch's for few values and our own for many, are one function."""

import sys

import pytest
import torch

from labkit.norms import RMSNorm, rms_norm


@pytest.mark.parametrize("few", [0, 2**40], ids=["our own", "torch's"])
@pytest.mark.parametrize("eps", [None, 1e-12, 1e-6, 1.0])
@pytest.mark.parametrize("shape", [(7,), (3, 1), (4, 5, 12), (300, 128), (2, 0, 8)])
def test_both_ways_are_the_formula_and_its_gradients(shape, eps, few, monkeypatch):
    monkeypatch.setattr(sys.modules[RMSNorm.__module__], "_FEW", few)
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


def test_the_second_derivative_is_refused_clearly_on_our_own_way():
    x = torch.randn(512, 128, requires_grad=True)
    (slope,) = torch.autograd.grad(RMSNorm(128)(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
