"""The laws of corners: no autograd, constant rows' gradients, outliers, small arguments."""

from contextlib import AbstractContextManager
from dataclasses import replace

import torch

from labkit.check.case import Broken, Case, Untested, describe, same_layout_copy
from labkit.check.exam import Exam
from labkit.check.gradient_laws import NO_SLOPE, gradient_close, wanted_gradient
from labkit.check.setting_laws import asked_values, telling
from labkit.check.subject import names_of

CANCELS = (
    "a difference of two numbers near 1 (2σ(2u) − 1, 1 − erfc u, a quotient of exponentials) "
    "cancels near 0: torch.tanh and torch.erf keep the digits"
)


def parameters_known(exam: Exam) -> None:
    """Have no parameter beside those of the norm."""
    if not exam.subject.unknown:
        raise Untested()
    names = "; ".join(
        f"{one.name}: {', '.join(dict.fromkeys(names_of(role, exam.spec)))}"
        for role, one in exam.spec.learned.items()
    )
    raise Broken(
        f"what the parameter {exam.subject.unknown[0]} does is not known, so it was not tested; "
        f"known are {names}",
    )


def without_autograd(exam: Exam) -> None:
    """Match the formula in training and evaluation, with gradients off, for every eps."""
    draw = exam.generator("without autograd")
    cases = [exam.case(draw, s, "no gradients", learned=exam.learned) for s in exam.shapes[:3]]
    if "eps" in exam.spec.settings:
        for asked in asked_values(exam, "eps"):
            cases += telling(exam, draw, "eps", asked, exam.shapes[0])
    ways: tuple[tuple[str, type[AbstractContextManager]], ...] = (
        ("under torch.no_grad()", torch.no_grad),
        ("under torch.inference_mode()", torch.inference_mode),
    )
    for training in (True,) if exam.subject.has_running else (True, False):
        for about, off in ways:
            mode = "" if training else ", in evaluation"
            some = cases if off is torch.no_grad else cases[:3]
            told = [replace(case, about=f"{case.about}, {about}{mode}") for case in some]
            with off():
                actual = [exam.run(case, training=training).clone() for case in told]
            said = f"the value is another one {about}{mode}"
            exam.judge(told, [y.detach() for y in actual], 1e-4, 1e-4, said)


def constant_gradient(exam: Exam) -> None:
    """Keep the gradient finite where all values are equal, and right beside them."""
    formula = exam.spec.standardizes
    if formula is None or formula.eps_at != "outside":
        raise Untested()  # the gradient laws hold the others against the formula
    draw = exam.generator("constant gradient")
    for dtype in (torch.float64, torch.float32):
        for level in (0.0, 1.5):
            about = f"all values of one {exam.spec.unit_name} are {level:g}"
            plain = exam.case(draw, about=about, learned=exam.learned, dtype=dtype)
            unit = exam.spec.unit(plain.x, exam.groups)
            case = replace(plain, x=torch.where(unit, level, plain.x))
            top = torch.randn(case.x.shape, generator=draw, dtype=dtype)
            runner, x = exam.open(case), same_layout_copy(case.x).requires_grad_()
            y = exam.call(runner, x, case)
            if not y.requires_grad:
                raise Untested()  # said by the gradient law
            (grad,) = torch.autograd.grad(y, x, top)
            if not grad.isfinite().all():
                raise Broken(
                    f"on {case} the gradient of x is not finite",
                    NO_SLOPE,
                )
            # Only beside the unit: in it the formula has a corner.
            wanted = wanted_gradient(exam, plain, top, "x", exam.spec.formula)
            if not gradient_close(case, grad.masked_fill(unit, 0).double(),
                                  wanted.masked_fill(unit, 0)):  # fmt: skip
                raise Broken(describe(case, grad.masked_fill(unit, 0), wanted.masked_fill(unit, 0),
                                      ", gradient of x"))  # fmt: skip


def outliers(exam: Exam) -> None:
    """Keep what is far out: one huge value among many, and a large gain."""
    draw = exam.generator("outliers")
    free = exam.subject.dim is None and exam.spec.formula.features == -1
    shapes = [(2, 2048)] if free else []
    axes = len(exam.shapes[0])
    shapes += [exam.spec.long_shape(exam.dim, axes) if axes > 1 else exam.shapes[0]]
    for shape in shapes:
        for dtype in (torch.float32, torch.float64):
            case = exam.case(draw, shape, "one value is 10⁶, a large gain", learned=exam.learned,
                             dtype=dtype)  # fmt: skip
            if "weight" in case.given:
                case = case.but(weight=1e3 * case.given["weight"])
            x = case.x.clone()
            x.view(-1)[3 % x.numel()] = 1e6
            exam.compare([replace(case, x=x)], 1e-4, 1e-4, "large results are cut off (clamp)")


def small_arguments(exam: Exam) -> None:
    """Keep four digits of small numbers, where nothing is added to them: 10⁻⁹ to 0.1."""
    if exam.spec.name not in ("dynamic_tanh", "dynamic_erf", "bounded_tanh"):
        raise Untested()
    draw = exam.generator("small arguments")
    roles = tuple(role for role in exam.learned if role not in ("bias", "shift"))
    for learned in ((), roles):
        case = exam.case(draw, about="numbers from 10⁻⁹ to 0.1", learned=learned)
        power = 8.0 * torch.rand(case.x.shape, generator=draw) - 9.0
        case = replace(case, x=case.x.sign() * 10.0**power)
        _hold_digits(exam, case)


def _hold_digits(exam: Exam, case: Case) -> None:
    y, expected = exam.run(case).double(), exam.truth(case)
    off = (y - expected).abs() > 1e-4 * expected.abs() + 1e-30
    if bool(off.any()) or not y.isfinite().all():
        where = tuple(off.nonzero()[0].tolist()) if off.any() else ()
        raise Broken(
            f"on {case}, at position {where} came {y[where].item():.6g}, "
            f"expected {expected[where].item():.6g}"
            if where
            else f"on {case} came NaN",
            exam.stock(CANCELS, case),
        )
