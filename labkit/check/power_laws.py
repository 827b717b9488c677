"""The laws of PowerNorm as a module: the calls follow one another as in the authors' code."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from labkit.check.case import Broken, Case, Untested, describe
from labkit.check.exam import Exam
from labkit.check.laws import inputs_kept
from labkit.check.module import ModuleRunner
from labkit.check.power_rule import Power, Rule, wrong_rules
from labkit.check.precision_laws import HALF

WARMUP = 3


class Call(NamedTuple):
    """One training call, and what came of it: y, gradients of x, weight and bias, then φ."""

    case: Case
    top: Tensor
    actual: tuple[Tensor, ...]


_NAMES = ("the result", "gradient of x", "gradient of the gain", "gradient of the shift", "φ")


def follows(part: slice, warmup: int, masked: bool = False) -> Callable[[Exam], None]:
    """Make the law that some of what each call gives and stores is the rule's."""

    def law(exam: Exam) -> None:
        if masked and not exam.subject.takes_mask:
            raise Untested()
        draw = exam.generator(f"power {warmup}")
        for shape in exam.shapes[:2]:
            runner, rule = start(exam, warmup)
            _hold(exam, _calls(exam, draw, runner, shape, masked), rule, part)

    law.__doc__ = "Follow the authors' code from call to call."
    return law


def start(exam: Exam, warmup: int) -> tuple[ModuleRunner, Rule]:
    """Open a copy with a short warm-up where it can be set, and the rule that it must follow."""
    draw = exam.generator("power parameters")
    case = exam.case(draw, learned=exam.learned)
    settings = {"warmup": warmup, "groups": 2 if exam.dim % 2 == 0 else 1}
    named = {role: value for role, value in settings.items() if role in exam.subject.sets}
    runner = exam.open(case, **named)
    assert isinstance(runner, ModuleRunner)
    rule = Rule(eps=exam.expected("eps"))
    for role, value in settings.items():
        if role in named:
            rule = Rule(**{**vars(rule), role: value})
            continue
        own = next((n for n in ("warmup", "warmup_iters", "warmup_steps")
                    if isinstance(getattr(runner.module, n, None), int)), "")  # fmt: skip
        if role == "warmup" and own:
            setattr(runner.module, own, warmup)
            rule = Rule(**{**vars(rule), role: warmup})
        else:
            rule = Rule(**{**vars(rule), role: int(exam.expected(role))})
    return runner, rule


def find_phi(module: torch.nn.Module, dim: int) -> Tensor | None:
    """Find the running mean square among the buffers."""
    buffers = [(n, b) for n, b in module.named_buffers() if b.numel() == dim]
    for name, buffer in buffers:
        if any(word in name for word in ("phi", "square", "running")):
            return buffer
    return None


def parameters(runner: ModuleRunner, dim: int) -> tuple[Tensor, Tensor]:
    """Read gain and shift; what is not there multiplies by 1, or adds 0."""
    weight = runner.parameters.get("weight", torch.ones(dim))
    return weight.detach(), runner.parameters.get("bias", torch.zeros(dim)).detach()


def _calls(
    exam: Exam, draw: torch.Generator, runner: ModuleRunner, shape: tuple[int, ...], masked: bool
) -> list[Call]:
    calls, dim = [], exam.dim
    weight, bias = parameters(runner, dim)
    for step in range(1, 7):
        about = f"training call {step}" + ", with a mask" * masked
        case = exam.case(draw, shape, about, scale=1 + 0.5 * step)
        case = case.but(weight=weight, bias=bias)
        if masked:
            mask = torch.rand(shape[:-1], generator=draw) < 0.6
            mask.view(-1)[:3] = torch.tensor([True, False, True])
            case = case.but(mask=mask)
        x = case.x.clone().requires_grad_()
        leaves = [x, *runner.parameters.values()]
        y = exam.call(runner, x, case)
        top = torch.randn(shape, generator=draw) + 0.5
        if not y.requires_grad:
            raise Broken(f"on {case} the result has no gradient", "the graph is cut")
        grads = torch.autograd.grad(y, leaves, top, allow_unused=True)
        if any(g is None for g in grads):
            raise Broken(f"on {case} not all gradients arrive", "the graph is cut")
        named = dict(zip(("x", *runner.parameters), grads, strict=True))
        phi = find_phi(runner.module, dim)
        none = torch.zeros(0)
        calls.append(Call(case, top, (
            y.detach(), named["x"], named.get("weight", none), named.get("bias", none),
            none if phi is None else phi.detach().flatten().clone(),
        )))  # fmt: skip
    return calls


def _wanted(calls: list[Call], rule: Rule, dim: int) -> list[tuple[Tensor, ...]]:
    power, wanted = Power(rule, dim), []
    for case, top, _ in calls:
        given = case.given
        outcome = power.train(case.x, given["weight"], given["bias"], top, given.get("mask"))
        wanted.append((*(t.detach() for t in outcome), power.phi))
    return wanted


def _hold(exam: Exam, calls: list[Call], rule: Rule, part: slice) -> None:
    def first_other(other: Rule, part: slice) -> tuple[int, int] | None:
        for step, wanted in enumerate(_wanted(calls, other, exam.dim)):
            for i in range(5)[part]:
                actual = calls[step].actual[i]
                if actual.numel() and not _close(exam, calls[step].case, actual, wanted[i]):
                    return step, i
        return None

    where = first_other(rule, part)
    if where is None:
        return
    step, i = where
    case, wanted = calls[step].case, _wanted(calls, rule, exam.dim)[step][i]
    cause = next((s for s, r in wrong_rules(rule) if first_other(r, slice(0, 5)) is None), "")
    cause = cause or next((s for s, r in wrong_rules(rule) if first_other(r, part) is None), "")
    raise Broken(describe(case, calls[step].actual[i], wanted, f", {_NAMES[i]}"), cause)


def _close(exam: Exam, case: Case, actual: Tensor, wanted: Tensor) -> bool:
    if actual.numel() != wanted.numel():
        return False
    gap = (actual.double() - wanted.reshape(actual.shape)).abs()
    room = 1e-4 * (wanted.abs() + wanted.abs().max()).reshape(actual.shape)
    within = gap <= room
    return bool((exam.real(case, within, True) if actual.shape == case.x.shape else within).all())


def evaluation(exam: Exam) -> None:
    """Use φ alone in evaluation, one token or many, and change nothing."""
    draw = exam.generator("power evaluation")
    runner, rule = start(exam, WARMUP)
    power = Power(rule, exam.dim)
    for call in _calls(exam, draw, runner, exam.shapes[0], masked=False):
        given = call.case.given
        power.train(call.case.x, given["weight"], given["bias"], call.top)
    kept = {k: v.clone() for k, v in runner.module.state_dict().items()}
    weight, bias = parameters(runner, exam.dim)
    for shape in (exam.shapes[0], (1, exam.dim), exam.shapes[1]):
        case = exam.case(draw, shape, "evaluation after six training calls", scale=2.0)
        y = exam.call(runner, case.x.clone(), case, training=False)
        wanted = power.evaluate(case.x, weight, bias)
        if not _close(exam, case, y, wanted):
            batch = Power(Rule(**{**vars(rule), "evaluation": "batch"}), exam.dim)
            own = batch.evaluate(case.x, weight, bias)
            cause = "the batch's own mean square is used in evaluation, not φ"
            raise Broken(describe(case, y, wanted), cause if _close(exam, case, y, own) else "")
    for name, value in runner.module.state_dict().items():
        if not torch.equal(value, kept[name]):
            raise Broken(
                f"{name} changed in evaluation",
                "it is updated in evaluation too; only training may",
            )


def dtype_kept(exam: Exam) -> None:
    """Return the input's dtype, right up to its rounding, in training and evaluation."""
    draw = exam.generator("power dtype")
    for dtype in (torch.float64, torch.float32, *HALF):
        case = exam.case(draw, dtype=dtype)
        runner = exam.open(case)
        rule = Rule(eps=exam.expected("eps"), groups=int(exam.expected("groups")))
        y, power = exam.run(case, runner), Power(rule, exam.dim)
        one, zero = torch.ones(exam.dim), torch.zeros(exam.dim)
        wanted = power.train(case.x, one, zero, torch.ones_like(case.x))[0]
        if y.dtype != dtype:
            raise Broken(f"on {case} the result is {y.dtype}; a norm returns the dtype of x")
        room = max(4 * torch.finfo(dtype).eps, 1e-9) * wanted.abs() + 1e-9
        if not bool(((y.double() - wanted).abs() <= room).all()):
            raise Broken(
                describe(case, y, wanted),
                "the mean squares are computed in the input's half precision"
                if dtype in HALF
                else "float64 is converted to float32 on the way"
                if dtype == torch.float64
                else "",
            )


LAWS: dict[str, Callable[[Exam], None]] = {
    "value in the warm-up": follows(slice(0, 1), 100),
    "inputs kept": inputs_kept,
    "value after the warm-up": follows(slice(0, 1), WARMUP),
    "running mean square": follows(slice(4, 5), WARMUP),
    "gradients": follows(slice(1, 4), WARMUP),
    "padding left out": follows(slice(0, 1), WARMUP, masked=True),
    "padding left out of φ": follows(slice(4, 5), WARMUP, masked=True),
    "evaluation uses φ": evaluation,
    "dtype kept": dtype_kept,
}
