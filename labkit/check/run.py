"""Hold an implementation against the laws of a norm, in bounded time, and write the report."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from labkit.check import gradients, laws, precision, running, sequences
from labkit.check.case import Broken, Untested
from labkit.check.exam import Exam
from labkit.check.guard import run_all, untouched_world
from labkit.check.laws import Law as Check
from labkit.check.report import Law, Report
from labkit.check.specs import Norm
from labkit.check.subject import is_module, makes_modules, read_subject

SECONDS_EACH, SECONDS_TOTAL = 8.0, 40.0

Implementation = Callable[..., Any] | nn.Module | type[nn.Module]

_EPS_LAW = {
    "inside": "eps inside the root",
    "outside": "eps outside the root",
    "floor of the root": "eps is the least length",
}


def laws_of(norm: Norm) -> dict[str, Check]:
    """List the laws of a norm in the order of the report: what explains most comes first."""
    formula = norm.formula
    listed: dict[str, Check] = {
        "value": laws.value,
        "parameters known": laws.parameters_known,
        "inputs kept": laws.inputs_kept,
        "same result twice": laws.repeatable,
    }
    scale_free = bool(formula.pool) and not formula.f and not formula.skip
    if scale_free and formula.part == "all":
        name = "mean 0 and mean square 1" if norm.centred else "mean square"
        listed[name] = laws.standardized
    for role in norm.settings:
        listed[_EPS_LAW[formula.eps_at] if role == "eps" else role] = laws.setting(role)
        listed[f"default {role}"] = laws.default(role)
    for role, learned in norm.learned.items():
        listed[learned.law] = laws.parameter(role)
    if len(norm.learned) > 1:
        short = [learned.law for learned in norm.learned.values()]
        name = f"{short[0]} first, then {short[1]}" if len(short) == 2 else "all parameters"
        listed[name] = laws.every_parameter
    listed["shapes"] = laws.shapes
    listed["without autograd"] = laws.without_autograd
    if scale_free:
        listed["blind to scale"] = laws.scale_invariance
        if norm.centred:
            listed["blind to a constant"] = laws.shift_invariance
    if norm.pools_batch:
        listed["batch shared"] = laws.batch_coupling
        listed["padding left out"] = running.padding
    if norm.runs:
        listed["training uses the batch"] = running.training_uses_batch
        listed["running statistics"] = running.running_update
        listed["evaluation uses running statistics"] = running.evaluation_uses_running
    for role in ("x", *norm.learned):
        name = "x" if role == "x" else norm.learned[role].name
        listed[f"gradient of {name}"] = gradients.gradient_of(role)
    if formula.pool:
        listed["large offset"] = precision.large_offset
        listed["constant values"] = laws.constant
        listed["gradient of constant values"] = gradients.constant_gradient
    return {
        **listed,
        "outliers": laws.outliers,
        "digits of small numbers": laws.small_arguments,
        "all magnitudes": precision.magnitudes,
        "half precision": precision.half_precision,
        "rounding order": precision.rounding_order,
        "float32 gain": precision.wide_gain,
        "dtype kept": precision.dtype_kept,
        "float64 kept": precision.float64_kept,
        "views": laws.strides,
        "neighbours apart": laws.independence,
        "NaN and infinity contained": laws.containment,
    }


def hold(
    norm: Norm,
    handed: Implementation,
    settings: Mapping[str, float | None],
    seed: int,
    variant: str | None = None,
) -> Report:
    """Try all laws on what was handed in."""
    title = f"check.{norm.name}"
    if handed is None or handed is ...:
        return Report(title, (Law("answered", False, "", "not answered yet"),))
    if not callable(handed):
        message = f"a function or a module is wanted, got {type(handed).__name__}"
        return Report(title, (Law("callable", False, "", message),))
    given = {role: _valid(role, value) for role, value in settings.items() if value is not None}
    exam: list[Exam] = []  # made under the time limit, like everything that calls foreign code

    def prepare() -> Law | None:
        try:
            if said := _refuse(handed, norm):
                return Law("prepared", False, "", said)
            exam.append(Exam(read_subject(handed, norm, given), seed, variant))
        except Exception as error:
            message = f"it could not be prepared: {type(error).__name__}: {error}"
            return Law("prepared", False, "", message)
        return None

    def job(name: str, law: Check) -> Callable[[], Law | None]:
        return lambda: _try(name, law, exam[0]) if exam else None

    named = laws_of(norm)
    # Some norms are another thing as a module than as a function.
    if norm.name == "power_norm" and is_module(handed):
        named = sequences.POWER_LAWS
    if norm.name == "prep_batch_norm":
        named = sequences.PROGRESSIVE_LAWS
    jobs = [prepare, *(job(name, law) for name, law in named.items())]
    with untouched_world():
        done = run_all(jobs, SECONDS_EACH, SECONDS_TOTAL)
    held = [law for law in done if law is not None]
    if len(done) < len(jobs):
        name, left = ["prepared", *named][len(done)], len(jobs) - len(done) - 1
        message = f"no result within {SECONDS_EACH:g} seconds on a small input; stopped"
        message += f", {left} further laws were not tried" if left else ""
        held.append(Law(name, False, "a loop that does not end, or a wait", message))
    return Report(title, tuple(held), _notes(exam[0]) if exam else ())


def _try(name: str, law: Check, exam: Exam) -> Law | None:
    """Try one law; None where it does not apply."""
    try:
        law(exam, exam.generator(name))
    except Untested:
        return None
    except Broken as broken:
        exam.failed.add(name)
        return Law(name, False, broken.cause, broken.message)
    except Exception as error:  # an outcome that no law foresaw is wrong, and no crash of ours
        exam.failed.add(name)
        return Law(name, False, "", f"{type(error).__name__}: {error}")
    return Law(name, True, "", (law.__doc__ or "").strip())


def _refuse(handed: Implementation, norm: Norm) -> str:
    """Say why something is not tried at all."""
    if makes_modules(handed, norm.dim):
        return "it makes a module when it is called: pass the class or an instance"
    if norm.name == "instance_norm" and getattr(handed, "track_running_stats", None) is True:
        return (
            "an instance norm with running statistics is out of scope: "
            "make it with track_running_stats=False"
        )
    return ""


def _valid(role: str, value: Any) -> float:
    """Return a setting that a norm can have; raise where it cannot."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{role} must be a number, got {value!r}")
    if not 0.0 <= value < float("inf") or (role != "eps" and value == 0):
        least = "at least 0" if role == "eps" else "greater than 0"
        raise ValueError(f"{role} must be finite and {least}, got {value!r}")
    return float(value)


def _notes(exam: Exam) -> tuple[str, ...]:
    notes = [
        f"{learned.name} was not tested: there is none"
        for role, learned in exam.norm.learned.items()
        if role not in exam.subject.learned
    ]
    if exam.norm.runs and not exam.subject.has_running:
        notes.append("running statistics were not tested: there are none")
    return tuple(notes)
