"""Check an implementation against the laws of a norm, in bounded time, and write the report.

The submitted code can neither hang the caller nor change the caller's state: Python loops and waits
are interrupted, but a single huge tensor operation is not. There is no time limit in a thread other
than the main one, or if another time limit is already set.
"""

import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from labkit.check import gradients, laws, precision, running
from labkit.check.case import Broken, Untested
from labkit.check.exam import Exam
from labkit.check.laws import Law as Check
from labkit.check.report import Law, Report
from labkit.check.specs import Norm
from labkit.check.subject import is_module, makes_modules, read_subject
from labkit.check.tasks import make_norm_task
from labkit.system.time_limit import TooLong, at_most

SECONDS_EACH, SECONDS_TOTAL = 8.0, 40.0

T = TypeVar("T")
Implementation = Callable[..., Any] | nn.Module | type[nn.Module]

_EPS_LAW = {
    "inside": "eps inside the root",
    "outside": "eps outside the root",
    "floor of the root": "eps is the least length",
}


def list_laws(norm: Norm) -> dict[str, Check]:
    """List the laws of a norm in the order of the report: those that explain most come first."""
    formula = norm.formula
    listed: dict[str, Check] = {
        "value": laws.hold_value,
        "inputs kept": laws.hold_inputs_kept,
        "same result twice": laws.hold_repeatable,
    }
    for role in norm.settings:
        listed[_EPS_LAW[formula.eps_at] if role == "eps" else role] = laws.make_setting_law(role)
        listed[f"default {role}"] = laws.make_default_law(role)
    for role, learned in norm.learned.items():
        listed[learned.law] = laws.make_parameter_law(role)
    listed["shapes"] = laws.hold_shapes
    if norm.pools_batch:
        listed["padding left out"] = running.hold_padding
    if norm.runs:
        listed["running statistics"] = running.hold_running_update
        listed["evaluation uses running statistics"] = running.hold_evaluation_uses_running
    for role in ("x", *norm.learned):
        name = "x" if role == "x" else norm.learned[role].name
        listed[f"gradient of {name}"] = gradients.make_gradient_law(role)
    if formula.pool:
        listed["large offset"] = precision.hold_large_offset
    return {
        **listed,
        "digits of small numbers": laws.hold_small_arguments,
        "all magnitudes": precision.hold_magnitudes,
        "half precision": precision.hold_half_precision,
        "rounding order": precision.hold_rounding_order,
        "dtype kept": precision.hold_dtype_kept,
        "float64 kept": precision.hold_float64_kept,
    }


def hold(
    norm: Norm,
    handed: Implementation,
    settings: Mapping[str, float | None],
    seed: int,
    variant: str | None = None,
) -> Report:
    """Check an implementation against all laws of a norm."""
    named = variant not in (None, "torch")
    title = f"check.rms_{variant}" if named else f"check.{norm.name}"
    # Before anything is called: None and … are missing answers.
    if refused := refuse_nothing(handed, "a function or a module"):
        return Report(title, (refused,))
    given = {
        role: _validate_setting(role, value)
        for role, value in settings.items()
        if value is not None
    }

    def prepare() -> Exam:
        _refuse_untried(handed, norm)
        return Exam(read_subject(handed, norm, given), seed, variant)

    def attempt(name: str, law: Check, exam: Exam) -> Law | None:
        if exam.unanswered:  # reported once
            return None
        exam.searched = False
        tried = try_law(name, law, exam, exam.make_generator(name))
        if tried is not None and not tried.ok:
            exam.failed.add(name)
            if exam.searched and not tried.cause:
                exam.unexplained.append(name)
        return tried

    report = try_all(title, prepare, list_laws(norm), _list_notes, attempt)
    asks = variant is None and not given  # a page asks for the documented norm
    return replace(report, ask=lambda: make_norm_task(norm, handed)) if asks else report


def refuse_nothing(handed: Any, wanted: str) -> Law | None:
    """Return a report's only law if nothing usable was submitted; None if something was."""
    if handed is None or handed is ...:
        return Law("answered", False, "", "not answered yet")
    if not callable(handed):
        return Law("callable", False, "", f"the check needs {wanted}, got {type(handed).__name__}")
    return None


def try_all(
    title: str,
    prepare: Callable[[], T],
    laws: Mapping[str, Callable[..., None]],
    notes: Callable[[T], tuple[str, ...]],
    attempt: Callable[[str, Callable[..., None], T], Law | None],
) -> Report:
    """Prepare the arguments of the laws, which may call foreign code; run all in bounded time.

    If `prepare` raises, the error explains why no law was run. `attempt` runs one law, by its name.
    """
    ready: list[T] = []

    def first() -> Law | None:
        try:
            ready.append(prepare())
        except Broken as broken:
            return Law("prepared", False, broken.cause, broken.message)
        # Foreign code: whatever it raises is a row of the report, never a traceback.
        except Exception as error:
            message = f"it could not be prepared: {type(error).__name__}: {error}"
            return Law("prepared", False, "", message)
        return None

    def job(name: str) -> Callable[[], Law | None]:
        return lambda: attempt(name, laws[name], ready[0]) if ready else None

    jobs = [first, *map(job, laws)]
    with untouched_world():
        done = run_all(jobs, SECONDS_EACH, SECONDS_TOTAL)
        held = [law for law in done if law is not None]
        noted = run_all([lambda: notes(ready[0])], SECONDS_EACH, SECONDS_EACH) if ready else []
    if len(done) < len(jobs):
        name, left = ["prepared", *laws][len(done)], len(jobs) - len(done) - 1
        message = f"no result within {SECONDS_EACH:g} seconds on a small input; stopped"
        message += f", {left} further laws were not tried" if left else ""
        held.append(Law(name, False, "a loop that does not end, or a wait", message))
    return Report(title, tuple(held), noted[0] if noted else ())


def try_law(name: str, law: Callable[..., None], *given: Any) -> Law | None:
    """Run one law; return None if it does not apply."""
    try:
        law(*given)
    except Untested:
        return None
    except Broken as broken:
        return Law(name, False, broken.cause, broken.message)
    except Exception as error:  # an unforeseen result is wrong, but must not crash the check
        return Law(name, False, "", f"it raised {type(error).__name__}: {error}")
    return Law(name, True, "", (law.__doc__ or "").strip())


def run_all(jobs: Sequence[Callable[[], T]], each: float, total: float) -> list[T]:
    """Run the jobs in order and return their results; stop early when time runs out.

    A job may take `each` seconds, and all of them together `total`. If the list of results is
    shorter than `jobs`, the next job did not finish.
    """
    done: list[T] = []
    with torch.inference_mode(False), torch.enable_grad():  # whatever mode the caller is in
        # The first gradient of a process takes seconds of imports, which no job is charged for.
        torch.ones(1, requires_grad=True).backward(torch.ones(1))
        end = time.monotonic() + total
        for job in jobs:
            left = min(each, end - time.monotonic())
            if left <= 0:
                break
            try:
                with at_most(left):
                    done.append(job())
            # Code that hangs once would hang again, so the laws after it are not run.
            except TooLong:
                break
    return done


@contextmanager
def untouched_world() -> Iterator[None]:
    """Restore the random states and the default dtype afterwards; suppress warnings meanwhile."""
    python, array, dtype = random.getstate(), np.random.get_state(), torch.get_default_dtype()
    # Foreign code may seed, warn, or set a default dtype; the caller's state is restored.
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(array)
            torch.set_default_dtype(dtype)


def _refuse_untried(handed: Implementation, norm: Norm) -> None:
    """Refuse implementations that cannot be checked."""
    if makes_modules(handed, norm.dim):
        raise Broken(
            "your code must return a tensor, but makes a module when it is called: pass the "
            "class or an instance"
        )
    if norm.name == "instance_norm" and getattr(handed, "track_running_stats", None) is True:
        raise Broken(
            "an instance norm must have no running statistics to be checked, but this one has: "
            "make it with track_running_stats=False"
        )
    # Its forward and backward pass depend on earlier batches, but all laws use a single batch.
    if norm.name == "power_norm" and is_module(handed):
        raise Broken(
            "a module with a running mean square and a custom backward pass cannot be checked: "
            "pass the function (x, weight, bias, eps, mask) of a single batch"
        )


def _validate_setting(role: str, value: Any) -> float:
    """Return a valid setting of a norm as a float; raise for an invalid one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{role} must be a number, got {value!r}")
    if not 0.0 <= value < float("inf") or (role != "eps" and value == 0):
        least = "at least 0" if role == "eps" else "greater than 0"
        raise ValueError(f"{role} must be finite and {least}, got {value!r}")
    if role == "p" and value > 1:
        raise ValueError(f"p must be a share of the channels, at most 1, got {value!r}")
    return float(value)


def _list_notes(exam: Exam) -> tuple[str, ...]:
    notes = exam.notes + [
        f"{learned.name} was not tested: there is none"
        for role, learned in exam.norm.learned.items()
        if role not in exam.subject.learned
    ]
    notes += [f"what the parameter {name} does was not tested" for name in exam.subject.unknown]
    if exam.norm.runs and not exam.subject.has_running:
        notes.append("running statistics were not tested: there are none")
    if exam.unexplained:
        notes.append(f"no cause that labkit knows fits: {', '.join(exam.unexplained)}")
    return tuple(notes)
