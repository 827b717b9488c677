"""The laws of gradients: those of the float64 formula, for x and every parameter."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.case import Broken, Case, Untested, describe, same_layout_copy, told
from labkit.check.exam import Exam
from labkit.check.formula import Formula

_CUT = "the graph is cut: .data, .detach(), .item(), no_grad, numpy or torch.tensor(…)"
NO_SLOPE = "the square root has no slope at 0: infinity times 0 is NaN"
# Room for a float32 step on the way; float32 inputs lose digits to the spread as well, and in
# half precision each operation of the backward pass may round.
_ROOM = {torch.float64: 1e-4, torch.float32: 1e-3, torch.bfloat16: 0.04, torch.float16: 0.01}


def gradient_of(role: str) -> Callable[[Exam], None]:
    """Make the law that the gradient with respect to x or a parameter is the formula's."""

    def gradient(exam: Exam) -> None:
        if role != "x" and role not in exam.learned:
            raise Untested()
        # x by itself; the parameters all at once, for all their laws.
        draw = exam.generator("gradient x" if role == "x" else "gradient of parameters")
        cases = _cases(exam, draw, ("x",) if role == "x" else exam.learned)
        tops = [_noncontiguous_like(case.x, draw) for case in cases]
        kept = exam.gradients if role != "x" else {}
        chosen, actual = [], []
        for i, (case, top) in enumerate(zip(cases, tops, strict=True)):
            roles = ("x",) if role == "x" else tuple(r for r in exam.learned if r in case.given)
            # torch's own group norm raises on the gradient of a shift without a gain.
            if role not in roles or (roles == ("bias",) and "weight" in exam.learned):
                continue
            try:
                kept[i] = kept[i] if i in kept else _gradients(exam, case, top, roles)
                actual.append(_arrived(exam, case, kept[i][role], role))
            except Broken as broken:
                ignored = role != "x" and next((s for s, _ in exam.found if "ignored" in s), "")
                broken.cause = ignored or broken.cause
                raise
            chosen.append(i)
        _judge(exam, [cases[i] for i in chosen], [tops[i] for i in chosen], actual, role)

    name = role if role == "x" else "a parameter"
    gradient.__doc__ = f"Give the formula's gradient with respect to {name}."
    return gradient


def _cases(exam: Exam, draw: torch.Generator, roles: tuple[str, ...]) -> list[Case]:
    every, wide = exam.learned, torch.float64
    formula = exam.spec.standardizes
    size = exam.expected("eps", dtype=wide) if "eps" in exam.spec.settings else 1.0
    size = size if formula is not None and formula.eps_at != "inside" else size**0.5
    cases = [exam.case(draw, s, learned=every, dtype=wide) for s in exam.shapes]
    small = "numbers so small that eps matters"
    for about, scale in ((small, size), (small, size / 30), ("large numbers", 1e4)):
        cases.append(exam.case(draw, about=about, learned=every, scale=scale, dtype=wide))
    if roles == ("x",):
        cases.append(exam.case(draw, dtype=wide))  # without parameters
    cases += [exam.case(draw, learned=(role,), dtype=wide) for role in every]
    if "constant" not in exam.spec.odd:
        level = exam.case(draw, about="one constant", learned=every, dtype=wide)
        unit = exam.spec.unit(level.x, exam.groups)
        cases.append(replace(level, x=torch.where(unit, 1.5, level.x)))
        if formula is None or formula.eps_at != "outside":
            nothing = replace(level, about="all values of one unit are 0")
            cases.append(replace(nothing, x=torch.where(unit, 0.0, level.x)))
    # A fast path may serve float32, or half precision, alone.
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        shapes = exam.shapes if dtype == torch.float32 else exam.shapes[:1]
        narrow = [exam.case(draw, s, learned=every, dtype=dtype) for s in shapes]
        cases += [case for case in narrow if _well_posed(exam, case)]
    cases += [exam.large(draw), exam.large(draw, wide)]
    turned = exam.case(draw, exam.shapes[0], "a transposed view", learned=every, dtype=wide)
    cases.append(replace(turned, x=_noncontiguous_like(turned.x, draw)))
    return cases


def _well_posed(exam: Exam, case: Case) -> bool:
    """Return whether no unit is tiny or nearly constant, which would leave float32 few digits."""
    if exam.spec.standardizes is None:
        return True
    if int(exam.spec.unit(case.x, exam.groups).sum()) < 4:
        return False
    bare = case.but(**dict.fromkeys(exam.spec.learned))
    return exam.spec.formula.sensitivity(case.x, exam.filled(bare)).max().item() < 30


def _gradients(
    exam: Exam, case: Case, top: Tensor, roles: tuple[str, ...]
) -> dict[str, Tensor | None]:
    runner = exam.open(case)
    x = same_layout_copy(case.x).requires_grad_("x" in roles)
    leaves = [x if role == "x" else runner.parameters[role] for role in roles]
    for leaf in leaves:
        leaf.requires_grad_()
    y = exam.call(runner, x, case)
    if not y.requires_grad:
        raise Broken(f"on {case} the result has no gradient at all", _CUT)
    if case.x.dtype in (torch.float64, torch.float32):
        exam.judge([case], [y.detach()], 1e-4, 1e-4, "the value is another one under autograd")
    try:
        grads = torch.autograd.grad(y, leaves, top.to(y.dtype), allow_unused=True)
    except Exception as error:
        raise Broken(f"on {case} the backward pass raised {told(error)}") from error
    return dict(zip(roles, grads, strict=True))


def _arrived(exam: Exam, case: Case, grad: Tensor | None, role: str) -> Tensor:
    if grad is None:
        name = "x" if role == "x" else exam.spec.learned[role].name
        raise Broken(f"on {case} no gradient arrives at {name}", _CUT)
    return grad.double()


def wanted_gradient(exam: Exam, case: Case, top: Tensor, role: str, formula: Formula) -> Tensor:
    """Differentiate a formula, in float64."""
    x = case.x.clone().requires_grad_()
    given = exam.filled(case)
    for name in exam.learned:
        if name in given:
            given[name] = given[name].clone().requires_grad_()
    y = formula(x, given)
    leaf = x if role == "x" else given[role]
    if not y.requires_grad:
        return torch.zeros_like(leaf).double()
    (grad,) = torch.autograd.grad(y, leaf, top.double(), allow_unused=True)
    return torch.zeros_like(leaf).double() if grad is None else grad.double()


def gradient_close(case: Case, grad: Tensor, expected: Tensor) -> bool:
    """Compare relatively to the largest entry."""
    if grad.numel() != expected.numel():
        return False
    gap = (grad.reshape(expected.shape) - expected).abs()
    room = _ROOM[case.x.dtype] * (expected.abs() + expected.abs().max())
    # What cancels to nothing leaves the rounding of what was added up.
    floor = 1e-12 if case.x.dtype == torch.float64 else 1e-6
    return bool((gap <= room + floor).all())


def _judge(
    exam: Exam, cases: list[Case], tops: list[Tensor], actual: list[Tensor], role: str
) -> None:
    triples = list(zip(cases, tops, actual, strict=True))
    if role != "x" and not exam.spec.learned[role].each:
        # A sum over all of x: in half precision its terms' roundings may outweigh it.
        triples = [t for t in triples if t[0].x.dtype not in (torch.bfloat16, torch.float16)]

    def close(case: Case, top: Tensor, grad: Tensor, formula: Formula) -> bool:
        return gradient_close(case, grad, wanted_gradient(exam, case, top, role, formula))

    for case, top, grad in triples:
        if not close(case, top, grad, exam.spec.formula):
            expected = wanted_gradient(exam, case, top, role, exam.spec.formula)
            first = (case, top, grad)
            small = [t for t in triples if t[0].x.dtype == torch.float64 and t[1].numel() < 5000]
            order = [first, *small]

            def explains(wrong: Formula, order=order) -> bool:
                return all(close(case, top, grad, wrong) for case, top, grad in order)

            asked = [triple[0] for triple in order]
            cause = exam.diagnose(explains, asked, pairs=False, gradient=True)
            name = "x" if role == "x" else exam.spec.learned[role].name
            if not cause and not grad.isfinite().all():
                cause = exam.stock(NO_SLOPE, case)
            grad = grad.reshape(expected.shape)
            raise Broken(describe(case, grad, expected, f", gradient of {name}"), cause)


def _noncontiguous_like(x: Tensor, draw: torch.Generator) -> Tensor:
    turned = torch.randn(tuple(x.shape)[::-1], generator=draw, dtype=x.dtype)
    return turned.permute(*range(x.ndim - 1, -1, -1))
