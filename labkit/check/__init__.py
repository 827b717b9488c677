"""Check an implementation of a norm, yours or a stranger's, against the laws of that norm.

    report = check.layer_norm(my_layer_norm)
    report.ok, report.laws

Each law is a general property, held against a float64 formula that is written apart from
labkit.norms. A law that fails says which input was used, what came, what was expected, and the
likely cause. A check never raises because of what was handed in, leaves arguments, modules and
random states as they were, and ends: a law may take 8 seconds, all together 40.
"""

from collections.abc import Callable
from typing import Any

from torch import nn

from labkit.check import batch_laws, eps_laws, gradient_laws, hard_laws, laws, precision_laws
from labkit.check.answer import answer
from labkit.check.exam import Broken, Exam, Untested
from labkit.check.guard import run_all, untouched_world
from labkit.check.module import Module
from labkit.check.report import Law, Report
from labkit.check.spec import BATCH, GROUP, LAYER, RMS, Spec
from labkit.check.subject import Function, Subject

__all__ = ["Law", "Report", "answer", "batch_norm", "group_norm", "layer_norm", "rms_norm"]

SECONDS_EACH, SECONDS_TOTAL = 8.0, 40.0

Implementation = Callable[..., Any] | nn.Module | type[nn.Module]

# The order is that of the report: what is most basic, and explains most, comes first.
_BASIC = {
    "value": laws.value,
    "shapes": laws.shapes,
    "inputs kept": laws.inputs_kept,
    "same result twice": laws.repeatable,
    "mean 0 and mean square 1": laws.standardized,
    "eps inside the root": eps_laws.eps_inside,
    "default eps": eps_laws.default_eps,
    "gain": laws.gain,
    "shift": laws.shift,
    "gain first, then shift": laws.gain_then_shift,
    "blind to scale": laws.scale_invariance,
    "blind to a constant": laws.shift_invariance,
}
_BATCH = {
    "batch shared": batch_laws.batch_coupling,
    "training uses the batch": batch_laws.training_uses_batch,
    "running statistics": batch_laws.running_update,
    "evaluation uses running statistics": batch_laws.evaluation_uses_running,
}
_HARD = {
    "gradient of x": gradient_laws.gradient_of("x"),
    "gradient of the gain": gradient_laws.gradient_of("weight"),
    "gradient of the shift": gradient_laws.gradient_of("bias"),
    "large offset": precision_laws.large_offset,
    "half precision": precision_laws.half_precision,
    "dtype kept": precision_laws.dtype_kept,
    "float64 kept": precision_laws.float64_kept,
    "constant values": hard_laws.constant,
    "views": hard_laws.strides,
    "neighbours apart": hard_laws.independence,
    "NaN and infinity contained": hard_laws.containment,
}


def layer_norm(fn_or_module: Implementation, *, eps: float | None = None, seed: int = 0) -> Report:
    """Check a layer norm: a function (x, weight=None, bias=None, eps=1e-5), module or class.

    `eps` names the one to expect where it cannot be passed; without it the default must be 1e-5,
    or a module's own attribute. `seed` draws other inputs.
    """
    return _check(LAYER, {**_BASIC, **_HARD}, fn_or_module, eps, seed)


def rms_norm(fn_or_module: Implementation, *, eps: float | None = None, seed: int = 0) -> Report:
    """Check an RMS norm: a function (x, weight=None, eps=1e-6), a module or its class.

    Documented defaults are 1e-6 and torch's None, the machine epsilon. Else as `layer_norm`.
    """
    return _check(RMS, {**_BASIC, **_HARD}, fn_or_module, eps, seed)


def batch_norm(fn_or_module: Implementation, *, eps: float | None = None, seed: int = 0) -> Report:
    """Check a batch norm: a function with torch's arguments, a module or its class.

    The function is (x, running_mean=None, running_var=None, weight=None, bias=None,
    training=False, momentum=0.1, eps=1e-5) with the channels on axis 1. Else as `layer_norm`.
    """
    return _check(BATCH, {**_BASIC, **_BATCH, **_HARD}, fn_or_module, eps, seed)


def group_norm(fn_or_module: Implementation, *, eps: float | None = None, seed: int = 0) -> Report:
    """Check a group norm: a function (x, num_groups, weight=None, bias=None, eps=1e-5), or module.

    The channels stand on axis 1. Else as `layer_norm`.
    """
    return _check(GROUP, {**_BASIC, **_HARD}, fn_or_module, eps, seed)


def _check(
    spec: Spec,
    named: dict[str, Callable[[Exam], None]],
    given: Implementation,
    eps: float | None,
    seed: int,
) -> Report:
    title = f"check.{spec.name}"
    if given is None or given is ...:
        return Report(title, (Law("answered", False, "", "not answered yet"),))
    if not callable(given):
        kind = type(given).__name__
        message = f"a function or a module is wanted, got {kind}"
        return Report(title, (Law("callable", False, "", message),))
    exam: list[Exam] = []  # made under the time limit, like everything that calls foreign code

    def prepare() -> Law | None:
        try:
            exam.append(Exam(_subject(given, spec, eps), spec, seed, eps))
        except Exception as error:
            message = f"it could not be prepared: {type(error).__name__}: {error}"
            return Law("prepared", False, "", message)
        return None

    def job(name: str, law: Callable[[Exam], None]) -> Callable[[], Law | None]:
        return lambda: _hold(name, law, exam[0]) if exam else None

    jobs = [prepare, *(job(name, law) for name, law in named.items())]
    with untouched_world():
        done = run_all(jobs, SECONDS_EACH, SECONDS_TOTAL)
    held = [law for law in done if law is not None]
    if len(done) < len(jobs):
        name = ["prepared", *named][len(done)]
        held.append(Law(name, False, *_out_of_time(len(jobs) - len(done) - 1)))
    return Report(title, tuple(held), _notes(exam[0]) if exam else ())


def _hold(name: str, law: Callable[[Exam], None], exam: Exam) -> Law | None:
    """Try one law; None where it does not apply."""
    try:
        law(exam)
    except Untested:
        return None
    except Broken as broken:
        return Law(name, False, broken.cause, broken.message)
    except Exception as error:  # an outcome that no law foresaw is wrong, and no crash of ours
        return Law(name, False, "", f"{type(error).__name__}: {error}")
    return Law(name, True, "", (law.__doc__ or "").strip())


def _subject(given: Implementation, spec: Spec, eps: float | None) -> Subject:
    if isinstance(given, nn.Module) or (isinstance(given, type) and issubclass(given, nn.Module)):
        return Module(given, spec, eps)
    return Function(given, spec, eps)


def _out_of_time(left: int) -> tuple[str, str]:
    message = f"no result within {SECONDS_EACH:g} seconds on a small input; stopped"
    message += f", {left} further laws were not tried" if left else ""
    return "a loop that does not end, or a wait", message


def _notes(exam: Exam) -> tuple[str, ...]:
    subject, spec = exam.subject, exam.spec
    notes = []
    if not subject.has_weight:
        notes.append("the gain was not tested: there is none")
    if spec.shift and not subject.has_bias:
        notes.append("the shift was not tested: there is none")
    if spec.name == "batch_norm" and not subject.has_running:
        notes.append("running statistics were not tested: there are none")
    return tuple(notes)
