"""The law of PRepBN's parameters, and what its laws share: a short schedule, one input a call."""

import torch
from torch import Tensor

from labkit.check.case import Broken, Case, describe
from labkit.check.exam import Exam
from labkit.check.gradient_laws import gradient_close
from labkit.check.module import ModuleRunner
from labkit.check.progressive_rule import STEPS, Blend, neutral
from labkit.check.subject import names_of


def open_short(exam: Exam, warm: int = 0, dtype: torch.dtype = torch.float32) -> ModuleRunner:
    """Make one with a short schedule: by its constructor, or by its own attributes."""
    named = {role: value for role, value in (("steps", STEPS), ("warm", warm))
             if role in exam.subject.sets}  # fmt: skip
    runner = exam.open(exam.case(exam.generator("open"), dtype=dtype), **named)
    assert isinstance(runner, ModuleRunner)
    for role, value in (("steps", STEPS), ("warm", warm)):
        for name in () if role in named else (*names_of(role, exam.spec), "iter"):
            own = getattr(runner.module, name, None)
            if isinstance(own, Tensor) and own.numel() == 1 and (name != "iter" or role == "steps"):
                own.fill_(value)
            elif isinstance(own, int) and not isinstance(own, bool):
                setattr(runner.module, name, value)
    for name, buffer in runner.module.named_buffers():
        if buffer.numel() == 1 and any(w in name.split(".")[-1] for w in ("calls", "count")):
            buffer.zero_()
    return runner


def inputs(exam: Exam, law: str, calls: int, dtype=torch.float32) -> list[Case]:
    """Draw one input for each training call."""
    draw = exam.generator(law)
    shapes = [s for s in exam.shapes if len(s) == 3] or list(exam.shapes)
    return [
        exam.case(draw, shapes[0], f"training call {i + 1}, a schedule of {STEPS} steps",
                  offset=0.3 * i, dtype=dtype)
        for i in range(calls)
    ]  # fmt: skip


def close(y: Tensor, wanted: Tensor, room: float = 1e-4) -> bool:
    """Compare with the largest entry in mind."""
    return bool(((y.double() - wanted).abs() <= room * (wanted.abs() + wanted.abs().max())).all())


def learned(exam: Exam) -> None:
    """Use each branch's own gain and shift, and one number eta; give their gradients."""
    runner, draw, dim = open_short(exam, dtype=torch.float64), exam.generator("own"), exam.dim
    first, second, third = inputs(exam, "own", 3, torch.float64)
    found = dict(runner.module.named_parameters())
    y = exam.run(first, runner)
    if not y.requires_grad:
        raise Broken(f"on {first} the result has no gradient", "the graph is cut")
    # λ is 1 here, so that only the parameters of layer norm count.
    top = torch.randn(y.shape, generator=draw, dtype=torch.float64)
    grads = torch.autograd.grad(y, list(found.values()), top, allow_unused=True)
    own: dict[str, Tensor] = {}
    roles: dict[str, Tensor] = {}
    for (name, parameter), grad in zip(found.items(), grads, strict=True):
        layer = "layer " if grad is not None and bool(grad.abs().max() > 1e-9) else ""
        stem = name.split(".")[-1]
        # What is no gain and no shift in RepBN is eta.
        kind = next((r for r in ("weight", "bias") if stem in names_of(r, exam.spec)), "eta")
        if kind == "eta" and parameter.numel() != 1:
            raise Broken(
                f"{name} holds {parameter.numel()} values, eta is one number",
                "eta is one number for the whole layer; here it is one for each channel",
            )
        with torch.no_grad():
            parameter.copy_(torch.randn(parameter.shape, generator=draw).double() + 0.5)
        roles[layer + kind] = parameter
        own[layer + kind] = parameter.detach().reshape(-1 if kind != "eta" else ()).clone()
    own = {role: p.requires_grad_() for role, p in {**neutral(dim), **own}.items()}
    if len(roles) != len(found) or not own.keys() >= roles.keys():
        raise Broken(
            f"the parameters are {', '.join(found)}; a gain and a shift for each branch and one "
            "eta are wanted, those of layer norm alone acting at the first call"
        )
    exam.run(second, runner)
    x, twin = third.x.clone().requires_grad_(), third.x.clone().requires_grad_()
    y = exam.call(runner, x, third)
    wanted = Blend()(twin, 2, exam.expected("eps"), own)
    if not close(y.detach(), wanted.detach()):
        raise Broken(describe(third, y.detach(), wanted.detach(), ", random parameters, λ = 0.5"))
    actual = torch.autograd.grad(y, [x, *roles.values()], top, allow_unused=True)
    right = torch.autograd.grad(wanted, [twin, *(own[role] for role in roles)], top)
    for name, grad, expected in zip(("x", *roles), actual, right, strict=True):
        if grad is None or not gradient_close(third, grad.double(), expected):
            raise Broken(f"on {third} the gradient of {name} is not the formula's",
                         "" if grad is not None else "the graph is cut")  # fmt: skip
