"""Laws about gradients: they equal the float64 formula's, for x and every parameter."""

import re
from dataclasses import replace

import torch
from torch import Generator, Tensor

from labkit.check.case import HALF, Broken, Case, Untested, describe, same_layout_copy, told
from labkit.check.exam import Exam
from labkit.check.formula import Formula
from labkit.check.laws import Law

CUT = "the graph is cut: .data, .detach(), .item(), no_grad, numpy or torch.tensor(…)"
NO_SLOPE = "the square root has no slope at 0: infinity times 0 is NaN"
# Tolerance for a float32 step inside; float32 inputs also lose digits to the spread, and in
# half precision each operation of the backward pass may round.
_ROOM = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 0.04, torch.float16: 0.01}


def make_gradient_law(role: str) -> Law:
    """Make the law that the gradient with respect to x or a parameter is the formula's."""

    def law(exam: Exam, draw: Generator) -> None:
        if role != "x" and role not in exam.learned:
            raise Untested()
        # x by itself; the parameters all at once, for all their laws.
        draw = draw if role == "x" else exam.make_generator("gradient of parameters")
        kept = exam.gradients if role != "x" else {}
        seen = []
        for i, case in enumerate(_draw_cases(exam, draw, role == "x")):
            # Not contiguous, as gradients often are.
            top = transpose_all(torch.randn(case.x.shape[::-1], generator=draw, dtype=case.x.dtype))
            roles = ("x",) if role == "x" else tuple(r for r in exam.learned if r in case.given)
            # torch's own group norm raises on the gradient of a shift without a gain.
            if role not in roles or (roles == ("bias",) and "weight" in exam.learned):
                continue
            try:
                kept[i] = kept[i] if i in kept else _find_gradients(exam, case, top, roles)
                if (grad := kept[i][role]) is None:
                    raise Broken(
                        f"on {case} {_name_role(exam, role)} must receive a gradient, but none "
                        "arrives",
                        CUT,
                    )
            except Broken as broken:
                broken.cause = _find_ignored(exam, role) or broken.cause
                raise
            # A single number's gradient sums over all of x, which half precision may round away.
            if role == "x" or exam.norm.learned[role].each or case.x.dtype not in HALF:
                seen.append((case, top, grad.double()))
        _judge_gradients(exam, seen, role)

    name = role if role == "x" else "a parameter"
    law.__doc__ = f"Require the formula's gradient with respect to {name}."
    return law


def transpose_all(x: Tensor) -> Tensor:
    """View a tensor with its axes reversed."""
    return x.permute(*range(x.ndim - 1, -1, -1))


def _find_ignored(exam: Exam, role: str) -> str:
    """Return the message for a parameter that another law found to be ignored."""
    if role == "x":
        return ""
    said = re.compile(rf"(the )?(scale )?{exam.norm.learned[role].law} is ignored")
    return next((sentence for sentence, _ in exam.found if said.match(sentence)), "")


def _name_role(exam: Exam, role: str) -> str:
    return "x" if role == "x" else exam.norm.learned[role].name


def _draw_cases(exam: Exam, draw: Generator, bare: bool) -> list[Case]:
    every, wide = exam.learned, torch.float64
    size, small = exam.find_eps_size(wide), "numbers so small that eps matters"
    cases = [exam.draw_case(draw, s, learned=every, dtype=wide) for s in exam.shapes]
    for about, scale in ((small, size), (small, size / 30), ("large numbers", 1e4)):
        cases.append(exam.draw_case(draw, about=about, learned=every, scale=scale, dtype=wide))
    if bare:
        cases.append(exam.draw_case(draw, dtype=wide))
    cases += [exam.draw_case(draw, learned=(role,), dtype=wide) for role in every]
    if not exam.norm.odd:
        level = exam.draw_case(draw, about="one constant", learned=every, dtype=wide)
        unit = exam.norm.unit(level.x, exam.groups)
        cases.append(replace(level, x=torch.where(unit, 1.5, level.x)))
        nothing = replace(level, about="all values of one unit are 0")
        cases.append(replace(nothing, x=torch.where(unit, 0.0, level.x)))
    # A fast path may exist only for float32, or only for half precision.
    for dtype in (torch.float32, *HALF):
        shapes = exam.shapes if dtype == torch.float32 else exam.shapes[:1]
        narrow = [exam.draw_case(draw, s, learned=every, dtype=dtype) for s in shapes]
        cases += [case for case in narrow if _well_posed(exam, case)]
    turned = exam.draw_case(draw, exam.shapes[0][::-1], "a transposed view", dtype=wide).x
    plain = exam.draw_case(draw, about="a transposed view", learned=every, dtype=wide)
    return [*cases, replace(plain, x=transpose_all(turned))]


def _well_posed(exam: Exam, case: Case) -> bool:
    """Return whether no unit is tiny or nearly constant, which would leave float32 few digits."""
    if not exam.norm.formula.pool:
        return True
    if int(exam.norm.unit(case.x, exam.groups).sum()) < 4:
        return False
    bare = case.but(**dict.fromkeys(exam.norm.learned))
    return exam.norm.formula.sensitivity(case.x, exam.fill_settings(bare)).max().item() < 30


def _find_gradients(
    exam: Exam, case: Case, top: Tensor, roles: tuple[str, ...]
) -> dict[str, Tensor | None]:
    runner = exam.open_runner(case)
    x = same_layout_copy(case.x).requires_grad_("x" in roles)
    leaves = [x if role == "x" else runner.parameters[role] for role in roles]
    for leaf in leaves:
        leaf.requires_grad_()
    y = exam.call(runner, x, case)
    if not y.requires_grad:
        raise Broken(f"on {case} the result must have a gradient, but has none at all", CUT)
    # A fast path may differ under autograd, so its value is checked before its gradient.
    if case.x.dtype not in HALF:
        exam.judge([case], [y.detach()], 1e-4, 1e-4, "the value is another one under autograd")
    try:
        grads = torch.autograd.grad(y, leaves, top.to(y.dtype), allow_unused=True)
    except Exception as error:
        raise Broken(f"on {case} the backward pass raised {told(error)}") from error
    return dict(zip(roles, grads, strict=True))


def find_gradient(exam: Exam, case: Case, top: Tensor, role: str, formula: Formula) -> Tensor:
    """Return the gradient of a formula, in float64."""
    leaf = case.x.clone().requires_grad_()
    given = exam.fill_settings(case)
    if role == "x":
        y = formula(leaf, given)
    else:
        leaf = given[role].clone().requires_grad_()
        y = formula(case.x, {**given, role: leaf})
    if not y.requires_grad:
        return torch.zeros_like(leaf).double()
    (grad,) = torch.autograd.grad(y, leaf, top.double(), allow_unused=True)
    return torch.zeros_like(leaf).double() if grad is None else grad.double()


def is_gradient_close(case: Case, grad: Tensor, expected: Tensor) -> bool:
    """Return whether two gradients agree, relative to the largest entry."""
    if grad.numel() != expected.numel():
        return False
    gap = (grad.reshape(expected.shape) - expected).abs()
    room = _ROOM[case.x.dtype] * (expected.abs() + expected.abs().max())
    # A sum that cancels leaves the rounding errors of its terms.
    floor = 1e-12 if case.x.dtype == torch.float64 else 1e-6
    return bool((gap <= room + floor).all())


def _judge_gradients(exam: Exam, seen: list[tuple[Case, Tensor, Tensor]], role: str) -> None:
    def close(case: Case, top: Tensor, grad: Tensor, formula: Formula) -> bool:
        return is_gradient_close(case, grad, find_gradient(exam, case, top, role, formula))

    for case, top, grad in seen:
        if close(case, top, grad, exam.norm.formula):
            continue
        small = [t for t in seen if t[0].x.dtype == torch.float64 and t[1].numel() < 5000]
        order = [(case, top, grad), *small]
        asked = [c for c, _, _ in order]
        cause = exam.diagnose(lambda f, order=order: all(close(*t, f) for t in order), asked)
        if not cause and not grad.isfinite().all():
            cause = exam.offer_cause(NO_SLOPE, case)
        expected = find_gradient(exam, case, top, role, exam.norm.formula)
        what = f", gradient of {_name_role(exam, role)}"
        raise Broken(describe(case, grad.reshape(expected.shape), expected, what), cause)
