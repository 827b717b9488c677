"""The laws of eps: where it stands, which one is used, what the default is."""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check import causes
from labkit.check.exam import Broken, Case, Exam, Untested, describe
from labkit.check.formula import Formula


def eps_inside(exam: Exam) -> None:
    """Add the eps that was asked for to the variance (mean square), before the root."""
    draw = exam.generator("eps")
    cases = []
    for eps in _eps_values(exam):
        size = exam.subject.expected_eps(eps, torch.float32) ** 0.5
        for scale in (size, size / 8):
            case = exam.case(draw, about="numbers so small that eps matters", scale=scale)
            cases.append(replace(case, eps=eps))
    came = [exam.run(case) for case in cases]
    try:
        exam.judge(cases, came, 1e-4, 1e-4)
    except Broken as broken:
        broken.cause = broken.cause or _other_eps(exam, cases, came)
        raise


def default_eps(exam: Exam) -> None:
    """Use the documented eps when none is passed."""
    if not exam.subject.sets_eps or exam.eps_given:
        raise Untested()
    draw = exam.generator("default eps")
    about = "eps not passed, numbers so small that it matters"
    cases = [replace(exam.case(draw, about=about, scale=scale), eps=None) for scale in (1e-3, 3e-4)]
    came = [exam.run(case) for case in cases]
    broken: Broken | None = None
    for documented in exam.spec.documented_eps:
        try:
            for case, y in zip(cases, came, strict=True):
                expected = exam.truth(case, eps=documented)
                if not torch.allclose(y.double(), expected, rtol=1e-4, atol=1e-4):
                    raise Broken(describe(case, y, expected))
            return
        except Broken as failure:
            broken = broken or failure
    assert broken is not None
    documented = exam.spec.documented_eps[0]
    cause = exam.diagnose(lambda wrong: _fits(exam, cases, came, documented, wrong), pairs=False)
    if not cause:
        other = causes.wrong_eps(lambda eps: _fits(exam, cases, came, eps), documented)
        if other is not None:
            cause = f"the default eps is {other:g}, documented is {documented:g}"
    raise Broken(broken.message, cause)


def _eps_values(exam: Exam) -> list[float | None]:
    if not exam.subject.sets_eps:
        return [None]
    usual = {1e-12, 1e-8, 1e-5, 1e-3, 1.0}
    return [*sorted(usual | ({exam.usual_eps} if exam.usual_eps else set()))]


def _fits(
    exam: Exam, cases: list[Case], came: list[Tensor], eps: float, formula: Formula | None = None
) -> bool:
    return all(
        torch.allclose(y.double(), exam.truth(case, formula, eps), rtol=1e-4, atol=1e-4)
        for case, y in zip(cases, came, strict=True)
    )


def _other_eps(exam: Exam, cases: list[Case], came: list[Tensor]) -> str:
    """Look for the one eps that explains all outcomes, whatever was asked for."""
    for case, y in zip(cases, came, strict=True):
        asked = exam.subject.expected_eps(case.eps, case.x.dtype)
        if not _fits(exam, [case], [y], asked):
            used = causes.wrong_eps(lambda eps, c=case, y=y: _fits(exam, [c], [y], eps), asked)
            return "" if used is None else f"eps is {used:g} here, where {asked:g} was asked for"
    return ""
