"""The laws of two modules whose calls follow one another: PowerNorm and PRepBN.

PowerNorm, as in the authors' code; t counts the training calls
    s = x / sqrt(mean over each group of x² + eps)                  for each token
    z = s / sqrt(v + eps) while t ≤ warmup, else s / sqrt(φ + eps)   v = mean of s² over real tokens
    φ ← φ (t − 1)/t + v/t while t < warmup; then always φ ← 0.9 φ + 0.1 v
    g = weight · dy;  g' = g − 0.1 e z;  e ← e + mean(g' z);  ds = g' / sqrt(v + eps)
PRepBN
    y = λ · LN(x) + (1 − λ) · (BN(x) + eta · x)      in training, λ from 1 to 0 over `steps` calls
    y = BN(x) + eta · x                              in evaluation, whatever λ is

The module and these equations in float64 are led through the same calls, and what each call gives
and leaves behind is compared. A failure is explained by the equations with one decision changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from labkit.check.case import Broken, Case, Untested, describe, told
from labkit.check.exam import Exam
from labkit.check.gradients import CUT, gradient_close
from labkit.check.laws import Law, inputs_kept
from labkit.check.precision import HALF
from labkit.check.specs import Shape
from labkit.check.subject import ModuleRunner, names_of

RESULT, EVALUATION = "the result", "the result in evaluation"
WARMUP, STEPS = 3, 4  # short ones, so that a few calls tell
Outcome = dict[str, Tensor]  # what one call gives: RESULT, "gradient of …", and what is stored


class Call(NamedTuple):
    """One call of the module and what came of it; `top` is the gradient that arrives at y."""

    case: Case
    top: Tensor
    training: bool
    came: Outcome


# --- the equations ---


@dataclass(frozen=True)
class Power:
    """Say every decision of PowerNorm; a known mistake changes one of them."""

    eps: float = 1e-5
    groups: int = 1
    warmup: int = 10_000
    scaled: bool = True  # is each token divided by its group's root mean square first
    forward: str = "before"  # whose mean square divides after the warm-up: φ before | after | batch
    warm: str = "batch"  # during the warm-up | before
    last: int = 0  # the warm-up's last call, counted from `warmup`
    averaged: bool = True  # is φ an average during the warm-up
    decay: float = 0.9  # how much of the old φ stays
    backward: str = "batch"  # whose root divides the gradient | forward
    exact: bool = False  # is the backward pass the forward pass's own
    correction: float = 0.1  # how much of e · z is taken off the gradient
    mask: str = "used"  # | ignored | inverted
    evaluation: str = "before"  # | batch

    def follow(self, calls: Sequence[Call], own: Mapping[str, Tensor]) -> list[Outcome]:
        """Return what the calls must give to a module that was just made, with these parameters."""
        weight, bias = own["the gain"], own["the shift"]
        phi, error = torch.ones_like(weight), torch.zeros_like(weight)
        outcomes, t = [], 0
        for case, top, training, _ in calls:
            t, x = t + training, case.x.double().requires_grad_()
            scaled, mask, tokens = self._scale(x), case.given.get("mask"), tuple(range(x.ndim - 1))
            real = scaled.flatten(0, -2)
            if mask is not None and self.mask != "ignored":
                real = scaled[~mask if self.mask == "inverted" else mask]
            square = real.square().mean(0)
            squares = {"batch": square, "before": phi}
            if not training:
                z = scaled / (squares[self.evaluation] + self.eps).sqrt()
                outcomes.append({EVALUATION: (z * weight + bias).detach()})
                continue
            if t < self.warmup and self.averaged:
                phi = phi * (t - 1) / t + square.detach() / t
            phi = self.decay * phi + (1 - self.decay) * square.detach()
            squares["after"] = phi
            warm = t <= self.warmup + self.last
            root = (squares[self.warm if warm else self.forward] + self.eps).sqrt()
            exact = scaled / root
            z, g = exact.detach(), weight * top.double()
            if self.exact:
                (slope,) = torch.autograd.grad(exact, x, g)
            else:
                g = g - self.correction * error * z
                error = error + (g * z).mean(tokens)
                divisor = root if self.backward == "forward" else (square + self.eps).sqrt()
                (slope,) = torch.autograd.grad(scaled, x, g / divisor.detach())
            names = "gradient of x", "gradient of the gain", "gradient of the shift"
            slopes = slope, (top * z).sum(tokens), top.double().sum(tokens)
            named = dict(zip(names, slopes, strict=True))
            outcomes.append({RESULT: z * weight + bias, "φ": phi, **named})
        return outcomes

    def _scale(self, x: Tensor) -> Tensor:
        if not self.scaled:
            return x * 1.0
        parts = x.unflatten(-1, (self.groups, -1))
        return (parts / (parts.square().mean(-1, keepdim=True) + self.eps).sqrt()).flatten(-2)


# λ by the part of the schedule that is left, 1 at first
SHARES = {
    "falls": lambda left: left,
    "rises": lambda left: 1.0 - left,
    "constant": lambda left: 1.0,
    "half": lambda left: 0.5,
    "squared": lambda left: left**2,
}


@dataclass(frozen=True)
class Progressive:
    """Say every decision of PRepBN; a known mistake changes one of them."""

    eps: float = 1e-5
    warm: int = 0
    share: str = "falls"  # a key of SHARES
    lag: int = 0  # calls by which the schedule is late
    skip: bool = True  # is eta · x added
    runs_warm: bool = False  # does RepBN run in the warm phase
    correction: int = 1  # of the variance that is stored
    mask: str = "used"  # | ignored
    evaluation: str = "RepBN"  # | mixed | layer norm | no skip | batch

    def follow(self, calls: Sequence[Call], own: Mapping[str, Tensor]) -> list[Outcome]:
        """Return what the calls must give to a module that was just made, with these parameters."""
        own = {role: p.detach().clone().requires_grad_() for role, p in own.items()}
        mean, var = torch.zeros_like(own["weight"]), torch.ones_like(own["weight"])
        outcomes, t = [], 0
        for case, top, training, _ in calls:
            x = case.x.double().requires_grad_()
            rows, mask = x.movedim(1, -1), case.given.get("mask")
            real = rows.flatten(0, -2) if mask is None or self.mask == "ignored" else rows[mask]
            batch = real.mean(0), real.var(0, correction=0)
            stored = (mean, var) if not training and self.evaluation != "batch" else batch
            rep = (rows - stored[0]) / (stored[1] + self.eps).sqrt() * own["weight"] + own["bias"]
            rep = rep + float(self.skip) * own["eta"] * rows
            layer = torch.layer_norm(rows, rows.shape[-1:], own["layer weight"], own["layer bias"],
                                     self.eps)  # fmt: skip
            left = max(0.0, 1.0 - max(0, t - self.warm - self.lag) / STEPS)
            share = SHARES[self.share](left)
            if not training:
                ways = {"mixed": share * layer + (1 - share) * rep, "layer norm": layer,
                        "no skip": rep - own["eta"] * rows}  # fmt: skip
                y = ways.get(self.evaluation, rep).movedim(-1, 1)
                outcomes.append({EVALUATION: y.detach()})
                continue
            y = (share * layer + (1 - share) * rep).movedim(-1, 1)
            if t >= self.warm or self.runs_warm:
                mean = mean.lerp(real.detach().mean(0), 0.1)
                var = var.lerp(real.detach().var(0, correction=self.correction), 0.1)
            grads = torch.autograd.grad(y, [x, *own.values()], top.double())
            slopes = {f"gradient of {n}": g for n, g in zip(("x", *own), grads, strict=True)}
            outcomes.append({RESULT: y.detach(), "running mean": mean, "running variance": var,
                             **slopes})  # fmt: skip
            t += 1
        return outcomes


Rule = Power | Progressive
_POWER_MISTAKES: list[tuple[str, dict]] = [
    ("the tokens are not divided by their groups' root mean squares first", {"scaled": False}),
    ("the groups are ignored: the root mean square is that of the whole token", {"groups": 1}),
    ("after the warm-up the batch's mean square divides, not the running φ", {"forward": "batch"}),
    ("φ is updated before it divides; the one from before this call is wanted",
     {"forward": "after"}),
    ("φ divides during the warm-up; there the batch's own mean square does", {"warm": "before"}),
    ("the warm-up ends one call too early: t ≤ warmup still uses the batch", {"last": -1}),
    ("the warm-up ends one call too late", {"last": 1}),
    ("φ is not averaged during the warm-up, only decayed", {"averaged": False}),
    ("the decay is the other way round: 0.9 weighs the old φ", {"decay": 0.1}),
    ("φ is not updated", {"decay": 1.0, "averaged": False}),
    ("the backward pass divides by what the forward pass divided by (φ); this batch's root is "
     "wanted", {"backward": "forward"}),
    ("the backward pass leaves out the correction by the running error e", {"correction": 0.0}),
    ("the backward pass is the exact one of the forward pass", {"exact": True}),
    ("the correction is weighed by 0.9 instead of 0.1", {"correction": 0.9}),
    ("the correction is not weighed by 1 − 0.9", {"correction": 1.0}),
    ("the mask is ignored: padding counts in the mean square", {"mask": "ignored"}),
    ("the mask is inverted: True means a real token", {"mask": "inverted"}),
    ("the batch's own mean square is used in evaluation, not φ", {"evaluation": "batch"}),
]  # fmt: skip
_PROGRESSIVE_MISTAKES: list[tuple[str, dict]] = [
    ("λ is reversed: it starts at 1, all layer norm, and falls to 0", {"share": "rises"}),
    ("λ stays at 1: the schedule does not advance", {"share": "constant"}),
    ("λ stays at ½", {"share": "half"}),
    ("λ falls along another curve; it is linear", {"share": "squared"}),
    ("λ is counted down before it is used: the first call has λ = 1", {"lag": -1}),
    ("λ lags by one call", {"lag": 1}),
    ("eta · x is missing in the RepBN branch", {"skip": False}),
    ("RepBN runs in the warm phase, where layer norm alone does", {"runs_warm": True}),
    ("the biased variance is stored; the running one divides by n − 1", {"correction": 0}),
    ("the mask is ignored: padding counts in the statistics", {"mask": "ignored"}),
    ("evaluation still mixes layer norm in; it is RepBN alone", {"evaluation": "mixed"}),
    ("evaluation is layer norm; it is RepBN alone", {"evaluation": "layer norm"}),
    ("eta · x is missing in evaluation", {"evaluation": "no skip"}),
    ("the batch's own statistics are used in evaluation", {"evaluation": "batch"}),
]
MISTAKES = {Power: _POWER_MISTAKES, Progressive: _PROGRESSIVE_MISTAKES}


# --- leading a module through calls, and holding what came ---


def _open(
    exam: Exam, settings: Mapping[str, int], dtype: torch.dtype = torch.float32
) -> ModuleRunner:
    """Open a copy at its first call with settings of ours, set by its constructor or attributes."""
    named = {role: value for role, value in settings.items() if role in exam.subject.sets}
    case = exam.case(exam.generator("open"), learned=exam.learned, dtype=dtype)
    runner = exam.open(case, **named)
    assert isinstance(runner, ModuleRunner)
    for role in settings.keys() - named.keys():
        for name in (*names_of(role, exam.norm), *(["iter"] if role == "steps" else [])):
            own = getattr(runner.module, name, None)
            if isinstance(own, Tensor) and own.numel() == 1:
                own.fill_(settings[role])
            elif isinstance(own, int) and not isinstance(own, bool):
                setattr(runner.module, name, settings[role])
    for name, buffer in runner.module.named_buffers():
        if buffer.numel() == 1 and any(word in name for word in ("calls", "count")):
            buffer.zero_()
    return runner


def _lead(
    exam: Exam,
    runner: ModuleRunner,
    draw: Generator,
    cases: Sequence[Case],
    leaves: Mapping[str, Tensor],
    training: bool = True,
) -> list[Call]:
    """Call the module on each case; a gradient that does not arrive counts as 0."""
    calls = []
    for case in cases:
        x = case.x.clone().requires_grad_()
        kept = {name: value.clone() for name, value in runner.module.state_dict().items()}
        y = exam.call(runner, x, case, training)
        top = torch.randn(case.x.shape, generator=draw, dtype=case.x.dtype) + 0.5
        if not training:
            _hold_state(case, kept, runner.module.state_dict())
            calls.append(Call(case, top, False, {EVALUATION: y.detach()}))
            continue
        if not y.requires_grad:
            raise Broken(f"on {case} the result has no gradient", CUT)
        try:
            grads = torch.autograd.grad(y, [x, *leaves.values()], top, allow_unused=True)
        except Exception as error:
            raise Broken(f"on {case} the backward pass raised {told(error)}") from error
        came = {RESULT: y.detach()}
        for (name, leaf), grad in zip({"x": x, **leaves}.items(), grads, strict=True):
            came[f"gradient of {name}"] = torch.zeros_like(leaf) if grad is None else grad
        for name, buffer in _stored(exam, runner).items():
            came[name] = buffer.detach().flatten().clone()
        calls.append(Call(case, top, True, came))
    return calls


def _stored(exam: Exam, runner: ModuleRunner) -> dict[str, Tensor]:
    """Find φ, or the running statistics."""
    if exam.norm.runs:
        if (running := runner.running()) is None:
            raise Broken("it keeps no running mean and variance", "RepBN needs them for evaluation")
        return dict(zip(("running mean", "running variance"), running, strict=True))
    for name, buffer in runner.module.named_buffers():
        if buffer.numel() == exam.dim and any(w in name for w in ("phi", "square", "running")):
            return {"φ": buffer}
    return {}


def _hold_state(case: Case, kept: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> None:
    for name, value in now.items():
        if not torch.equal(value, kept[name]):
            raise Broken(
                f"on {case} {name} changed in evaluation",
                "something is counted or updated in evaluation; only training may",
            )


def _hold(
    exam: Exam, calls: list[Call], rule: Rule, own: Mapping[str, Tensor], *parts: str
) -> None:
    """Compare some parts of what came with what the rule gives."""

    def first_other(rule: Rule, parts: Sequence[str]) -> tuple[Call, str, Tensor] | None:
        for call, wanted in zip(calls, rule.follow(calls, own), strict=True):
            for part in parts:
                if part in call.came and not _close(exam, call.case, call.came[part], wanted[part]):
                    return call, part, wanted[part].detach()
        return None

    if (other := first_other(rule, parts)) is None:
        return
    call, part, wanted = other
    wrong = [(sentence, replace(rule, **change)) for sentence, change in MISTAKES[type(rule)]]
    # What explains all that came is more likely than what explains this law's part of it.
    everything = tuple({part for call in calls for part in call.came})
    causes = [sentence for some in (everything, parts)
              for sentence, r in wrong if r != rule and first_other(r, some) is None]  # fmt: skip
    if "gradient" in part and not call.came[part].any():
        causes.append(CUT)
    raise Broken(describe(call.case, call.came[part], wanted, f", {part}"), *causes[:1])


def _close(exam: Exam, case: Case, came: Tensor, wanted: Tensor) -> bool:
    if came.numel() != wanted.numel():
        return False
    wanted = wanted.reshape(came.shape)
    within = (came.double() - wanted).abs() <= 1e-4 * (wanted.abs() + wanted.abs().max())
    return bool((exam.real(case, within, True) if came.shape == case.x.shape else within).all())


# --- the laws ---


def _start(
    exam: Exam, settings: Mapping[str, int]
) -> tuple[ModuleRunner, Rule, dict[str, Tensor], dict[str, Tensor]]:
    """Open a copy; say its rule, and its parameters in float64 and as leaves."""
    if exam.norm.runs:
        own = _neutral(exam.dim)
        rule = Progressive(exam.expected("eps"), settings.get("warm", 0))
        return _open(exam, {"steps": STEPS, "warm": 0, **settings}), rule, own, {}
    settings = {"warmup": WARMUP, **settings}
    if exam.subject.is_class:  # those of a module are a part of what it is
        settings["groups"] = 2 if exam.dim % 2 == 0 else 1
    runner = _open(exam, settings)

    def used(role: str) -> int:
        if role in exam.subject.sets:
            return settings[role]
        own = (getattr(runner.module, name, None) for name in names_of(role, exam.norm))
        return next((one for one in own if isinstance(one, int)), int(exam.expected(role)))

    leaves = {exam.norm.learned[role].name: p for role, p in runner.parameters.items()}
    own = {"the gain": torch.ones(exam.dim), "the shift": torch.zeros(exam.dim), **leaves}
    own = {name: p.detach().double() for name, p in own.items()}
    return runner, Power(exam.expected("eps"), used("groups"), used("warmup")), own, leaves


def follows(
    does: str,
    *parts: str,
    calls: int = 6,
    shapes: int = 2,
    masked: bool = False,
    evaluate: bool = False,
    **settings: int,
) -> Law:
    """Make the law that some of what each call gives and stores is the rule's."""

    def law(exam: Exam, draw: Generator) -> None:
        if (masked and not exam.subject.takes_mask) or (
            "warm" in settings and "warm" not in exam.subject.sets
        ):
            raise Untested()
        for shape in exam.shapes[:shapes]:
            runner, rule, own, leaves = _start(exam, settings)
            cases = _inputs(exam, draw, shape, calls)
            cases = [exam.masked(draw, case) for case in cases] if masked else cases
            seen = _lead(exam, runner, draw, cases, leaves)
            if evaluate:
                case = exam.case(draw, shape, f"evaluation after {calls} training calls", scale=2.0)
                some = [case, replace(case, x=case.x[:1])]
                seen += _lead(exam, runner, draw, some, leaves, training=False)
            _hold(exam, seen, rule, own, *parts)

    law.__doc__ = does
    return law


def _inputs(
    exam: Exam, draw: Generator, shape: Shape, calls: int, dtype: torch.dtype = torch.float32
) -> list[Case]:
    """Draw one input for each training call, each with other statistics."""
    return [
        exam.case(draw, shape, f"training call {t}", scale=1 + 0.5 * t, offset=0.3 * t, dtype=dtype)
        for t in range(1, calls + 1)
    ]


def _neutral(dim: int) -> dict[str, Tensor]:
    """Return the parameters that PRepBN starts with."""
    one, zero = torch.ones(dim).double(), torch.zeros(dim).double()
    eta = torch.ones(()).double()
    return {"layer weight": one, "layer bias": zero, "weight": one, "bias": zero, "eta": eta}


def parameters(exam: Exam, draw: Generator) -> None:
    """Use each branch's own gain and shift, and one number eta; give their gradients."""
    runner = _open(exam, {"steps": STEPS, "warm": 0}, torch.float64)
    rule, own = Progressive(exam.expected("eps")), _neutral(exam.dim)
    found = dict(runner.module.named_parameters())
    *first, last = _inputs(exam, draw, exam.shapes[0], 3, torch.float64)
    calls = _lead(exam, runner, draw, first, found)
    came, right = calls[-1].came, rule.follow(calls, own)[-1]
    roles: dict[str, Tensor] = {}  # who is who: λ is ¾ here, so that no two gradients are alike
    for name, parameter in found.items():
        grad, eta = came[f"gradient of {name}"], right["gradient of eta"]
        if parameter.numel() == exam.dim and gradient_close(last, grad.sum(), eta):
            raise Broken(
                f"{name} holds {parameter.numel()} values, eta is one number",
                "eta is one number for the whole layer; here it is one for each channel",
            )
        fits = (role for role in own if role not in roles
                and gradient_close(last, grad, right[f"gradient of {role}"]))  # fmt: skip
        roles[next(fits, name)] = parameter
    if roles.keys() != own.keys():
        raise Broken(
            f"the parameters are {', '.join(found)}; a gain and a shift for each branch and one "
            "eta are wanted, each with the gradient of the formula at λ = 0.75"
        )
    for role, parameter in roles.items():
        own[role] = torch.randn(own[role].shape, generator=draw, dtype=torch.float64) + 0.5
        with torch.no_grad():
            parameter.copy_(own[role].reshape(parameter.shape))
    calls += _lead(exam, runner, draw, [replace(last, about="random parameters, λ = 0.5")], roles)
    # What came before these parameters is not asked again.
    calls = [call._replace(came={}) for call in calls[:-1]] + calls[-1:]
    _hold(exam, calls, rule, own, RESULT, *(f"gradient of {role}" for role in ("x", *own)))


def dtype_kept(exam: Exam, draw: Generator) -> None:
    """Return the input's dtype in training and evaluation, PowerNorm right up to its rounding."""
    for dtype in (torch.float64, torch.float32, *HALF):
        case = exam.case(draw, dtype=dtype)
        runner = exam.open(case)
        y, evaluated = exam.run(case, runner), exam.run(case, runner, training=False)
        for one in (y, evaluated):
            if one.dtype != dtype:
                raise Broken(f"on {case} the result is {one.dtype}; a norm returns the dtype of x")
        if exam.norm.runs:
            continue
        rule = Power(exam.expected("eps"), int(exam.expected("groups")))
        own = {"the gain": torch.ones(exam.dim).double(), "the shift": torch.zeros(exam.dim)}
        call = Call(case, torch.ones_like(case.x), True, {})
        wanted = rule.follow([call], own)[0][RESULT].detach()
        room = max(4 * torch.finfo(dtype).eps, 1e-9) * wanted.abs() + 1e-9
        if not bool(((y.double() - wanted).abs() <= room).all()):
            cause = "float64 is converted to float32 on the way" if dtype == torch.float64 else ""
            if dtype in HALF:
                cause = "the mean squares are computed in the input's half precision"
            raise Broken(describe(case, y, wanted), cause)


_CODE = "Follow the authors' code from call to call."
_SLOPES = ("gradient of x", "gradient of the gain", "gradient of the shift")
POWER_LAWS: dict[str, Law] = {
    "value in the warm-up": follows(_CODE, RESULT, warmup=100),
    "inputs kept": inputs_kept,
    "value after the warm-up": follows(_CODE, RESULT),
    "running mean square": follows(_CODE, "φ"),
    "gradients": follows(_CODE, *_SLOPES),
    "padding left out": follows(_CODE, RESULT, masked=True),
    "padding left out of φ": follows(_CODE, "φ", masked=True),
    "evaluation uses φ": follows(
        "Use φ alone in evaluation, one token or many, and change nothing.",
        EVALUATION, evaluate=True,
    ),
    "dtype kept": dtype_kept,
}  # fmt: skip
_RUNNING = ("running mean", "running variance")
PROGRESSIVE_LAWS: dict[str, Law] = {
    "layer norm at first": follows(
        "Be layer norm at the first training call.", RESULT, calls=1, shapes=9
    ),
    "schedule": follows(
        "Go from layer norm to RepBN in equal steps, one for each training call.",
        RESULT, calls=STEPS + 3,
    ),
    "warm phase": follows(
        "Stay layer norm for `warm` calls, before the schedule starts and RepBN learns.",
        RESULT, *_RUNNING, calls=STEPS + 3, warm=2,
    ),
    "inputs kept": inputs_kept,
    "running statistics": follows(
        "Learn the running statistics from the first training call on, whatever λ is.",
        *_RUNNING, calls=3,
    ),
    "evaluation is RepBN": follows(
        "Be RepBN alone in evaluation, whatever λ is, and change nothing.",
        EVALUATION, calls=2, evaluate=True,
    ),
    "parameters": parameters,
    "padding left out": follows(
        "Leave padding out of the statistics, where the mask is False.",
        RESULT, calls=4, masked=True,
    ),
    "dtype kept": dtype_kept,
}  # fmt: skip
