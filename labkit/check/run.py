"""Hold an implementation against the laws of a norm, in bounded time, and write the report."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from labkit.check import (
    batch_laws,
    corner_laws,
    gradient_laws,
    hard_laws,
    laws,
    power_laws,
    precision_laws,
    progressive_laws,
    rounding_laws,
    running_laws,
    setting_laws,
)
from labkit.check.case import Broken, Untested
from labkit.check.embedding import Embedding
from labkit.check.exam import Exam
from labkit.check.guard import run_all, untouched_world
from labkit.check.handed import factory, is_module, tracks, valid
from labkit.check.module import Module
from labkit.check.report import Law, Report
from labkit.check.spec import Spec
from labkit.check.specs import FIX_EMBEDDING, POWER_MODULE
from labkit.check.subject import Function, Subject

SECONDS_EACH, SECONDS_TOTAL = 8.0, 40.0

Implementation = Callable[..., Any] | nn.Module | type[nn.Module]
Laws = dict[str, Callable[[Exam], None]]

_EPS_LAW = {
    "inside": "eps inside the root",
    "outside": "eps outside the root",
    "floor of the root": "eps is the least length",
}


def laws_of(spec: Spec) -> Laws:
    """List the laws of a norm in the order of the report: what explains most comes first."""
    formula = spec.standardizes
    listed: Laws = {
        "value": laws.value,
        "parameters known": corner_laws.parameters_known,
        "inputs kept": laws.inputs_kept,
        "same result twice": laws.repeatable,
    }
    scale_free = formula is not None and "bound" not in spec.settings and "eta" not in spec.learned
    if formula is not None and scale_free and formula.part == "all":
        name = "mean 0 and mean square 1" if spec.centred else "mean square"
        listed[name] = laws.standardized
    for role in spec.settings:
        name = _EPS_LAW[formula.eps_at] if role == "eps" and formula is not None else role
        listed[name] = setting_laws.setting(role)
        listed[f"default {role}"] = setting_laws.default(role)
    for role, learned in spec.learned.items():
        listed[learned.law] = laws.parameter(role)
    if len(spec.learned) > 1:
        short = [learned.law for learned in spec.learned.values()]
        listed[f"{short[0]} first, then {short[1]}" if len(short) == 2 else "all parameters"] = (
            laws.every_parameter
        )
    listed["shapes"] = laws.shapes
    listed["without autograd"] = corner_laws.without_autograd
    if scale_free:
        listed["blind to scale"] = laws.scale_invariance
        if spec.centred:
            listed["blind to a constant"] = laws.shift_invariance
    if spec.pools_batch:
        listed["batch shared"] = batch_laws.batch_coupling
        listed["padding left out"] = batch_laws.padding
    if spec.runs:
        listed["training uses the batch"] = running_laws.training_uses_batch
        listed["running statistics"] = running_laws.running_update
        listed["evaluation uses running statistics"] = running_laws.evaluation_uses_running
    for role in ("x", *spec.learned):
        name = "x" if role == "x" else spec.learned[role].name
        listed[f"gradient of {name}"] = gradient_laws.gradient_of(role)
    if formula is not None:
        listed["large offset"] = precision_laws.large_offset
        listed["constant values"] = hard_laws.constant
        listed["gradient of constant values"] = corner_laws.constant_gradient
    return {
        **listed,
        "outliers": corner_laws.outliers,
        "digits of small numbers": corner_laws.small_arguments,
        "all magnitudes": precision_laws.magnitudes,
        "half precision": precision_laws.half_precision,
        "rounding order": rounding_laws.rounding_order,
        "float32 gain": rounding_laws.wide_gain,
        "dtype kept": precision_laws.dtype_kept,
        "float64 kept": precision_laws.float64_kept,
        "views": hard_laws.strides,
        "neighbours apart": hard_laws.independence,
        "NaN and infinity contained": hard_laws.containment,
    }


def hold(
    spec: Spec,
    handed: Implementation,
    settings: Mapping[str, float | None],
    seed: int,
    variant: str | None = None,
) -> Report:
    """Try all laws on what was handed in."""
    title = f"check.{spec.name}"
    if handed is None or handed is ...:
        return Report(title, (Law("answered", False, "", "not answered yet"),))
    if not callable(handed):
        kind = type(handed).__name__
        message = f"a function or a module is wanted, got {kind}"
        return Report(title, (Law("callable", False, "", message),))
    given = {role: valid(role, value) for role, value in settings.items() if value is not None}
    exam: list[Exam] = []  # made under the time limit, like everything that calls foreign code

    def prepare() -> Law | None:
        try:
            if factory(handed, spec.dim):
                said = "it makes a module when it is called: pass the class or an instance"
                return Law("prepared", False, "", said)
            if tracks(handed, spec):
                said = (
                    "an instance norm with running statistics is out of scope: "
                    "make it with track_running_stats=False"
                )
                return Law("prepared", False, "", said)
            subject = _subject(handed, spec, given)
            exam.append(Exam(subject, subject.spec, seed, variant))
        except Exception as error:
            message = f"it could not be prepared: {type(error).__name__}: {error}"
            return Law("prepared", False, "", message)
        return None

    def job(name: str, law: Callable[[Exam], None]) -> Callable[[], Law | None]:
        return lambda: _try(name, law, exam[0]) if exam else None

    named = _laws(spec, handed)
    jobs = [prepare, *(job(name, law) for name, law in named.items())]
    with untouched_world():
        done = run_all(jobs, SECONDS_EACH, SECONDS_TOTAL)
    held = [law for law in done if law is not None]
    if len(done) < len(jobs):
        name = ["prepared", *named][len(done)]
        held.append(Law(name, False, *_out_of_time(len(jobs) - len(done) - 1)))
    return Report(title, tuple(held), _notes(exam[0]) if exam else ())


def _laws(spec: Spec, handed: Implementation) -> Laws:
    """Choose the laws: some norms are another thing as a module than as a function."""
    if is_module(handed) and spec.name == "power_norm":
        return power_laws.LAWS
    if spec.name == "prep_batch_norm":
        return progressive_laws.LAWS
    return laws_of(spec)


def _subject(handed: Implementation, spec: Spec, given: Mapping[str, float]) -> Subject:
    if spec.name == "fix_norm" and is_module(handed, nn.Embedding):
        return Embedding(handed, FIX_EMBEDDING, given)
    if spec.name == "power_norm" and is_module(handed):
        spec = POWER_MODULE
    if isinstance(handed, nn.Module) or (isinstance(handed, type) and is_module(handed)):
        return Module(handed, spec, given)
    return Function(handed, spec, given)


def _try(name: str, law: Callable[[Exam], None], exam: Exam) -> Law | None:
    """Try one law; None where it does not apply."""
    try:
        law(exam)
    except Untested:
        return None
    except Broken as broken:
        exam.failed.add(name)
        return Law(name, False, broken.cause, broken.message)
    except Exception as error:  # an outcome that no law foresaw is wrong, and no crash of ours
        exam.failed.add(name)
        return Law(name, False, "", f"{type(error).__name__}: {error}")
    return Law(name, True, "", (law.__doc__ or "").strip())


def _out_of_time(left: int) -> tuple[str, str]:
    message = f"no result within {SECONDS_EACH:g} seconds on a small input; stopped"
    message += f", {left} further laws were not tried" if left else ""
    return "a loop that does not end, or a wait", message


def _notes(exam: Exam) -> tuple[str, ...]:
    subject, spec = exam.subject, exam.spec
    notes = [
        f"{learned.name} was not tested: there is none"
        for role, learned in spec.learned.items()
        if role not in subject.learned
    ]
    if spec.runs and not subject.has_running:
        notes.append("running statistics were not tested: there are none")
    return tuple(notes)
