"""The laws on hard inputs: constants, views, NaN, and neighbours that change."""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.exam import Broken, Case, Exam, Untested, describe


def constant(exam: Exam) -> None:
    """Stay finite and right where all values are equal, and where all are zero."""
    draw = exam.generator("constant")
    eps = exam.subject.expected_eps(exam.usual_eps, torch.float32)
    for level in (2.5, 0.0):
        about = f"all values of one {exam.spec.unit_name} are {level:g}"
        case = exam.case(draw, about=about, gain=True, shift=True)
        x = torch.where(exam.spec.unit(case.x, case.groups), level, case.x)
        case = replace(case, x=x)
        # A mean that is wrong in its last place comes out divided by the root of eps.
        atol = 1e-4 + (1e-6 * abs(level) / eps**0.5 if exam.spec.centred else 0.0)
        exam.compare([case], 1e-4, atol, "0 divided by 0: eps must stand inside the root")


def strides(exam: Exam) -> None:
    """Take views: transposed, sliced with a step, expanded."""
    draw = exam.generator("strides")
    for shape in (s for s in exam.shapes if len(s) > 1):
        turned = exam.case(draw, shape[::-1]).x.permute(*range(len(shape) - 1, -1, -1))
        sliced = exam.case(draw, (*shape[:-1], 2 * shape[-1])).x[..., ::2]
        expanded = exam.case(draw, (1, *shape[1:])).x.expand(shape)
        views = [("a transposed view", turned), ("every second column", sliced)]
        views += [("an expanded view", expanded)] if exam.spec.name != "batch_norm" else []
        for about, x in views:
            plain = exam.case(draw, shape, about, gain=True, shift=True)
            exam.compare([replace(plain, x=x)], cause="the memory is read as if it were contiguous")


def independence(exam: Exam) -> None:
    """Keep each unit's result when another unit changes."""
    case = exam.case(exam.generator("independence"), about=f"one {exam.spec.unit_name} changed")
    unit = exam.spec.unit(case.x, case.groups)
    if unit.all():
        raise Untested()
    changed = replace(case, x=torch.where(unit, 5 * case.x.flip(-1) + 3, case.x))
    before, after = exam.run(case), exam.run(changed)
    still, now = before.masked_fill(unit, 0.0), after.masked_fill(unit, 0.0)
    if not torch.allclose(still, now, rtol=1e-5, atol=1e-5):
        name = exam.spec.unit_name
        raise Broken(
            describe(case, now, still) + f": a {name} must not depend on the other {name}s",
            exam.diagnose(_explains_value(exam, case, before))
            or f"statistics are shared between {name}s",
        )


def containment(exam: Exam) -> None:
    """Keep a NaN or an infinity inside its own unit, and do not hide it."""
    draw = exam.generator("containment")
    plain = exam.case(draw)
    unit, name = exam.spec.unit(plain.x, plain.groups), exam.spec.unit_name
    first = tuple(unit.nonzero()[0].tolist())
    for bad in (float("nan"), float("inf")):
        x = plain.x.clone()
        x[first] = bad
        case = replace(plain, x=x, about=f"one value is {bad}")
        y = exam.run(case)
        if y[unit].isfinite().all():
            raise Broken(f"on {case} the {name} that holds it came out finite: a fault is hidden")
        if not y[~unit].isfinite().all():
            raise Broken(
                f"on {case} values outside that {name} came out NaN or infinite",
                f"a multiplication by 0, or statistics shared between {name}s",
            )


def _explains_value(exam: Exam, case: Case, y: Tensor):
    return lambda wrong: torch.allclose(y.double(), exam.truth(case, wrong), rtol=1e-4, atol=1e-4)
