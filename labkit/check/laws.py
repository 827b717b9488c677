"""The laws that every norm obeys: its value, its eps, its parameters, its invariances.

Each law is a function of an Exam that raises Broken when the law does not hold. A law states a
property and draws its own inputs; what a failure means is decided elsewhere (causes).
"""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.exam import Broken, Case, Exam, Untested, describe, same_layout_copy


def value(exam: Exam) -> None:
    """Match the formula on ordinary numbers, without gain and shift."""
    draw = exam.generator("value")
    exam.compare([exam.case(draw), exam.case(draw, scale=3.0, offset=1.0)])


def shapes(exam: Exam) -> None:
    """Match the formula for every number of axes, and for other sizes where they are free."""
    draw = exam.generator("shapes")
    cases = [exam.case(draw, s, f"{len(s)} axes") for s in exam.shapes[1:]]
    if exam.subject.dim is None:
        cases += [
            exam.case(draw, (4, size), f"{size} features", scale=30.0) for size in exam.spec.sizes
        ]
    if exam.subject.groups is None and exam.spec.formula.pool == "group":
        for groups in (1, 2, exam.dim):
            case = exam.case(draw, (2, exam.dim, 3), f"{groups} groups")
            cases.append(replace(case, groups=groups))
    for case in cases:  # one by one: the mistake may show on one shape only
        exam.compare([case], cause="this shape is treated in another way than the plain one")


def standardized(exam: Exam) -> None:
    """Give every unit mean 0 and mean square 1 when its variance is far above eps."""
    draw = exam.generator("standardized")
    case = exam.case(draw, scale=30 * _root_eps(exam), offset=2 * _root_eps(exam))
    y, unit = exam.run(case).double(), exam.spec.unit(case.x, case.groups)
    values, expected = y[unit], exam.truth(case)[unit]
    mean, square = values.mean().item(), values.square().mean().item()
    name = exam.spec.unit_name
    if exam.spec.centred and not abs(mean) < 1e-4:
        raise Broken(f"on {case} the first {name} of the result has mean {mean:.4g}, not 0")
    wanted = expected.square().mean().item()
    if not abs(square - wanted) < 1e-4:
        n = values.numel()
        cause = ""
        if n > 1 and abs(square - wanted * (n - 1) / n) < 1e-4:
            cause = f"the divisor of the mean of squares is {n - 1} instead of {n}"
        raise Broken(
            f"on {case} the squares in the first {name} of the result have mean {square:.4g}, "
            f"expected {wanted:.4g}",
            cause,
        )


def gain(exam: Exam) -> None:
    """Multiply each feature by its own gain."""
    _needs(exam, weight=True)
    draw = exam.generator("gain")
    exam.compare([exam.case(draw, s, "with a gain", gain=True) for s in _with_squares(exam)])


def shift(exam: Exam) -> None:
    """Add each feature's own shift."""
    _needs(exam, bias=True)
    draw = exam.generator("shift")
    exam.compare([exam.case(draw, s, "with a shift", shift=True) for s in _with_squares(exam)])


def gain_then_shift(exam: Exam) -> None:
    """Multiply by the gain first, then add the shift."""
    _needs(exam, weight=True, bias=True)
    draw = exam.generator("gain then shift")
    about = "with gain and shift"
    exam.compare([exam.case(draw, s, about, gain=True, shift=True) for s in _with_squares(exam)])


def scale_invariance(exam: Exam) -> None:
    """Forget the size of the input and keep its sign: f(c·x) = sign(c)·f(x)."""
    case = _far_above_eps(exam, "scale")
    y = exam.run(case).double()
    for factor in (7.5, -2.0):
        scaled = exam.run(replace(case, x=case.x * factor)).double()
        if not torch.allclose(scaled, y * (1 if factor > 0 else -1), rtol=1e-3, atol=1e-3):
            raise Broken(
                describe(case, scaled, y if factor > 0 else -y, f" multiplied by {factor}")
                + ": the size of x must not matter far above eps, its sign must"
            )


def shift_invariance(exam: Exam) -> None:
    """Forget a constant that is added to all values that share statistics."""
    if not exam.spec.centred:
        raise Untested()
    case = _far_above_eps(exam, "shift")
    y = exam.run(case).double()
    moved = exam.run(replace(case, x=case.x + 3.0 * case.x.abs().max())).double()
    if not torch.allclose(moved, y, rtol=2e-3, atol=2e-3):
        raise Broken(
            describe(case, moved, y, ", a constant added to all of it")
            + ": a constant must be subtracted away with the mean"
        )


def repeatable(exam: Exam) -> None:
    """Give the same result for the same input, in training and evaluation alike."""
    case = exam.case(exam.generator("repeatable"), gain=True, shift=True)
    runner = exam.open(case)
    modes = (True, True) if exam.spec.name == "batch_norm" else (True, True, False)
    first, *others = [exam.run(case, runner, training=mode) for mode in modes]
    for again in others:
        if not torch.allclose(first, again, rtol=1e-5, atol=1e-5):
            raise Broken(
                describe(case, again, first, ", called a second time"),
                "something random or remembered takes part: dropout, running statistics, "
                "parameters changed in place",
            )


def inputs_kept(exam: Exam) -> None:
    """Leave x, gain and shift as they were."""
    case = exam.case(exam.generator("kept"), gain=True, shift=True)
    runner, x = exam.open(case), same_layout_copy(case.x)
    kept = [("x", x), ("the gain", runner.weight), ("the shift", runner.bias)]
    before = [(name, t, t.detach().clone()) for name, t in kept if isinstance(t, Tensor)]
    with torch.no_grad():
        exam.call(runner, x, str(case))
    for name, tensor, copy in before:
        if not torch.equal(tensor, copy):
            raise Broken(
                f"on {case} {name} was overwritten",
                "an in-place operation (-=, *=, mul_, copy_) on an argument or a view of it",
            )


def _needs(exam: Exam, weight: bool = False, bias: bool = False) -> None:
    spec, subject = exam.spec, exam.subject
    for role, wanted in (("weight", weight), ("bias", bias and spec.shift)):
        if wanted and role in subject.missing:
            raise Broken(*subject.missing[role])
    if (weight and not subject.has_weight) or (bias and not subject.has_bias):
        raise Untested()


def _with_squares(exam: Exam) -> list[tuple[int, ...]]:
    """Add shapes on which parameters on the wrong axis would go unnoticed by broadcasting."""
    d = exam.dim
    square = (
        [(d, d), (2, d, d), (2, d, 1, d)] if 1 < d <= 64 and exam.spec.formula.features == 1 else []
    )
    return [*exam.shapes, *(s for s in square if exam.takes(s))]


def _root_eps(exam: Exam) -> float:
    return max(1.0, exam.subject.expected_eps(exam.usual_eps, torch.float32) ** 0.5)


def _far_above_eps(exam: Exam, law: str) -> Case:
    return exam.case(exam.generator(law), about="far above eps", scale=100 * _root_eps(exam))
