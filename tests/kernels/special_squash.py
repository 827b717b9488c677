"""What is special to DyT and Derf: two curves, and parameters that are one number. `CHECKS`."""

import math
from collections.abc import Callable
from typing import Any

import torch
from normkernels import dynamic_erf, dynamic_tanh
from torch import Tensor

from . import cases
from .cases import Make
from .measure import BRAIN, DEVICE, FLOAT, HALF

INF, NAN = math.inf, math.nan
KERNELS: tuple[Callable[..., Tensor], ...] = (dynamic_tanh, dynamic_erf)
CURVES = {  # in float64: the curve and its slope
    dynamic_tanh: (torch.tanh, lambda z: torch.cosh(z).reciprocal().square()),
    dynamic_erf: (torch.erf, lambda z: 2 / math.pi**0.5 * torch.exp(-z * z)),
}


def draw(m: int, n: int, seed: int = 0, dtype: torch.dtype = FLOAT) -> Tensor:
    return Make(m, n, dtype, seed=seed).rows().to(DEVICE)


def number(value: float, *shape: int, dtype: torch.dtype = FLOAT) -> Tensor:
    return torch.full(shape, value, dtype=dtype, device=DEVICE)


def parameters(function: Any, n: int, dtype: torch.dtype = FLOAT) -> dict[str, Tensor]:
    """Draw everything that learns, by name."""
    make = Make(1, n, seed=5)
    shift = {"shift": number(-0.2, 1)} if function is dynamic_erf else {}
    gains = {"weight": make.gain(), "bias": make.gain(around=0.0)}
    drawn = {"alpha": number(0.6, 1), **shift, **gains}
    return {name: value.to(DEVICE, dtype) for name, value in drawn.items()}


def gradients(function: Any, x: Tensor, given: dict[str, Any], frozen: tuple = ()) -> dict:
    """Return the result and the gradient of each tensor that is not frozen, by name."""
    tensors = {n: v.detach() for n, v in {"x": x, **given}.items() if isinstance(v, Tensor)}
    learn = {n: v.requires_grad_() for n, v in tensors.items() if n not in frozen}
    y = function(**{**given, **tensors})
    generator = torch.Generator().manual_seed(9)
    dy = torch.randn(y.shape, generator=generator).to(y)
    actual = torch.autograd.grad(y, list(learn.values()), dy)
    return {"y": y.detach(), **dict(zip(learn, actual, strict=True))}


def same(actual: dict, expected: dict, names: tuple[str, ...] = ()) -> None:
    for name in names or tuple(actual):
        assert torch.equal(actual[name], expected[name]), f"{name} has other bits"


def near(actual: dict, exact: dict, share: float = 2e-6) -> None:
    """Compare with float64: `share` of the largest value may go lost in sums."""
    for name, value in actual.items():
        error = (value.double() - exact[name]).abs().max()
        assert error <= share * exact[name].abs().max(), f"{name} is off by {error:.3g}"


# --- The curves ---


def check_both_curves_are_exact_for_every_size_of_their_argument():
    """1 − e cancels near 0, and 1 − f² where f is nearly 1: neither may show."""
    sizes = [torch.logspace(-8, math.log10(20), 20000), torch.linspace(0.3, 1.5, 20000)]
    z = torch.cat([*sizes, *(-part for part in sizes)]).view(-1, 1000).to(DEVICE)
    for function in KERNELS:
        curve, slope = CURVES[function]
        x = z.clone().requires_grad_()
        y = function(x, 1.0)
        (actual,) = torch.autograd.grad(y, x, torch.ones_like(y))
        ref = curve(z.double())
        assert ((y.double() - ref).abs() <= 1e-6 * ref.abs()).all()
        ref = slope(z.double())
        assert ((actual.double() - ref).abs() <= 1e-5 * ref + 1e-30).all()
        assert ((actual.double() - ref).abs() <= 1.5e-6).all()


def check_saturation_infinities_and_zero():
    x = torch.tensor([[0.0, INF, -INF, 30.0, -30.0, 65504.0, -65504.0, 1e-30, NAN]], device=DEVICE)
    x.requires_grad_()
    for function, slope in ((dynamic_tanh, 1.0), (dynamic_erf, 2 / math.pi**0.5)):
        y = function(x, 1.0)
        (dx,) = torch.autograd.grad(y, x, torch.ones_like(y))
        known = torch.tensor([0.0, 1, -1, 1, -1, 1, -1], device=DEVICE)
        assert (y[0, :7] - known).abs().max() < 3e-7 and y[0, 0] == 0 and y[0, 8].isnan()
        assert abs(y[0, 7].item() / (1e-30 * slope) - 1) < 1e-6
        assert dx[0, 1:7].abs().max() < 1e-20 and dx[0, 8].isnan()
        assert torch.equal(dx[0, 1:3], torch.zeros_like(dx[0, 1:3]))
        assert (dx[0, [0, 7]] - slope).abs().max() < 1e-6


def check_curves_are_odd_to_the_last_bit():
    x = draw(9, 257)
    for function in KERNELS:
        assert torch.equal(function(-x, 0.7), -function(x, 0.7))
        assert torch.equal(function(x, -0.7), -function(x, 0.7))


def check_half_precision_rounds_once():
    for dtype in (BRAIN, HALF):
        x = draw(5, 129, dtype=dtype)
        for function in KERNELS:
            wide = function(x.float(), 0.5)
            error = (function(x, 0.5).float() - wide).abs()
            assert (error <= wide.abs() * torch.finfo(dtype).eps).all()


# --- Parameters that are one number ---


def check_a_number_and_every_tensor_with_one_element_are_the_same():
    x = draw(7, 129)
    for function in KERNELS:
        known = parameters(function, 129)
        reference = gradients(function, x, known)
        single = [name for name in ("alpha", "shift") if name in known]
        value = {name: known[name].item() for name in single}
        same(gradients(function, x, known | value), reference, ("y", "x", "weight", "bias"))
        for shape in ((), (1,), (1, 1, 1)):
            given = known | {name: number(value[name], *shape) for name in single}
            actual = gradients(function, x, given)
            for name in single:
                assert actual[name].shape == shape
                actual[name] = actual[name].view(1)
            same(actual, reference)
        places = torch.arange(9.0, device=DEVICE)
        for name in single:  # the middle of something else
            places[4] = value[name]
            same(gradients(function, x, known | {name: places[4]}), reference, ("y", "x"))


def check_a_number_in_half_precision_gets_a_gradient_in_half_precision():
    x = draw(7, 129)
    for function in KERNELS:
        given = parameters(function, 129, BRAIN)
        exact = gradients(
            getattr(cases, function.__name__), x.double(), {n: p.double() for n, p in given.items()}
        )
        actual = gradients(function, x, given)
        for name in given:
            assert actual[name].dtype == BRAIN
        near(actual, exact, 2.0**-7)


def check_parameters_are_frozen_one_by_one():
    x = draw(5, 1100)  # two chunks of columns
    for function in KERNELS:
        given = parameters(function, 1100)
        reference = gradients(function, x, given)
        for frozen in (
            *((name,) for name in given),
            ("alpha", "shift"),
            ("weight", "bias"),
            ("x",),
        ):
            same(gradients(function, x, given, frozen), reference, ())
        for left_out in ("weight", "bias"):
            fewer = {name: value for name, value in given.items() if name != left_out}
            wide = {name: value.double() for name, value in fewer.items()}
            formula = getattr(cases, function.__name__)
            near(gradients(function, x, fewer), gradients(formula, x.double(), wide), 5e-6)


def check_a_slope_of_zero_still_learns():
    x, formula = draw(5, 41), cases.dynamic_tanh
    given = parameters(dynamic_tanh, 41) | {"alpha": number(0.0, 1)}
    actual = gradients(dynamic_tanh, x, given)
    assert torch.equal(actual["x"], torch.zeros_like(x)) and actual["alpha"] != 0
    near(actual, gradients(formula, x.double(), {n: p.double() for n, p in given.items()}))


def check_more_than_one_number_is_refused():
    x = draw(2, 8)
    for bad, error in ((number(0.5, 2), ValueError), (number(0.5, 1).double(), TypeError)):
        for call in (
            lambda bad: dynamic_tanh(x, bad),
            lambda bad: dynamic_erf(x, bad),
            lambda bad: dynamic_erf(x, 0.5, bad),
        ):
            try:
                call(bad)
            except error as told:
                assert "dynamic_" in str(told)
            else:
                raise AssertionError("nobody refused")


# --- Rows ---


def check_the_longest_rows():
    for function in KERNELS:
        for n in (65536, 40000):
            given, x = parameters(function, n), draw(3, n)
            wide = {name: value.double() for name, value in given.items()}
            exact = gradients(getattr(cases, function.__name__), x.double(), wide)
            near(gradients(function, x, given), exact, 1e-5)


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
