"""The laws of settings: where eps stands, which value is used, what the default is."""

from collections.abc import Callable

import torch
from torch import Tensor

from labkit.check import causes
from labkit.check.case import Broken, Case, Untested, describe
from labkit.check.exam import Exam
from labkit.check.formula import Formula

# Values to ask for. With an eps of 1e-12, numbers near 1e-6 are where it matters.
_ASKED = {
    "eps": (1e-12, 1e-8, 1e-5, 1e-3, 1.0),
    "p": (0.05, 0.125, 0.3, 0.5, 0.99, 1.0),
    "bound": (0.5, 2.0, 30.0),
}


def setting(role: str) -> Callable[[Exam], None]:
    """Make the law that a setting which is asked for is the one that is used."""

    def law(exam: Exam) -> None:
        draw = exam.generator(role)
        cases: list[Case] = []
        for asked in asked_values(exam, role):
            shapes = exam.shapes[:2] if role == "eps" else exam.shapes[:1]
            for shape in shapes if asked == exam.usual.get(role) else exam.shapes[:1]:
                cases += telling(exam, draw, role, asked, shape)
        if role == "p" and exam.subject.dim is None:
            cases += [exam.case(draw, (4, size), f"{size} features") for size in (11, 24, 31, 40)]
        actual = [exam.run(case) for case in cases]
        try:
            exam.judge(cases, actual, 1e-4, 1e-4)
        except Broken as broken:
            exam.failed.add(role)
            broken.cause = broken.cause or _other(exam, cases, actual, role)
            raise

    law.__doc__ = f"Use the {role} that was asked for, where the formula has it."
    return law


def default(role: str) -> Callable[[Exam], None]:
    """Make the law that the documented value is used when none is passed."""

    def law(exam: Exam) -> None:
        if role not in exam.subject.sets or role in exam.subject.given:
            raise Untested()
        draw = exam.generator(f"default {role}")
        about = f"{role} not passed" + (", numbers so small that it matters" * (role == "eps"))
        size = exam.expected("eps") ** (1.0 if _eps_on_root(exam) else 0.5)
        scales = (size, size / 3) if role == "eps" else (1.0, 0.1)
        cases = [exam.case(draw, about=about, scale=s).but(**{role: None}) for s in scales]
        if role == "p" and exam.subject.dim is None:  # on few features many shares are the same
            wide = [exam.case(draw, (2, size), about) for size in (1030, 4099)]
            cases += [case.but(p=None) for case in wide]
        actual = [exam.run(case) for case in cases]
        documented = exam.spec.settings[role]
        if any(_fits(exam, cases, actual, role, one) for one in documented):
            return
        fit = lambda wrong: _fits(exam, cases, actual, role, documented[0], wrong)  # noqa: E731
        cause = exam.diagnose(fit, cases, pairs=False)
        if not cause:
            other = causes.wrong_setting(
                lambda one: _fits(exam, cases, actual, role, one), role, documented[0]
            )
            if other is not None:
                cause = f"the default {role} is {other:g}, documented is {documented[0]:g}"
        wrong = next(
            i
            for i in range(len(cases))
            if not _fits(exam, cases[i : i + 1], actual[i : i + 1], role, documented[0])
        )
        expected = exam.truth(cases[wrong], changed={role: documented[0]})
        raise Broken(describe(cases[wrong], actual[wrong], expected), cause)

    law.__doc__ = f"Use the documented {role} when none is passed."
    return law


def _eps_on_root(exam: Exam) -> bool:
    """Return whether eps is compared with the root, not with the square under it."""
    formula = exam.spec.standardizes
    return formula is not None and formula.eps_at in ("outside", "floor of the root")


def asked_values(exam: Exam, role: str) -> list[float | None]:
    """List the values to ask for: None where none can be."""
    if role not in exam.subject.sets:
        return [None]
    return [*sorted({*_ASKED[role], exam.usual[role]})]


def telling(
    exam: Exam, draw: torch.Generator, role: str, asked: float | None, shape: tuple[int, ...]
) -> list[Case]:
    """Draw inputs on which the value that was asked for shows."""
    if role != "eps":
        case = exam.case(draw, shape, f"another {role}", scale=3.0)
        return [case.but(**{role: asked})]
    eps = exam.subject.expected("eps", asked, torch.float32)
    size = eps if _eps_on_root(exam) else eps**0.5
    # A mean square that underflows in float32 is no law's concern.
    size = max(size, 1e-12)
    about = "numbers so small that eps matters"
    cases = [exam.case(draw, shape, about, scale=s).but(eps=asked) for s in (size, size / 8)]
    formula = exam.spec.standardizes
    if formula is not None and formula.eps_at == "floor of the root":
        about = "just above where eps is the floor"
        cases.append(exam.case(draw, shape, about, scale=3 * size).but(eps=asked))
    return cases


def _fits(
    exam: Exam,
    cases: list[Case],
    actual: list[Tensor],
    role: str,
    value: float,
    formula: Formula | None = None,
) -> bool:
    for case, y in zip(cases, actual, strict=True):
        expected = exam.truth(case, formula, {role: value})
        largest = expected.abs().max().item()
        if not torch.allclose(y.double(), expected, rtol=1e-4, atol=1e-4 * largest):
            return False
    return True


def _other(exam: Exam, cases: list[Case], actual: list[Tensor], role: str) -> str:
    """Look for the one value that explains an outcome, whatever was asked for."""
    for case, y in zip(cases, actual, strict=True):
        asked = exam.expected(role, case)
        if not _fits(exam, [case], [y], role, asked):
            used = causes.wrong_setting(
                lambda one, c=case, y=y: _fits(exam, [c], [y], role, one), role, asked
            )
            return "" if used is None else f"{role} is {used:g} here, where {asked:g} was asked for"
    return ""
