"""The laws on hard inputs: constants, views, NaN, and neighbours that change."""

from dataclasses import replace

import torch

from labkit.check.case import Broken, Untested, describe
from labkit.check.exam import Exam


def constant(exam: Exam) -> None:
    """Stay finite and right where all values are equal, and where all are zero."""
    draw = exam.generator("constant")
    formula = exam.spec.standardizes
    eps = exam.expected("eps") if formula is not None else 1.0
    root = eps if formula is not None and formula.eps_at == "outside" else eps**0.5
    for level in (2.5, 0.0):
        about = f"all values of one {exam.spec.unit_name} are {level:g}"
        case = exam.case(draw, about=about, learned=exam.learned)
        x = torch.where(exam.spec.unit(case.x, exam.groups), level, case.x)
        case = replace(case, x=x)
        # A mean that is wrong in its last place comes out divided by the root of eps.
        atol = 1e-4 + (1e-6 * abs(level) / root if exam.spec.centred else 0.0)
        y = exam.run(case)
        cause = "" if y.isfinite().all() else "0 divided by 0: eps must keep it from that"
        exam.judge([case], [y], 1e-4, atol, cause)


def strides(exam: Exam) -> None:
    """Take views: transposed, sliced with a step, expanded."""
    draw = exam.generator("strides")
    for shape in (s for s in exam.shapes if len(s) > 1):
        turned = exam.case(draw, shape[::-1]).x.permute(*range(len(shape) - 1, -1, -1))
        sliced = exam.case(draw, (*shape[:-1], 2 * shape[-1])).x[..., ::2]
        expanded = exam.case(draw, (1, *shape[1:])).x.expand(shape)
        views = [("a transposed view", turned), ("every second column", sliced)]
        views += [] if exam.spec.pools_batch else [("an expanded view", expanded)]
        for about, x in views:
            plain = exam.case(draw, shape, about, learned=exam.learned)
            # The steps between values in memory are passed on with their own digits.
            exam.compare([replace(plain, x=x)], cause="the memory is read as if it were contiguous")


def independence(exam: Exam) -> None:
    """Keep each unit's result when another unit changes."""
    draw, name = exam.generator("independence"), exam.spec.unit_name
    apart = 0
    for shape in exam.shapes[:3]:
        case = exam.case(draw, shape, about=f"one {name} changed")
        unit = exam.spec.unit(case.x, exam.groups)
        if unit.all():
            continue
        apart += 1
        changed = replace(case, x=torch.where(unit, 5 * case.x.flip(-1) + 3, case.x))
        before, after = exam.run(case), exam.run(changed)
        still, now = before.masked_fill(unit, 0.0), after.masked_fill(unit, 0.0)
        if not torch.allclose(still, now, rtol=1e-5, atol=1e-5):
            raise Broken(
                describe(case, now, still) + f": a {name} must not depend on the other {name}s",
                exam.diagnose(
                    lambda wrong, c=case, y=before: torch.allclose(
                        y.double(), exam.truth(c, wrong), rtol=1e-4, atol=1e-4
                    ),
                    [case],
                )
                or f"statistics are shared between {name}s",
            )
    if not apart:
        raise Untested()


def containment(exam: Exam) -> None:
    """Keep a NaN or an infinity inside its own unit, and do not hide it."""
    draw, name = exam.generator("containment"), exam.spec.unit_name
    for shape in exam.shapes[:3]:
        plain = exam.case(draw, shape, learned=exam.learned)
        unit = exam.spec.unit(plain.x, exam.groups)
        first = tuple(unit.nonzero()[0].tolist())
        for bad in (float("nan"), float("inf")):
            x = plain.x.clone()
            x[first] = bad
            case = replace(plain, x=x, about=f"one value is {bad}")
            y = exam.run(case)
            # A squash takes infinity to its bound: there the formula says what must come.
            if y[unit].isfinite().all() and not exam.truth(case)[unit].isfinite().all():
                raise Broken(
                    f"on {case} the {name} that holds it came out finite: a fault is hidden"
                )
            if not y[~unit].isfinite().all():
                raise Broken(
                    f"on {case} values outside that {name} came out NaN or infinite",
                    exam.stock(f"a multiplication by 0, or statistics shared by {name}s", case),
                )
