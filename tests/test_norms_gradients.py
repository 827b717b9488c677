"""Every norm's gradients agree with its float64 formula; only requested gradients are computed."""

import pytest
import torch
from cases import CASES, truth, with_parameters
from each import each
from torch import Tensor

OWN = [case for case in CASES.values() if case.norm != "none"]

over_norms = pytest.mark.parametrize("case", OWN, ids=[case.norm for case in OWN])


def gradients(call, x: Tensor, leaves: list[Tensor], top: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(call(x), [x, *leaves], top))


@over_norms
@each(shape=lambda case: case.shapes, dtype=[torch.float64, torch.float32], offset=[0.0, 30.0])
def test_gradients_of_function_and_module_are_the_formulas(case, shape, dtype, offset):
    x = (torch.randn(shape) + offset).to(dtype).requires_grad_()
    p = {name: value.requires_grad_() for name, value in case.draw(dtype).items()}
    top = torch.randn(shape, dtype=dtype)
    module = with_parameters(case.module(1e-5).to(dtype), p)
    own, leaves = list(module.parameters()), list(p.values())
    expected = gradients(lambda x: truth(case, x, p, 1e-5), x, leaves, top.double())
    # As in the forward pass, twice: gradients hold the normalized values squared. A group of
    # four values may have a spread of a third.
    room = 64 * torch.finfo(dtype).eps * (1 + offset)
    calls = [(lambda x: case.call(x, p, 1e-5), leaves)]
    calls += [(module, own)] if case.exact_gradient else []
    for call, its in calls:
        for actual, wanted in zip(gradients(call, x, its, top), expected, strict=True):
            size = max(1.0, float(wanted.abs().max()))
            torch.testing.assert_close(actual, wanted.to(dtype), rtol=0, atol=room * size)


@over_norms
def test_half_precision_gradients_come_back_in_their_dtypes(case):
    x = torch.randn(case.shapes[0], dtype=torch.bfloat16, requires_grad=True)
    module = case.module(1e-5).to(torch.bfloat16)
    module(x).sum().backward()
    for leaf in (x, *module.parameters()):
        assert leaf.grad is not None and leaf.grad.dtype == torch.bfloat16
        assert leaf.grad.isfinite().all()


@over_norms
@each(frozen=["x", "parameters"])
def test_a_module_gives_one_gradient_when_the_other_is_not_wanted(case, frozen):
    module = case.module(1e-5).requires_grad_(frozen != "parameters")
    x = torch.randn(case.shapes[0], requires_grad=frozen != "x")
    module(x).square().sum().backward()
    assert (x.grad is None) == (frozen == "x")
    for parameter in module.parameters():
        assert (parameter.grad is None) == (frozen == "parameters")
