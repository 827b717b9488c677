"""The laws that norms obey: values, parameters and settings, shapes, edge cases, behaviour.

Each law takes an Exam and its own random stream, and raises Broken when it does not hold. Most draw
inputs and compare what comes with the formula; what a failure means is decided elsewhere
(mistakes.py). Precision and gradients have files of their own.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Generator, Tensor

from labkit.check.case import Broken, Case, Untested, describe, same_layout_copy
from labkit.check.exam import Exam
from labkit.check.mistakes import USUAL
from labkit.check.subject import names_of

Law = Callable[[Exam, Generator], None]

# Values to ask for. With an eps of 1e-12, numbers near 1e-6 are where it matters.
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
    """Match the formula on ordinary numbers, without gain and shift."""
    exam.compare([exam.draw_case(draw), exam.draw_case(draw, scale=3.0, offset=1.0)])


def hold_parameters_known(exam: Exam, draw: Generator) -> None:
    """Have no parameter beside those of the norm."""
    if not exam.subject.unknown:
        raise Untested()
    names = "; ".join(
        f"{one.name}: {', '.join(dict.fromkeys(names_of(role, exam.norm)))}"
        for role, one in exam.norm.learned.items()
    )
    raise Broken(
        f"what the parameter {exam.subject.unknown[0]} does is not known, so it was not tested; "
        f"known are {names}",
    )


def hold_inputs_kept(exam: Exam, draw: Generator) -> None:
    """Leave x, the parameters and the module's other tensors as they were."""
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
                    f"on {case} {names.get(name, name)} was overwritten",
                    "an in-place operation (-=, *=, mul_, copy_) on an argument or a view of it",
                )


def hold_repeatable(exam: Exam, draw: Generator) -> None:
    """Give the same result for the same input, in training and evaluation alike."""
    case = exam.draw_case(draw, learned=exam.learned)
    runner = exam.open_runner(case)
    first = exam.run(case, runner)
    kept = first.clone()
    # Another x in between: what is handed out again, or remembered, shows.
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


# --- invariances: an implementation may keep them and be another norm ---


def hold_standardized(exam: Exam, draw: Generator) -> None:
    """Give every unit the mean and the mean square of the formula, far above eps."""
    root, name = max(1.0, exam.find_eps_size()), exam.norm.unit_name
    # Far above eps, or the mean square would be below 1 as it should.
    case = exam.draw_case(draw, scale=30 * root, offset=2 * root)
    unit = exam.norm.unit(case.x, exam.groups)
    values, expected = exam.run(case).double()[unit], exam.find_truth(case)[unit]
    mean, square = values.mean().item(), values.square().mean().item()
    wanted, n = expected.square().mean().item(), values.numel()
    room = 1e-4 * max(1.0, wanted)
    if exam.norm.centred and not abs(mean - expected.mean().item()) < room:
        raise Broken(f"on {case} the first {name} of the result has mean {mean:.4g}, not 0")
    if not abs(square - wanted) < room:
        other = f"the divisor of the mean of squares is {n - 1} instead of {n}"
        raise Broken(
            f"on {case} the squares in the first {name} of the result have mean {square:.4g}, "
            f"expected {wanted:.4g}",
            other if n > 1 and abs(square - wanted * (n - 1) / n) < room else "",
        )


def hold_scale_invariance(exam: Exam, draw: Generator) -> None:
    """Forget the size of the input and keep its sign: f(c·x) = sign(c)·f(x)."""
    case = _far_above_eps(exam, draw)
    y = exam.run(case)
    for factor in (7.5, -2.0):
        scaled, wanted = exam.run(replace(case, x=case.x * factor)), y * (1 if factor > 0 else -1)
        if not torch.allclose(scaled, wanted, rtol=1e-3, atol=1e-3):
            raise Broken(
                describe(case, scaled, wanted, f" multiplied by {factor}")
                + ": the size of x must not matter far above eps, its sign must"
            )


def hold_shift_invariance(exam: Exam, draw: Generator) -> None:
    """Forget a constant that is added to all values that share statistics."""
    case = _far_above_eps(exam, draw)
    y, moved = exam.run(case), exam.run(replace(case, x=case.x + 3.0 * case.x.abs().max()))
    if not torch.allclose(moved, y, rtol=2e-3, atol=2e-3):
        raise Broken(
            describe(case, moved, y, ", a constant added to all of it")
            + ": a constant must be subtracted away with the mean"
        )


def _far_above_eps(exam: Exam, draw: Generator) -> Case:
    return exam.draw_case(draw, about="far above eps", scale=100 * max(1.0, exam.find_eps_size()))


def hold_batch_coupling(exam: Exam, draw: Generator) -> None:
    """Let every sample's result depend on the other samples of the batch."""
    case = exam.draw_case(draw, about="another first sample in the batch")
    x = case.x.clone()
    x[0] = 4 - 3 * x[0]
    before, after = exam.run(case).clone(), exam.run(replace(case, x=x))
    if torch.allclose(before[1:], after[1:], rtol=1e-4, atol=1e-4):
        message = f"on {case} the other samples' results stayed the same: the batch is not shared"
        try:
            exam.judge([case], [before], 1e-3, 1e-3)
        except Broken as broken:
            raise Broken(message, broken.cause) from None
        raise Broken(message)


def hold_independence(exam: Exam, draw: Generator) -> None:
    """Keep each unit's result when another unit changes."""
    name, apart = exam.norm.unit_name, 0
    for shape in exam.shapes[:3]:
        case = exam.draw_case(draw, shape, about=f"one {name} changed")
        unit = exam.norm.unit(case.x, exam.groups)
        # One unit alone has no neighbour.
        if unit.all():
            continue
        apart += 1
        changed = replace(case, x=torch.where(unit, 5 * case.x.flip(-1) + 3, case.x))
        still, now = (exam.run(c).masked_fill(unit, 0.0) for c in (case, changed))
        if not torch.allclose(still, now, rtol=1e-5, atol=1e-5):
            cause = next(
                (sentence for sentence, _ in exam.found if "statistics run" in sentence), ""
            )
            raise Broken(
                describe(case, now, still) + f": a {name} must not depend on the other {name}s",
                cause or f"statistics are shared between {name}s",
            )
    if not apart:
        raise Untested()


# --- parameters ---


def make_parameter_law(role: str) -> Law:
    """Make the law that one learnable parameter acts as in the formula."""

    def law(exam: Exam, draw: Generator) -> None:
        """Use the parameter as in the formula."""
        _need_roles(exam, role)
        one = exam.norm.learned[role]
        shapes = (exam.shapes[0], *_with_squares(exam))
        cases = [exam.draw_case(draw, s, f"with {one.name}", learned=(role,)) for s in shapes]
        # The same x twice: what was remembered with the first parameter shows with the second.
        cases[1] = replace(cases[1], x=cases[0].x)
        if not one.each:
            cases[0] = cases[0].but(**{role: -cases[0].given[role].abs()})
            cases[1] = cases[1].but(**{role: cases[1].given[role].abs() + 0.5})
        exam.compare(cases)

    return law


def hold_every_parameter(exam: Exam, draw: Generator) -> None:
    """Match the formula with all parameters at once, in the right order."""
    _need_roles(exam, *exam.norm.learned)
    names = " and ".join(exam.norm.learned[role].name.split()[-1] for role in exam.learned)
    about = f"with {names}"
    exam.compare(
        [exam.draw_case(draw, s, about, learned=exam.learned) for s in _with_squares(exam)]
    )


def _need_roles(exam: Exam, *roles: str) -> None:
    for role in roles:
        if role in exam.subject.missing:
            raise Broken(*exam.subject.missing[role])
    if any(role not in exam.learned for role in roles):
        raise Untested()


def _with_squares(exam: Exam) -> list[tuple[int, ...]]:
    """Add shapes on which parameters on the wrong axis would go unnoticed by broadcasting."""
    d = exam.dim
    channels = exam.norm.formula.features == 1
    square = [(d, d), (2, d, d), (2, d, 1, d)] if 1 < d <= 64 and channels else []
    axes = {len(shape) for shape in exam.shapes}
    return [*exam.shapes, *(s for s in square if len(s) in axes)]


# --- settings: where eps stands, which value is used, what the default is ---


def make_setting_law(role: str) -> Law:
    """Make the law that a setting which is asked for is the one that is used."""

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

    law.__doc__ = f"Use the {role} that was asked for, where the formula has it."
    return law


def make_default_law(role: str) -> Law:
    """Make the law that the documented value is used when none is passed."""

    def law(exam: Exam, draw: Generator) -> None:
        if role not in exam.subject.sets or role in exam.subject.given:
            raise Untested()
        about = f"{role} not passed" + (", numbers so small that it matters" * (role == "eps"))
        size = exam.find_eps_size()
        # At two sizes, since one alone could be met by another eps and another place of it.
        scales = (size, size / 3) if role == "eps" else (1.0, 0.1)
        cases = [exam.draw_case(draw, about=about, scale=s).but(**{role: None}) for s in scales]
        if role == "p" and exam.subject.dim is None:  # on few features many shares are the same
            wide = [exam.draw_case(draw, (2, size), about) for size in (1030, 4099)]
            cases += [case.but(p=None) for case in wide]
        actual = [exam.run(case) for case in cases]
        documented, *also = exam.norm.settings[role]
        formula = exam.norm.formula
        for other in also:
            fixed = replace(formula, fixed=((role, other),))
            pairs = zip(actual, (exam.find_truth(case, fixed) for case in cases), strict=True)
            if all(torch.allclose(y.double(), truth, 1e-4, 1e-4) for y, truth in pairs):
                return
        settings = [
            (
                f"the default {role} is {used:g}, documented is {documented:g}",
                replace(formula, fixed=((role, used),)),
            )
            for used in USUAL[role]
        ]
        if role == "eps" and formula.eps_at == "inside":
            for used in USUAL[role]:
                told = f"the default eps is {used:g} and stands outside the root; documented is "
                told += f"{documented:g} inside it"
                settings.append((told, replace(formula, eps_at="outside", fixed=((role, used),))))
        exam.judge(cases, actual, 1e-4, 1e-4, settings=settings)

    law.__doc__ = f"Use the documented {role} when none is passed."
    return law


def _asked_values(exam: Exam, role: str) -> list[float | None]:
    """List the values to ask for: None where none can be."""
    if role not in exam.subject.sets:
        return [None]
    return [*sorted({*_ASKED[role], exam.usual[role]})]


def _draw_telling_inputs(
    exam: Exam, draw: Generator, role: str, asked: float | None, shape: tuple[int, ...]
) -> Iterator[Case]:
    """Draw inputs on which the value that was asked for shows."""
    if role != "eps":
        yield exam.draw_case(draw, shape, f"another {role}", scale=3.0).but(**{role: asked})
        return
    eps = exam.subject.expected("eps", asked, torch.float32)
    # A mean square that underflows in float32 is no law's concern.
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
    """Match the formula for every number of axes, and for other sizes where they are free."""
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
    for case in (*cases, exam.draw_large(draw), exam.draw_large(draw, torch.float64)):
        # One by one: the mistake may show on one shape only.
        exam.compare([case], cause="this shape is treated in another way than the plain one")


def hold_without_autograd(exam: Exam, draw: Generator) -> None:
    """Match the formula in training and evaluation, with gradients off, for every eps."""
    cases = [exam.draw_case(draw, s, "no gradients", learned=exam.learned) for s in exam.shapes[:3]]
    if "eps" in exam.norm.settings:
        for asked in _asked_values(exam, "eps"):
            cases += _draw_telling_inputs(exam, draw, "eps", asked, exam.shapes[0])
    for training in (True,) if exam.subject.has_running else (True, False):
        for about, off, some in (
            ("under torch.no_grad()", torch.no_grad, cases),
            ("under torch.inference_mode()", torch.inference_mode, cases[:3]),
        ):
            mode = about + ("" if training else ", in evaluation")
            told = [replace(case, about=f"{case.about}, {mode}") for case in some]
            with off():
                actual = [exam.run(case, training=training).clone() for case in told]
            actual = [y.detach() for y in actual]

            def again(case: Case, off=off, training=training) -> Tensor:
                with off():
                    return exam.run(case, training=training).clone()

            cause = f"the value is another one {mode}"
            exam.judge(told, actual, 1e-4, 1e-4, cause, again=again)


def hold_views(exam: Exam, draw: Generator) -> None:
    """Take views: transposed, sliced with a step, expanded."""
    for shape in (s for s in exam.shapes if len(s) > 1):
        views = {
            "a transposed view": transpose_all(exam.draw_case(draw, shape[::-1]).x),
            "every second column": exam.draw_case(draw, (*shape[:-1], 2 * shape[-1])).x[..., ::2],
        }
        if not exam.norm.pools_batch:
            views["an expanded view"] = exam.draw_case(draw, (1, *shape[1:])).x.expand(shape)
        for about, x in views.items():
            plain = exam.draw_case(draw, shape, about, learned=exam.learned)
            # The steps between values in memory are passed on with their own digits.
            exam.compare([replace(plain, x=x)], cause="the memory is read as if it were contiguous")


def transpose_all(x: Tensor) -> Tensor:
    """View a tensor with its axes reversed."""
    return x.permute(*range(x.ndim - 1, -1, -1))


def hold_constant(exam: Exam, draw: Generator) -> None:
    """Stay finite and right where all values are equal, and where all are zero."""
    eps = exam.find_setting("eps")
    root = eps if exam.norm.formula.eps_at == "outside" else eps**0.5
    for level in (2.5, 0.0):
        about = f"all values of one {exam.norm.unit_name} are {level:g}"
        case = exam.draw_case(draw, about=about, learned=exam.learned)
        case = replace(case, x=torch.where(exam.norm.unit(case.x, exam.groups), level, case.x))
        # A mean that is wrong in its last place comes out divided by the root of eps.
        atol = 1e-4 + (1e-6 * level / root if exam.norm.centred else 0.0)
        y = exam.run(case)
        cause = "" if y.isfinite().all() else "0 divided by 0: eps must keep it from that"
        exam.judge([case], [y], 1e-4, atol, cause)


def hold_outliers(exam: Exam, draw: Generator) -> None:
    """Keep what is far out: one huge value among many, and a large gain."""
    free = exam.subject.dim is None and exam.norm.formula.features == -1
    axes = len(exam.shapes[0])
    long = exam.norm.long_shape(exam.dim, axes) if axes > 1 else exam.shapes[0]
    for shape in [*([(2, 2048)] if free else []), long]:
        for dtype in (torch.float32, torch.float64):
            case = exam.draw_case(
                draw, shape, "one value is 10⁶, a large gain", learned=exam.learned, dtype=dtype
            )
            if "weight" in case.given:
                case = case.but(weight=1e3 * case.given["weight"])
            case.x.view(-1)[3 % case.x.numel()] = 1e6
            exam.compare([case], 1e-4, 1e-4, "large results are cut off (clamp)")


def hold_small_arguments(exam: Exam, draw: Generator) -> None:
    """Keep four digits of small numbers, where nothing is added to them: 10⁻⁹ to 0.1."""
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
                f"on {case}, at position {where} came {y[where].item():.6g}, "
                f"expected {expected[where].item():.6g}",
                exam.offer_cause(CANCELS, case),
            )


def hold_containment(exam: Exam, draw: Generator) -> None:
    """Keep a NaN or an infinity inside its own unit, and do not hide it."""
    name = exam.norm.unit_name
    for shape in exam.shapes[:3]:
        plain = exam.draw_case(draw, shape, learned=exam.learned)
        unit = exam.norm.unit(plain.x, exam.groups)
        first = tuple(unit.nonzero()[0].tolist())
        for bad in (float("nan"), float("inf")):
            x = plain.x.clone()
            x[first] = bad
            case = replace(plain, x=x, about=f"one value is {bad}")
            y = exam.run(case)
            # A squash takes infinity to its bound: there the formula says what must come.
            if y[unit].isfinite().all() and not exam.find_truth(case)[unit].isfinite().all():
                raise Broken(
                    f"on {case} the {name} that holds it came out finite: a fault is hidden"
                )
            if not y[~unit].isfinite().all():
                raise Broken(
                    f"on {case} values outside that {name} came out NaN or infinite",
                    exam.offer_cause(
                        f"a multiplication by 0, or statistics shared by {name}s", case
                    ),
                )
