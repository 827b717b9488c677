"""The laws of norms: values, parameters and settings, shapes, edge cases, behaviour.

Each law takes an Exam and its own random generator, and raises Broken when it does not hold. Most
laws draw inputs and compare the results with the formula; mistakes.py explains failures. Precision
and gradients have their own files.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Generator

from labkit.check.case import Broken, Case, Untested, describe, same_layout_copy
from labkit.check.exam import Exam
from labkit.check.mistakes import USUAL, Explanation, list_places
from labkit.check.precision import list_eps_of_the_dtype

Law = Callable[[Exam, Generator], None]

# Requested values. With an eps of 1e-12, numbers near 1e-6 are where it matters.
_ASKED = {
    "eps": (1e-12, 1e-8, 1e-5, 1e-3, 1.0),
    "p": (0.05, 0.125, 0.3, 0.5, 0.99, 1.0),
    "bound": (0.5, 2.0, 30.0),
}
CANCELS = (
    "a difference of two numbers near 1 (2σ(2u) − 1, 1 − erfc u, a quotient of exponentials) "
    "cancels near 0: torch.tanh and torch.erf keep the digits"
)


def hold_value(exam: Exam, draw: Generator) -> None:
    """Require the formula's results on ordinary numbers, without gain and shift."""
    exam.compare([exam.draw_case(draw), exam.draw_case(draw, scale=3.0, offset=1.0)])


def hold_inputs_kept(exam: Exam, draw: Generator) -> None:
    """Require that x, the parameters and the module's other tensors are not modified."""
    names = {role: learned.name for role, learned in exam.norm.learned.items()}
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        case = exam.draw_case(draw, learned=exam.learned, dtype=dtype)
        runner, x = exam.open_runner(case), same_layout_copy(case.x)
        before = [(n, t, t.detach().clone()) for n, t in {"x": x, **runner.state()}.items()]
        with torch.no_grad():
            exam.call(runner, x, case)
        for name, tensor, copy in before:
            if not torch.equal(tensor, copy):
                raise Broken(
                    f"a norm must not change its arguments, but on {case} {names.get(name, name)} "
                    "was overwritten",
                    "an in-place operation (-=, *=, mul_, copy_) on an argument or a view of it",
                )


def hold_repeatable(exam: Exam, draw: Generator) -> None:
    """Require the same result for the same input, in training and in evaluation."""
    case = exam.draw_case(draw, learned=exam.learned)
    runner = exam.open_runner(case)
    first = exam.run(case, runner)
    kept = first.clone()
    # A different x in between reveals a reused or cached result.
    exam.run(replace(case, x=2 * case.x.flip(-1) - 1), runner)
    if not torch.equal(first, kept):
        raise Broken(
            describe(case, first, kept, ", after a call with another x"),
            "the result lies in memory that the next call uses again",
        )
    for training in (True,) if exam.norm.pools_batch else (True, False):
        again = exam.run(case, runner, training=training)
        if not torch.allclose(kept, again, rtol=1e-5, atol=1e-5):
            raise Broken(
                describe(case, again, kept, ", called a second time"),
                "something random or remembered takes part: dropout, running statistics, "
                "parameters changed in place",
            )


# --- parameters ---


def make_parameter_law(role: str) -> Law:
    """Make the law that one learnable parameter acts as in the formula."""

    def law(exam: Exam, draw: Generator) -> None:
        """Require that the parameter acts as in the formula."""
        if role in exam.subject.missing:
            raise Broken(*exam.subject.missing[role])
        if role not in exam.learned:
            raise Untested()
        one = exam.norm.learned[role]
        shapes = (exam.shapes[0], *_with_squares(exam))
        cases = [exam.draw_case(draw, s, f"with {one.name}", learned=(role,)) for s in shapes]
        # The same x twice: a result cached with the first parameter is detected with the second.
        cases[1] = replace(cases[1], x=cases[0].x)
        if not one.each:
            cases[0] = cases[0].but(**{role: -cases[0].given[role].abs()})
            cases[1] = cases[1].but(**{role: cases[1].given[role].abs() + 0.5})
        exam.compare(cases)

    return law


def _with_squares(exam: Exam) -> list[tuple[int, ...]]:
    """Add square shapes, on which parameters on the wrong axis broadcast without an error."""
    d = exam.dim
    channels = exam.norm.formula.features == 1
    square = [(d, d), (2, d, d), (2, d, 1, d)] if 1 < d <= 64 and channels else []
    axes = {len(shape) for shape in exam.shapes}
    return [*exam.shapes, *(s for s in square if len(s) in axes)]


# --- settings: the place of eps, the requested value, the default ---


def make_setting_law(role: str) -> Law:
    """Make the law that a requested setting is used."""

    def law(exam: Exam, draw: Generator) -> None:
        cases: list[Case] = []
        for asked in _asked_values(exam, role):
            usual = role == "eps" and asked == exam.usual.get(role)
            for shape in exam.shapes[: 2 if usual else 1]:
                cases += _draw_telling_inputs(exam, draw, role, asked, shape)
        if role == "p" and exam.subject.dim is None:
            cases += [
                exam.draw_case(draw, (4, size), f"{size} features") for size in (11, 24, 31, 40)
            ]
        try:
            exam.compare(cases, 1e-4, 1e-4)
        except Broken:
            exam.failed.add(role)
            raise

    law.__doc__ = f"Require that the requested {role} is used where the formula has it."
    return law


def make_default_law(role: str) -> Law:
    """Make the law that the documented default is used when no value is passed."""

    def law(exam: Exam, draw: Generator) -> None:
        if role not in exam.subject.sets or role in exam.subject.given:
            raise Untested()
        about = f"{role} not passed" + (", numbers so small that it matters" * (role == "eps"))
        documented = exam.subject.expected(role, None, torch.float32)
        size = exam.find_eps_size(asked=documented) or 1e-3
        # At two sizes, because at one size a different eps in a different place could fit.
        scales = (size, size / 3) if role == "eps" else (1.0, 0.1)
        cases = [exam.draw_case(draw, about=about, scale=s).but(**{role: None}) for s in scales]
        if role == "p" and exam.subject.dim is None:  # else many p are equivalent
            wide = [exam.draw_case(draw, (2, size), about) for size in (1030, 4099)]
            cases += [case.but(p=None) for case in wide]
        formula = exam.norm.formula

        def judge(cases: list[Case], rtol: float, wrong: list[Explanation]) -> None:
            actual = [exam.run(case) for case in cases]
            for other in exam.norm.settings[role][1:]:
                fixed = replace(formula, fixed=((role, other),))
                pairs = zip(actual, (exam.find_truth(case, fixed) for case in cases), strict=True)
                if all(torch.allclose(y.double(), truth, rtol, rtol) for y, truth in pairs):
                    return
            exam.judge(cases, actual, rtol, rtol, settings=wrong)

        settings = []
        for at, used in product(list_places(formula, role), USUAL[role]):
            where = "" if at == formula.eps_at else " and stands outside the root"
            told = f"the default {role} is {used:g}{where}, documented is {documented:g}"
            settings.append((told, replace(formula, eps_at=at, fixed=((role, used),))))
        judge(cases, 1e-4, settings)
        if role == "eps" and exam.norm.rounds != "statistics too":
            half = exam.draw_case(draw, about=about, scale=size, dtype=torch.bfloat16)
            wrong = list_eps_of_the_dtype(exam, torch.bfloat16)
            judge([half.but(eps=None)], 0.02, wrong)

    law.__doc__ = f"Require the documented default of {role}; a class documents its own."
    return law


def _asked_values(exam: Exam, role: str) -> list[float | None]:
    """List the values to request: None if no value can be passed."""
    if role not in exam.subject.sets:
        return [None]
    return [*sorted({*_ASKED[role], exam.usual[role]})]


def _draw_telling_inputs(
    exam: Exam, draw: Generator, role: str, asked: float | None, shape: tuple[int, ...]
) -> Iterator[Case]:
    """Draw inputs on which the requested value has a visible effect."""
    if role != "eps":
        yield exam.draw_case(draw, shape, f"another {role}", scale=3.0).but(**{role: asked})
        return
    eps = exam.subject.expected("eps", asked, torch.float32)
    # No law covers a mean square that underflows in float32.
    size = max(exam.find_eps_size(asked=eps), 1e-12)
    scales = [
        (size, "numbers so small that eps matters"),
        (size / 8, "numbers so small that eps matters"),
    ]
    if exam.norm.formula.eps_at == "floor of the root":
        scales.append((3 * size, "just above where eps is the floor"))
    for scale, about in scales:
        yield exam.draw_case(draw, shape, about, scale=scale).but(eps=asked)


# --- inputs of every kind ---


def hold_shapes(exam: Exam, draw: Generator) -> None:
    """Require the formula's results for every number of axes, and for other sizes if allowed."""
    cases = [exam.draw_case(draw, s, f"{len(s)} axes") for s in exam.shapes[1:]]
    if exam.subject.dim is None:
        for size in exam.norm.sizes:
            cases.append(exam.draw_case(draw, (4, size), f"{size} features", scale=30.0))
    if exam.subject.groups is None and "num_groups" in exam.norm.roles:
        for groups in (1, 2, exam.dim):
            case = exam.draw_case(draw, (2, exam.dim, 3), f"{groups} groups")
            cases.append(case.but(num_groups=groups))
        if any(len(s) == 2 for s in exam.shapes):
            one = exam.draw_case(draw, (3, exam.dim), f"each of {exam.dim} channels a group")
            cases.append(one.but(num_groups=exam.dim))
    for case in cases:
        # One by one: the mistake may affect one shape only.
        exam.compare([case], cause="this shape is treated in another way than the plain one")


def hold_small_arguments(exam: Exam, draw: Generator) -> None:
    """Require four correct digits for inputs from 10⁻⁹ to 0.1, if nothing is added to them."""
    if not exam.norm.formula.f:
        raise Untested()
    roles = tuple(role for role in exam.learned if role not in ("bias", "shift"))
    for learned in ((), roles):
        case = exam.draw_case(draw, about="numbers from 10⁻⁹ to 0.1", learned=learned)
        power = 8.0 * torch.rand(case.x.shape, generator=draw) - 9.0
        case = replace(case, x=case.x.sign() * 10.0**power)
        y, expected = exam.run(case).double(), exam.find_truth(case)
        off = ~((y - expected).abs() <= 1e-4 * expected.abs() + 1e-30)
        if off.any():
            where = tuple(off.nonzero()[0].tolist())
            raise Broken(
                f"on {case} the value at position {where} is {y[where].item():.6g}, expected "
                f"{expected[where].item():.6g}",
                exam.offer_cause(CANCELS, case),
            )
