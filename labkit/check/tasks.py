"""Make tasks for a norm and a block: a few cases that a page can check without torch.

The laws of a check need torch. A page has the cases below, with labkit's own results and with the
results of each known mistake.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

import labkit.norms
from labkit.check.block_mistakes import list_changes
from labkit.check.block_subject import NORMS, SUBLAYERS, FunctionSubject
from labkit.check.calls import agree, call, mark
from labkit.check.case import Case
from labkit.check.function import NAMES, write, write_result
from labkit.check.mistakes import known_mistakes
from labkit.check.specs import Norm

RTOL = 1e-4
NOTE = "On these cases. In JupyterLab the check holds its laws, with more inputs and gradients."
IMPOSSIBLE = (  # errors of a mistake on unsuitable inputs
    RuntimeError, ValueError, ArithmeticError, TypeError, AttributeError, IndexError, KeyError,
)  # fmt: skip
WITH_STATISTICS = (
    "lambda f, x, mean, var, **more: "
    '{"output": f(x, mean, var, **more), "running mean": mean, "running variance": var}'
)
Marks = dict[str, list[float]]  # mistake: what it would return, case by case


def make_task(
    function: Callable[..., Any], cases: list[dict[str, Any]], slips: Marks, look: str = ""
) -> dict[str, Any]:
    """Assemble a task."""
    return {
        "kind": "code", "name": "", "functions": [function.__name__], "cases": cases,
        "look": look, "rtol": RTOL, "hint": "", "slips": list(slips.items()), "note": NOTE,
    }  # fmt: skip


def is_named(given: Any) -> bool:
    """Return whether this is a function with its own name."""
    return inspect.isfunction(given) and given.__name__.isidentifier()


# --- norms ---


def make_norm_task(norm: Norm, given: Any) -> dict[str, Any] | None:
    """Make the task for a norm; None unless a function of the norm's arguments was submitted."""
    right = getattr(labkit.norms, norm.name, None)
    if right is None or not is_named(given):
        return None
    takes = inspect.signature(given).parameters
    needs = [name for name, p in list(takes.items())[1:] if p.default is p.empty]
    if set(needs) - set(norm.roles):
        return None
    look = WITH_STATISTICS if norm.runs else ""
    cases, results, drawn = [], [], list(_draw_norm_cases(norm, takes))
    for label, values in drawn:
        text = ", ".join(
            write(value) if role == "x" or role in needs else f"{role}={write(value)}"
            for role, value in values.items()
        )
        result = call(right, text, look, NAMES)
        results.append(result)
        wanted = write_result(result)
        cases.append({"function": given.__name__, "label": label, "given": text, "wanted": wanted})
    slips: Marks = {}
    for cause, formula in known_mistakes(norm.formula, "bias" in norm.learned):
        try:
            came = [
                _put_output(result, formula(values["x"], _name_settings(norm, values)))
                for (_, values), result in zip(drawn, results, strict=True)
            ]
        except IMPOSSIBLE:
            continue
        _add_slip(slips, cause, [mark(each) for each in came], [mark(each) for each in results])
    return make_task(given, cases, slips, look)


def _draw_norm_cases(norm: Norm, takes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Draw inputs, parameters and settings, as far as the function accepts them."""
    draw = torch.Generator().manual_seed(0)

    def numbers(*shape: int, around: float = 0.0) -> Tensor:
        made = torch.randn(shape, generator=draw, dtype=torch.float64) + around
        return made.round(decimals=2)

    def keep(**values: Any) -> dict[str, Any]:
        return {role: value for role, value in values.items() if role == "x" or role in takes}

    if norm.runs:
        for label, shape, training in (
            ("in evaluation", (3, 2), False),
            ("in training", (4, 2), True),
            ("in training, with a third axis", (2, 2, 3), True),
        ):
            state = {"running_mean": numbers(2), "running_var": numbers(2).abs() + 0.5}
            x = 2 * numbers(*shape, around=0.5)
            yield label, keep(x=x, **state, training=training, momentum=0.25)
        return
    x = 2 * numbers(2, 4, around=0.5)
    learned = {
        role: numbers(*((4,) if each.each else ()), around=each.centre)
        for role, each in norm.learned.items()
    }
    learned = {role: v if v.ndim else v.item() for role, v in learned.items()}
    yield "plain", keep(x=x)
    if kept := keep(x=x, **learned):
        yield f"with {', '.join(list(kept)[1:])}", kept
    if "eps" in norm.settings and "eps" in takes:
        yield "eps = 0.5", keep(x=numbers(2, 1, 4), eps=0.5)


def _name_settings(norm: Norm, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a formula other than x, by name."""
    given = {role: default[0] for role, default in norm.settings.items()} | dict(values)
    if norm.runs and not values.get("training"):
        given["running"] = (values["running_mean"], values["running_var"])
    return given


def _put_output(result: Any, output: Tensor) -> Any:
    return {**result, "output": output} if isinstance(result, Mapping) else output


def _add_slip(slips: Marks, cause: str, marks: list[float], right: list[float]) -> None:
    """Add a mistake that differs from the right result and from earlier mistakes."""
    marks = [float(f"{one:.7g}") for one in marks]
    if cause not in slips and not agree(marks, right, 1e-3) and marks not in slips.values():
        slips[cause] = marks


# --- blocks ---


def make_block_task(given: Any, subjects: list[FunctionSubject]) -> dict[str, Any] | None:
    """Make the task for a step or a block of functions, with one case for each subject.

    None if it needs an argument without source text, such as a gate, or is on a sphere, or has a
    second stream or scores.
    """
    row = subjects[0].row
    if not is_named(given) or row.sphere or row.second_stream or row.chain:
        return None
    cases: list[dict[str, Any]] = []
    right: list[float] = []
    found: Marks = {}
    for number, subject in enumerate(subjects):
        case = subject.draw_case("", batch=1, time=3)
        case = Case(case.x.round(decimals=2), "", case.given)
        text = _write_arguments(subject, case)
        if text is None:
            return None
        with torch.no_grad():
            truth = subject.find_truth(case)[""]
            label = f"{subject.depth} blocks" if len(subjects) > 1 else ""
            cases.append(
                {
                    "function": given.__name__,
                    "label": label,
                    "given": text,
                    "wanted": write_result(truth),
                }
            )
            right.append(mark(truth))
            for cause, steps in list_changes(subject):
                try:
                    came = mark(subject.find_truth(case, steps)[""])
                except IMPOSSIBLE:
                    continue
                marks = found.setdefault(cause, [])
                if len(marks) == number:  # the first of this name
                    marks.append(came)
    slips: Marks = {}
    for cause, marks in found.items():
        if len(marks) == len(subjects):
            _add_slip(slips, cause, marks, right)
    return make_task(given, cases, slips)


def _write_arguments(subject: FunctionSubject, case: Case) -> str | None:
    """Return the arguments of a call as source."""
    parts = [write(case.x), *(write(SUBLAYERS[side]) for side in subject.sides)]
    if len(subject.sides) > 1:
        return ", ".join([*parts, *map(write, NORMS[: len(subject.norms)])])
    offered = subject.offer_arguments(subject.make_context(case))
    offered |= {"norm": NORMS[0], "norm_out": NORMS[1]}
    for p in list(inspect.signature(subject.given).parameters.values())[2:]:
        value = offered.get(p.name)
        if value is not None and not callable(value):
            text = write(value.detach() if isinstance(value, Tensor) else value)
            parts.append(f"{p.name}={text}")
        elif p.default is p.empty:
            return None
    return ", ".join(parts)
