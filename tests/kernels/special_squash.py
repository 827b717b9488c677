"""Special checks of DyT and Derf: two curves, and scalar parameters."""

import math

import torch
from normkernels import dynamic_erf, dynamic_tanh

from .cases import NAMED
from .measure import DEVICE, Setting, draw, fused, identical

INF, NAN = math.inf, math.nan
CURVES = {  # in float64: the curve and its slope
    dynamic_tanh: (torch.tanh, lambda z: torch.cosh(z).reciprocal().square()),
    dynamic_erf: (torch.erf, lambda z: 2 / math.pi**0.5 * torch.exp(-z * z)),
}


def check_both_curves_are_exact_for_every_size_of_their_argument():
    """1 − e cancels near 0, and 1 − f² where f is nearly 1: neither may affect results."""
    sizes = [torch.logspace(-8, math.log10(20), 20000), torch.linspace(0.3, 1.5, 20000)]
    z = torch.cat([*sizes, *(-part for part in sizes)]).view(-1, 1000).to(DEVICE)
    for function, (curve, slope) in CURVES.items():
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


def check_a_number_and_every_tensor_with_one_element_are_the_same():
    for name in ("dynamic_tanh", "dynamic_erf"):
        case = NAMED[name]
        inputs = draw(case, Setting(7, 129))
        reference = fused(case, inputs)
        single = [name for name in ("alpha", "shift") if name in inputs]
        places = torch.zeros(9, device=DEVICE)  # alpha and shift in the middle of something else
        for i, name in enumerate(single):
            places[4 + i] = inputs[name].item()
        for given in (
            {name: inputs[name].item() for name in single},
            *({name: inputs[name].view(shape) for name in single} for shape in ((), (1, 1, 1))),
            {name: places[4 + i] for i, name in enumerate(single)},
        ):
            actual = fused(case, inputs | given, dys=reference.dys)
            identical("y", actual.outputs[0], reference.outputs[0])
            for name, grad in actual.grads.items():
                assert grad is not None and grad.shape == (inputs | given)[name].shape
                theirs = reference.grads[name]
                identical(f"gradient of {name}", grad.flatten(), theirs.flatten())  # type: ignore
