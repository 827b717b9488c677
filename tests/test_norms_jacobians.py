"""Jacobians: 1/r · (projection), r the denominator that is used, against autograd in float64."""

import math

import pytest
import torch
from cases import CASES, DIM
from each import each
from torch import Tensor

from labkit import norms


def jacobian(norm: str, x: Tensor, eps: float, **p) -> Tensor:
    return torch.autograd.functional.jacobian(lambda x: CASES[norm].call(x, p, eps), x)


def vector() -> tuple[Tensor, Tensor, Tensor]:
    x = torch.randn(DIM, dtype=torch.float64)
    return x, torch.eye(DIM, dtype=torch.float64), torch.ones_like(x)


def same(actual: Tensor, wanted: Tensor) -> None:
    # float64 throughout, matrices of entries about 1
    torch.testing.assert_close(actual, wanted, rtol=0, atol=1e-12)


@each(eps=[0.0, 1e-5, 0.3])
def test_jacobian_of_layer_norm(eps):
    x, eye, one = vector()
    r = (x.var(correction=0) + eps).sqrt()
    hat = (x - x.mean()) / r
    actual = jacobian("layer", x, eps)
    same(actual, (eye - one.outer(one) / DIM - hat.outer(hat) / DIM) / r)
    along = (eps / (x.var(correction=0) + eps)) / r
    same(actual @ hat, along * hat)
    if eps == 0:
        singular = torch.linalg.svdvals(actual)
        torch.testing.assert_close(singular[:-2], (1 / r).expand(DIM - 2), rtol=1e-9, atol=0)
        assert singular[-2:].max() < 1e-12


@each(eps=[0.0, 1e-6, 0.3])
def test_jacobian_of_the_annotated_layer_norm(eps):
    x, eye, one = vector()
    centred, s = x - x.mean(), x.std()
    wanted = (eye - one.outer(one) / DIM) / (s + eps)
    wanted = wanted - centred.outer(centred) / ((DIM - 1) * s * (s + eps) ** 2)
    same(jacobian("annotated-layer", x, eps), wanted)


@each(eps=[0.0, 1e-5, 0.3], norm=["rms", "rms-llama", "rms-t5", "rms-gemma"])
def test_jacobian_of_rms_norm(norm, eps):
    x, eye, _ = vector()
    r = (x.square().mean() + eps).sqrt()
    actual = jacobian(norm, x, eps)
    same(actual, (eye - (x / r).outer(x / r) / DIM) / r)
    if eps == 0:
        assert int((torch.linalg.svdvals(actual) > 1e-9).sum()) == DIM - 1


@each(eps=[0.0, 1e-8, 0.3])
def test_jacobian_of_rms_norm_with_eps_outside(eps):
    x, eye, _ = vector()
    rms = x.square().mean().sqrt()
    wanted = eye / (rms + eps) - x.outer(x) / (DIM * rms * (rms + eps) ** 2)
    same(jacobian("rms-outside", x, eps), wanted)


@each(eps=[0.0, 1e-6, 0.3])
def test_jacobian_of_partial_rms_norm_projects_along_x_as_the_first_features_see_it(eps):
    x, eye, _ = vector()
    first = x.clone()
    first[4:] = 0
    r = (first.square().sum() / 4 + eps).sqrt()
    actual = jacobian("partial-rms", x, eps)
    same(actual, (eye - x.outer(first) / (4 * r**2)) / r)
    if eps == 0:  # scale-blind: its null space is x itself, though it is not symmetric
        assert (actual @ x).abs().max() < 1e-12
        assert (actual - actual.T).abs().max() > 1e-3


@each(g=[1.0, 2.5], norm=["scale", "l2"])
def test_jacobian_of_a_fixed_length(norm, g):
    x, eye, _ = vector()
    wanted = g / x.norm() * (eye - x.outer(x) / x.norm() ** 2)
    same(jacobian(norm, x, 1e-5, weight=torch.tensor([g])), wanted)
    # Below the floor it is a plain multiple.
    short = 1e-7 * x / x.norm()
    actual = jacobian(norm, short, 1e-5, weight=torch.tensor([g]))
    torch.testing.assert_close(actual, g / 1e-5 * eye, rtol=1e-12, atol=0)


@each(eps=[0.0, 1e-5, 0.3])
def test_jacobian_of_batch_norm_exchanges_batch_and_features(eps):
    x = torch.randn(9, 2, dtype=torch.float64)
    actual = jacobian("batch", x, eps)
    assert actual[:, 0, :, 1].abs().max() == 0 and actual[:, 1, :, 0].abs().max() == 0
    same(actual[:, 0, :, 0], jacobian("layer", x[:, 0], eps))


@each(eps=[0.0, 1e-5, 0.3])
def test_jacobian_of_power_norm_is_that_of_rms_norm_over_tokens(eps):
    x = torch.randn(9, 2, dtype=torch.float64)
    actual = jacobian("power", x, eps)
    assert actual[:, 0, :, 1].abs().max() == 0 and actual[:, 1, :, 0].abs().max() == 0
    same(actual[:, 0, :, 0], jacobian("rms", x[:, 0], eps))


@each(alpha=[0.5, 1.3])
def test_jacobian_of_the_functions_without_statistics_is_diagonal(alpha):
    x, _, _ = vector()
    weight, shift = torch.randn(DIM, dtype=torch.float64), 0.4
    p = {"alpha": torch.tensor([alpha], dtype=torch.float64), "weight": weight}
    sech = 1 / torch.cosh(alpha * x)
    same(jacobian("dyt", x, 0.0, **p), torch.diag(weight * alpha * sech**2))
    bell = 2 / math.pi**0.5 * torch.exp(-((alpha * x + shift) ** 2))
    actual = jacobian("derf", x, 0.0, **p, shift=torch.tensor([shift], dtype=torch.float64))
    same(actual, torch.diag(weight * alpha * bell))
    slope = p["alpha"].clone().requires_grad_()
    norms.dynamic_tanh(x, slope, weight).sum().backward()
    same(slope.grad, (weight * x * sech**2).sum().view(1))


@each(eps=[0.0, 1e-6, 0.3])
def test_jacobian_of_the_bounded_tanh_is_rms_norms_times_a_diagonal(eps):
    x, _, _ = vector()
    number = torch.tensor([3.0], dtype=torch.float64)
    r = (x.square().mean() + eps).sqrt()
    sech = 1 / torch.cosh(3.0 * x / (10 * r))
    wanted = torch.diag(0.3 * sech**2) @ jacobian("rms", x, eps)
    same(jacobian("bhyt", x, eps, scale=number), wanted)


BLIND = [case for case in CASES.values() if "scale" in case.blind_to]


@pytest.mark.parametrize("case", BLIND, ids=[case.norm for case in BLIND])
def test_weights_before_a_norm_see_a_gradient_at_right_angles(case):
    matrix = torch.randn(DIM, 8, dtype=torch.float64, requires_grad=True)
    shape = tuple(n for n in case.shapes[-1] if n != DIM)
    x = torch.randn(*shape, 8, dtype=torch.float64)
    top = torch.randn(*shape, DIM, dtype=torch.float64)

    def loss(w: Tensor) -> Tensor:
        features = (x @ w.T).movedim(-1, case.axis)
        return (case.call(features, {}, 0.0).movedim(case.axis, -1) * top).sum()

    (grad,) = torch.autograd.grad(loss(matrix), matrix)
    (tripled,) = torch.autograd.grad(loss(3 * matrix), matrix)
    assert abs((matrix * grad).sum()) < 1e-10  # scale invariance, in float64
    # d loss(3W)/dW is 3 · loss'(3W), and loss'(cW) = loss'(W) / c
    torch.testing.assert_close(tripled, grad, rtol=1e-9, atol=1e-9)
