"""The laws of gradients: those of the float64 formula, for x, gain and shift."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.exam import Broken, Case, Exam, Untested, describe
from labkit.check.formula import Formula


def gradient_of(argument: str) -> Callable[[Exam], None]:
    """Make the law that the gradient with respect to x, weight or bias is the formula's."""

    def gradient(exam: Exam) -> None:
        subject = exam.subject
        if argument == "weight" and not subject.has_weight:
            raise Untested()
        if argument == "bias" and not subject.has_bias:
            raise Untested()
        draw = exam.generator(f"gradient {argument}")
        size = exam.subject.expected_eps(exam.usual_eps, torch.float64) ** 0.5
        cases = [
            exam.case(draw, s, gain=True, shift=True, dtype=torch.float64) for s in exam.shapes[:3]
        ]
        about = "numbers so small that eps matters"
        cases.append(exam.case(draw, about=about, gain=True, scale=size, dtype=torch.float64))
        level = exam.case(draw, about="one constant", gain=True, dtype=torch.float64)
        unit = exam.spec.unit(level.x, level.groups)
        cases.append(replace(level, x=torch.where(unit, 1.5, level.x)))
        # A fast path may serve float32 alone.
        single = [exam.case(draw, s, gain=True, shift=True) for s in exam.shapes[:3]]
        cases += [case for case in single if _well_posed(exam, case)]
        tops = [_noncontiguous_like(case.x, draw) for case in cases]
        came = [_gradient(exam, c, top, argument) for c, top in zip(cases, tops, strict=True)]
        _judge_gradients(exam, cases, tops, came, argument)

    gradient.__doc__ = f"Give the formula's gradient with respect to {argument}."
    return gradient


def _well_posed(exam: Exam, case: Case) -> bool:
    """Say whether no unit is tiny or nearly constant, which would leave float32 few digits."""
    if int(exam.spec.unit(case.x, case.groups).sum()) < 4:
        return False
    eps = exam.subject.expected_eps(case.eps, case.x.dtype)
    return exam.spec.formula.sensitivity(case.x, None, eps, case.groups).max().item() < 30


def _gradient(exam: Exam, case: Case, top: Tensor, argument: str) -> Tensor:
    runner = exam.open(case)
    x = case.x.clone().requires_grad_()
    leaf = {"x": x, "weight": runner.weight, "bias": runner.bias}[argument]
    if leaf is None:
        return torch.zeros(0)
    leaf.requires_grad_()
    y = exam.call(runner, x, str(case))
    name = {"x": "x", "weight": "the gain", "bias": "the shift"}[argument]
    cut = "the graph is cut: .data, .detach(), .item(), no_grad, numpy or torch.tensor(…)"
    if not y.requires_grad:
        raise Broken(f"on {case} the result has no gradient at all", cut)
    try:
        (grad,) = torch.autograd.grad(y, leaf, top.to(y.dtype), allow_unused=True)
    except Exception as error:
        raise Broken(
            f"on {case} the backward pass raised {type(error).__name__}: {str(error)[:200]}"
        ) from error
    if grad is None:
        raise Broken(f"on {case} no gradient arrives at {name}", cut)
    return grad.double()


def _judge_gradients(
    exam: Exam, cases: list[Case], tops: list[Tensor], came: list[Tensor], argument: str
) -> None:
    def wanted(case: Case, top: Tensor, formula=exam.spec.formula) -> Tensor:
        x = case.x.clone().requires_grad_()
        weight, bias = (
            p if p is None else p.clone().requires_grad_() for p in (case.weight, case.bias)
        )
        y = formula(x, weight, bias, exam.subject.expected_eps(case.eps, x.dtype), case.groups)
        leaf = {"x": x, "weight": weight, "bias": bias}[argument]
        if leaf is None or not y.requires_grad:
            return torch.zeros(0)
        (grad,) = torch.autograd.grad(y, leaf, top, allow_unused=True)
        return torch.zeros_like(leaf) if grad is None else grad

    def close(case: Case, grad: Tensor, expected: Tensor) -> bool:
        if not expected.numel() or grad.numel() != expected.numel():
            return not expected.numel()
        gap = (grad.reshape(expected.shape) - expected).abs()
        # Room for a float32 step on the way; float32 inputs lose digits to the spread as well.
        room = 1e-3 if case.x.dtype == torch.float32 else 1e-4
        return bool((gap <= room * (expected.abs() + expected.abs().max()) + 1e-12).all())

    pairs = list(zip(cases, tops, came, strict=True))
    for case, top, grad in pairs:
        expected = wanted(case, top)
        if not close(case, grad, expected):

            def explains(wrong: Formula) -> bool:
                return all(close(c, g, wanted(c, t, wrong)) for c, t, g in pairs)

            cause = exam.diagnose(explains, pairs=False)
            grad = grad.reshape(expected.shape)
            raise Broken(describe(case, grad, expected, f", gradient of {argument}"), cause)


def _noncontiguous_like(x: Tensor, draw: torch.Generator) -> Tensor:
    turned = torch.randn(tuple(x.shape)[::-1], generator=draw, dtype=x.dtype)
    return turned.permute(*range(x.ndim - 1, -1, -1))
