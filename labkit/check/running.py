"""Laws about batch norms: padding is ignored, statistics are updated in training and then used."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from labkit.check.case import Broken, Case, Untested, describe
from labkit.check.exam import Exam
from labkit.check.gradients import find_gradient, is_gradient_close
from labkit.check.subject import Module, ModuleRunner, find_buffer


class Statistics(NamedTuple):
    """A mean and a variance for each channel."""

    mean: Tensor
    var: Tensor


def hold_padding(exam: Exam, draw: Generator) -> None:
    """Require statistics of real tokens only (mask True), whatever the padding contains."""
    if not exam.subject.takes_mask:
        raise Untested()
    for shape in exam.shapes[:2]:
        for fill in (0.0, 300.0):
            about = f"with a mask, padding filled with {fill:g}"
            case = exam.add_mask(draw, exam.draw_case(draw, shape, about, learned=exam.learned))
            mask = case.given["mask"]
            spread = mask.unsqueeze(exam.norm.formula.features)
            # Padding of 300 would move any statistic that it entered.
            case.x.copy_(torch.where(spread, case.x, case.x + fill))
            exam.compare([case])
            exam.compare([case.but(mask=torch.ones_like(mask))])
            # No gradient arrives at padding.
            top, x = torch.randn(shape, generator=draw) * spread, case.x.clone().requires_grad_()
            (grad,) = torch.autograd.grad(exam.call(exam.open_runner(case), x, case), x, top)
            wanted = find_gradient(exam, case, top, "x", exam.norm.formula)
            if not is_gradient_close(case, grad.double(), wanted):
                raise Broken(describe(case, grad, wanted, ", gradient of x"))


def hold_running_update(exam: Exam, draw: Generator) -> None:
    """Require the update of the running statistics: (1 − m)·running + m·batch, var unbiased."""
    _need_running(exam)
    if exam.subject.is_module:
        _hold_buffers(exam, draw)
    momenta = (exam.subject.momentum,) if exam.subject.is_module else (None, 0.3, 1.0, 0.0)
    for shape in exam.shapes[:2]:
        for momentum in momenta:
            _run_steps(exam, draw, shape, momentum)
        if exam.subject.takes_mask:
            _run_steps(exam, draw, shape, momenta[0], masked=True)
    for shape in exam.shapes[2:4]:
        _run_steps(exam, draw, shape, momenta[0])
    _run_steps(exam, draw, exam.shapes[0], momenta[0], dtype=torch.bfloat16)


def _run_steps(
    exam: Exam,
    draw: Generator,
    shape: tuple[int, ...],
    momentum: float | None,
    masked: bool = False,
    dtype: torch.dtype = torch.float32,
) -> None:
    expected = _draw_statistics(draw, shape[1])
    buffers = tuple(t.float() for t in expected)
    named = {} if exam.subject.is_module or momentum is None else {"momentum": momentum}
    runner = exam.open_runner(exam.draw_case(draw, shape, dtype=dtype), running=buffers, **named)
    tracked = getattr(getattr(runner, "module", None), "num_batches_tracked", None)
    seen = 0 if tracked is None else int(tracked)
    for step in range(1, 4):
        about = f"training step {step}" + ", with a mask" * masked
        case = exam.draw_case(draw, shape, about, offset=float(step), dtype=dtype)
        case = exam.add_mask(draw, case, 0.7) if masked else case
        weight = 0.1 if momentum is None else momentum
        if exam.subject.is_module and momentum is None:
            weight = 1.0 / (seen + step)  # torch's momentum=None: the average of all batches
        y = exam.call(runner, case.x.clone().requires_grad_(), case)
        if y.requires_grad:
            y.sum().backward()  # under checkpointing this normalizes again
        expected = _hold_move(case, expected, runner.running(), weight)


def _hold_move(
    case: Case, before: Statistics, came: tuple[Tensor, Tensor] | None, weight: float
) -> Statistics:
    """Check the running statistics after a training call; name a mistake; return the right ones."""
    assert came is not None
    if any(t.requires_grad for t in came):
        raise Broken(
            f"on {case} the running statistics must not require a gradient, but they carry a "
            "graph that grows with each step",
            "the buffers are updated without no_grad() or detach()",
        )
    moves = _list_moves(before, case, weight)
    fits = [_are_close(came, move) for _, move in moves]
    right = moves[0][1]
    if fits[0]:
        return right
    name = "mean" if not torch.allclose(came[0].double(), right.mean, 1e-4, 1e-4) else "var"
    now, wanted, old = (getattr(Statistics(*s), name)[0].item() for s in (came, right, before))
    raise Broken(
        f"on {case} with momentum {weight:g}, running_{name} of channel 0 must be {wanted:.6g} "
        f"after the update, but is {now:.6g} (before: {old:.6g})",
        next((sentence for (sentence, _), fit in zip(moves, fits, strict=True) if fit), ""),
    )


def _are_close(came: tuple[Tensor, Tensor], wanted: Statistics) -> bool:
    pairs = zip(came, wanted, strict=True)
    return all(torch.allclose(a.double(), b, rtol=1e-4, atol=1e-4) for a, b in pairs)


def _list_moves(before: Statistics, case: Case, weight: float) -> list[tuple[str, Statistics]]:
    """List candidate statistics after one training call: first the right ones, then mistakes."""
    rows = case.x.double().movedim(1, -1)
    mask, everything = case.given.get("mask"), rows.flatten(0, -2)
    rows = everything if mask is None else rows[mask]
    mean, var, n = rows.mean(0), rows.var(0), len(rows)

    def to(mean: Tensor, var: Tensor, share: float = weight) -> Statistics:
        pairs = zip(before, (mean, var), strict=True)
        return Statistics(*(old + share * (new - old) for old, new in pairs))

    right, reverse = to(mean, var), to(mean, var, 1 - weight)
    return [
        ("", right),
        ("the biased variance is stored; the running one divides by n − 1",
         to(mean, rows.var(0, correction=0))),
        ("momentum is the other way round: it weighs the new batch here, as in torch", reverse),
        ("the running statistics are not updated in place", before),
        ("the statistics move twice in one call, as a forward pass that is done again moves them "
         "(activation checkpointing)", to(mean, var, 1 - (1 - weight) ** 2)),
        ("the batch's statistics replace the running ones", to(mean, var, 1.0)),
        ("momentum is not used", to(mean, var, 0.1)),
        ("the standard deviation is stored, not the variance", to(mean, rows.std(0))),
        ("the running mean is updated, the running variance is not",
         Statistics(right.mean, before.var)),
        ("the running variance is updated, the running mean is not",
         Statistics(before.mean, right.var)),
        ("the sum of squares is stored, not their mean", to(mean, var * n)),
        ("the running statistics count padding: the mask is ignored there",
         to(everything.mean(0), everything.var(0))),
        ("momentum is the other way round for the mean", Statistics(reverse.mean, right.var)),
        ("momentum is the other way round for the variance", Statistics(right.mean, reverse.var)),
    ]  # fmt: skip


def _hold_buffers(exam: Exam, draw: Generator) -> None:
    """Check that a module registers its statistics as buffers that start at mean 0, variance 1."""
    runner = exam.open_runner(exam.draw_case(draw))
    assert isinstance(runner, ModuleRunner)
    registered = [*runner.module.buffers(), *runner.module.parameters()]
    for kind, start in (("mean", 0.0), ("var", 1.0)):
        own = find_buffer(runner.module, kind)
        if own is None:
            continue
        if not any(own is one for one in registered):
            raise Broken(
                f"the running {kind} must be a buffer, but is none, so state_dict() and .to() "
                "leave it out",
                "a plain tensor is used in place of register_buffer(…)",
            )
        if isinstance(exam.subject, Module) and exam.subject.is_class and (own != start).any():
            actual = own.flatten()[0].item()
            raise Broken(
                f"the running {kind} of a new module is {actual:g}, expected {start:g}",
                f"the running {kind} starts at {actual:g}; it must start at {start:g}",
            )


def hold_evaluation_uses_running(exam: Exam, draw: Generator) -> None:
    """Require unchanged running statistics in evaluation, for one sample or many."""
    _need_running(exam)
    stored = _draw_statistics(draw, exam.dim)
    # A variance as large as eps, where its place in the root shows.
    small = Statistics(stored.mean, stored.var * exam.find_setting("eps"))
    plain, *others = exam.shapes[:4]
    about = {"about": "evaluation, running statistics given", "learned": exam.learned}
    for values, shape in (
        (stored, plain),
        (stored, (1, *plain[1:])),
        (small, plain),
        *((stored, s) for s in others),
    ):
        case = exam.draw_case(draw, shape, **about)
        buffers = Statistics(*(t.float() for t in values))
        case = case.but(running=tuple(t.double() for t in buffers))
        if exam.subject.takes_mask:
            case = case.but(mask=torch.ones((shape[0], *shape[2:]), dtype=torch.bool))
        runner = exam.open_runner(case, running=tuple(t.clone() for t in buffers))
        top = torch.randn(shape, generator=draw)
        x = case.x.clone().requires_grad_()
        y = exam.call(runner, x, case, training=False)
        exam.judge([case], [y.detach()], 1e-4, 1e-4)
        (grad,) = torch.autograd.grad(y, x, top) if y.requires_grad else (torch.zeros(shape),)
        wanted = find_gradient(exam, case, top, "x", exam.norm.formula)
        if not is_gradient_close(case, grad.double(), wanted):
            raise Broken(
                f"on {case} the gradient of x must be that of the affine map, but is not",
                "the graph is cut, or the batch's statistics take part, in evaluation",
            )
        now = runner.running()
        assert now is not None
        if not all(torch.equal(a, b) for a, b in zip(now, buffers, strict=True)):
            raise Broken(
                f"evaluation must not change the running statistics, but on {case} they changed",
                "they are updated in evaluation as well as in training",
            )
    for dtype, room in ((torch.float64, 1e-5), (torch.bfloat16, 0.02)):
        case = exam.draw_case(draw, plain, **about, dtype=dtype)
        case = case.but(running=tuple(t.to(exam.find_parameter_dtype(dtype)) for t in stored))
        y = exam.run(case, exam.open_runner(case), training=False)
        exam.judge([case], [y], room, room)


def _need_running(exam: Exam) -> None:
    if not exam.subject.has_running:
        raise Untested()


def _draw_statistics(draw: Generator, channels: int) -> Statistics:
    mean = torch.randn(channels, generator=draw)
    var = 0.5 + torch.rand(channels, generator=draw)
    return Statistics(mean.double(), var.double())
