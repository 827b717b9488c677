"""The laws that every norm obeys: its value, its parameters, its invariances.

Each law is a function of an Exam that raises Broken when the law does not hold. A law states a
property and draws its own inputs; what a failure means is decided elsewhere (causes).
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from labkit.check.case import Broken, Case, Untested, describe, same_layout_copy
from labkit.check.exam import Exam


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
    if exam.subject.groups is None and "num_groups" in exam.spec.roles:
        for groups in (1, 2, exam.dim):
            case = exam.case(draw, (2, exam.dim, 3), f"{groups} groups")
            cases.append(case.but(num_groups=groups))
        if any(len(s) == 2 for s in exam.shapes):
            one = exam.case(draw, (3, exam.dim), f"each of {exam.dim} channels a group")
            cases.append(one.but(num_groups=exam.dim))
    cases += [exam.large(draw), exam.large(draw, torch.float64)]
    for case in cases:  # one by one: the mistake may show on one shape only
        exam.compare([case], cause="this shape is treated in another way than the plain one")


def standardized(exam: Exam) -> None:
    """Give every unit the mean and the mean square of the formula, far above eps."""
    draw = exam.generator("standardized")
    case = exam.case(draw, scale=30 * _root_eps(exam), offset=2 * _root_eps(exam))
    unit = exam.spec.unit(case.x, exam.groups)
    values, expected = exam.run(case).double()[unit], exam.truth(case)[unit]
    mean, square = values.mean().item(), values.square().mean().item()
    name = exam.spec.unit_name
    wanted = expected.square().mean().item()
    room = 1e-4 * max(1.0, wanted)
    if exam.spec.centred and not abs(mean - expected.mean().item()) < room:
        raise Broken(f"on {case} the first {name} of the result has mean {mean:.4g}, not 0")
    if not abs(square - wanted) < room:
        n = values.numel()
        cause = ""
        if n > 1 and abs(square - wanted * (n - 1) / n) < room:
            cause = f"the divisor of the mean of squares is {n - 1} instead of {n}"
        raise Broken(
            f"on {case} the squares in the first {name} of the result have mean {square:.4g}, "
            f"expected {wanted:.4g}",
            cause,
        )


def parameter(role: str) -> Callable[[Exam], None]:
    """Make the law that one learnable parameter acts as in the formula."""

    def law(exam: Exam) -> None:
        _needs(exam, role)
        name = exam.spec.learned[role].name
        draw = exam.generator(exam.spec.learned[role].law)
        shapes = (exam.shapes[0], *_with_squares(exam))
        cases = [exam.case(draw, s, f"with {name}", learned=(role,)) for s in shapes]
        # The same x twice: what was remembered with the first parameter shows with the second.
        cases[1] = replace(cases[1], x=cases[0].x)
        if not exam.spec.learned[role].each:
            cases[0] = cases[0].but(**{role: -cases[0].given[role].abs()})
            cases[1] = cases[1].but(**{role: cases[1].given[role].abs() + 0.5})
        exam.compare(cases)

    law.__doc__ = "Use the parameter as in the formula."
    return law


def every_parameter(exam: Exam) -> None:
    """Match the formula with all parameters at once, in the right order."""
    if len(exam.spec.learned) < 2:
        raise Untested()
    _needs(exam, *exam.spec.learned)
    draw = exam.generator("gain then shift")
    names = " and ".join(exam.spec.learned[role].name.split()[-1] for role in exam.learned)
    shapes = _with_squares(exam)
    exam.compare([exam.case(draw, s, f"with {names}", learned=exam.learned) for s in shapes])


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
    case = exam.case(exam.generator("repeatable"), learned=exam.learned)
    runner = exam.open(case)
    first = exam.run(case, runner)
    kept = first.clone()
    exam.run(replace(case, x=2 * case.x.flip(-1) - 1), runner)
    if not torch.equal(first, kept):
        raise Broken(
            describe(case, first, kept, ", after a call with another x"),
            "the result lies in memory that the next call uses again",
        )
    modes = (True,) if exam.spec.pools_batch else (True, False)
    for again in [exam.run(case, runner, training=mode) for mode in modes]:
        if not torch.allclose(kept, again, rtol=1e-5, atol=1e-5):
            raise Broken(
                describe(case, again, kept, ", called a second time"),
                "something random or remembered takes part: dropout, running statistics, "
                "parameters changed in place",
            )


def inputs_kept(exam: Exam) -> None:
    """Leave x, the parameters and the module's other tensors as they were."""
    draw = exam.generator("kept")
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        case = exam.case(draw, learned=exam.learned, dtype=dtype)
        runner, x = exam.open(case), same_layout_copy(case.x)
        names = {role: learned.name for role, learned in exam.spec.learned.items()}
        before = [("x", x, x.clone())]
        before += [(names.get(n, n), t, t.detach().clone()) for n, t in runner.state().items()]
        with torch.no_grad():
            exam.call(runner, x, case)
        for name, tensor, copy in before:
            if not torch.equal(tensor, copy):
                raise Broken(
                    f"on {case} {name} was overwritten",
                    "an in-place operation (-=, *=, mul_, copy_) on an argument or a view of it",
                )


def _needs(exam: Exam, *roles: str) -> None:
    for role in roles:
        if role in exam.subject.missing:
            raise Broken(*exam.subject.missing[role])
    if any(role not in exam.learned for role in roles):
        raise Untested()


def _with_squares(exam: Exam) -> list[tuple[int, ...]]:
    """Add shapes on which parameters on the wrong axis would go unnoticed by broadcasting."""
    d = exam.dim
    channels = exam.spec.formula.features == 1
    square = [(d, d), (2, d, d), (2, d, 1, d)] if 1 < d <= 64 and channels else []
    ranks = {len(shape) for shape in exam.shapes}
    return [*exam.shapes, *(s for s in square if len(s) in ranks)]


def _root_eps(exam: Exam) -> float:
    return max(1.0, exam.expected("eps") ** 0.5)


def _far_above_eps(exam: Exam, law: str) -> Case:
    return exam.case(exam.generator(law), about="far above eps", scale=100 * _root_eps(exam))
