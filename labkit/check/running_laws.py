"""The laws of running statistics: moved in training, used in evaluation."""

from typing import NamedTuple

import torch
from torch import Tensor

from labkit.check.batch_laws import kept_as_buffers
from labkit.check.case import Broken, Case, Untested
from labkit.check.exam import Exam
from labkit.check.gradient_laws import gradient_close, wanted_gradient


class Statistics(NamedTuple):
    """A mean and a variance for each channel, float64."""

    mean: Tensor
    var: Tensor


def running_update(exam: Exam) -> None:
    """Move the running statistics towards the batch's: (1 − m)·running + m·batch, var unbiased."""
    _needs_running(exam)
    if exam.subject.is_module:
        kept_as_buffers(exam)
    draw = exam.generator("running")
    choices = (exam.subject.momentum,) if exam.subject.is_module else (None, 0.3, 1.0, 0.0)
    for shape in exam.shapes[:2]:
        for momentum in choices:
            _steps(exam, draw, shape, momentum)
    for shape in exam.shapes[2:4]:
        _steps(exam, draw, shape, choices[0])
    _steps(exam, draw, exam.shapes[0], choices[0], dtype=torch.bfloat16)
    if exam.subject.takes_mask:
        for shape in exam.shapes[:2]:
            _steps(exam, draw, shape, choices[0], masked=True)


def _steps(
    exam: Exam,
    draw: torch.Generator,
    shape: tuple[int, ...],
    momentum: float | None,
    masked: bool = False,
    dtype: torch.dtype = torch.float32,
) -> None:
    case = exam.case(draw, shape, "training", dtype=dtype)
    expected = statistics(draw, shape[1])
    buffers = tuple(t.float() for t in expected)
    named = {} if exam.subject.is_module or momentum is None else {"momentum": momentum}
    runner = exam.open(case, running=buffers, **named)
    tracked = getattr(getattr(runner, "module", None), "num_batches_tracked", None)
    seen = int(tracked) if tracked is not None else 0
    for step in range(1, 4):
        about = f"training step {step}" + ", with a mask" * masked
        case = exam.case(draw, shape, about, offset=float(step), dtype=dtype)
        if masked:
            mask = torch.rand((shape[0], *shape[2:]), generator=draw) < 0.7
            mask.view(-1)[:3] = torch.tensor([True, True, False])
            case = case.but(mask=mask)
        if exam.subject.is_module and momentum is None:
            weight = 1.0 / (seen + step)  # torch's momentum=None: the average of all batches
        else:
            weight = 0.1 if momentum is None else momentum
        before, expected = expected, moved(expected, case, weight)
        exam.call(runner, case.x.clone().requires_grad_(), case)
        now = runner.running()
        assert now is not None
        if any(t.requires_grad for t in now):
            raise Broken(
                f"on {case} the running statistics carry a gradient graph, which grows each step",
                "the buffers are updated without no_grad() or detach()",
            )
        for name, actual, wanted in zip(("mean", "var"), now, expected, strict=True):
            if not torch.allclose(actual.double(), wanted, rtol=1e-4, atol=1e-4):
                place = f"running_{name} of channel 0 came {actual[0].item():.6g}"
                raise Broken(
                    f"on {case}, momentum {weight:g}, {place}, expected {wanted[0].item():.6g} "
                    f"(before {getattr(before, name)[0].item():.6g})",
                    why_running(Statistics(*now), before, case, weight),
                )


def batch_rows(case: Case) -> Tensor:
    """List the real tokens as float64 rows of channels (axis 1)."""
    rows = case.x.double().movedim(1, -1)
    mask = case.given.get("mask")
    return rows.flatten(0, -2) if mask is None else rows[mask]


def moved(old: Statistics, case: Case, weight: float, correction: int = 1) -> Statistics:
    """Move running statistics by one batch."""
    rows = batch_rows(case)
    batch = Statistics(rows.mean(0), rows.var(0, correction=correction))
    return Statistics(*(o + weight * (b - o) for o, b in zip(old, batch, strict=True)))


def why_running(now: Statistics, before: Statistics, case: Case, weight: float) -> str:
    """Name the mistake that explains running statistics, if one does."""
    rows = batch_rows(case)
    biased = moved(before, case, weight, correction=0)
    std = before.var + weight * (rows.std(0) - before.var)
    summed = before.var * (1 - weight) + weight * rows.var(0) * rows.shape[0]
    right = moved(before, case, weight)
    reverse = moved(before, case, 1 - weight)
    outcomes = (
        ("the biased variance is stored; the running one divides by n − 1", biased),
        ("momentum is the other way round: it weighs the new batch here, as in torch", reverse),
        ("momentum is the other way round, and the biased variance is stored",
         moved(before, case, 1 - weight, correction=0)),
        ("the running statistics are not updated in place", before),
        ("the batch's statistics replace the running ones", moved(before, case, 1.0)),
        ("the batch's statistics replace the running ones", moved(before, case, 1.0, 0)),
        ("momentum is not used", moved(before, case, 0.1)),
        ("the standard deviation is stored, not the variance", Statistics(biased.mean, std)),
        ("the running mean is updated, the running variance is not",
         Statistics(right.mean, before.var)),
        ("the running variance is updated, the running mean is not",
         Statistics(before.mean, right.var)),
        ("the sum of squares is stored, not their mean", Statistics(biased.mean, summed)),
        ("the running statistics count padding: the mask is ignored there",
         moved(before, case.but(mask=None), weight)),
        ("momentum is the other way round for the mean", Statistics(reverse.mean, right.var)),
        ("momentum is the other way round for the variance", Statistics(right.mean, reverse.var)),
    )  # fmt: skip
    for sentence, outcome in outcomes:
        pairs = zip(now, outcome, strict=True)
        if all(torch.allclose(a.double(), b, rtol=1e-4, atol=1e-4) for a, b in pairs):
            return sentence
    return ""


def training_uses_batch(exam: Exam) -> None:
    """Normalize with the batch's own statistics in training, whatever the running ones are."""
    _needs_running(exam)
    draw = exam.generator("training")
    case = exam.case(draw, about="training, running statistics far from the batch's")
    runner = exam.open(case, running=tuple(t.float() + 4 for t in statistics(draw, exam.dim)))
    y = exam.run(case, runner)
    exam.judge([case], [y], 2e-5, 2e-5, "the running statistics take part in training")


def evaluation_uses_running(exam: Exam) -> None:
    """Normalize with the running statistics in evaluation, one sample or many, and keep them."""
    _needs_running(exam)
    draw = exam.generator("evaluation")
    stored = statistics(draw, exam.dim)
    eps = exam.expected("eps")
    small = Statistics(stored.mean, stored.var * eps)
    plain, *others = exam.shapes[:4]
    for values, shape in ((stored, plain), (stored, (1, *plain[1:])), (small, plain),
                          *((stored, s) for s in others)):  # fmt: skip
        case = exam.case(draw, shape, "evaluation, running statistics given", learned=exam.learned)
        buffers = Statistics(*(t.float() for t in values))
        case = case.but(running=tuple(t.double() for t in buffers))
        if exam.subject.takes_mask:
            case = case.but(mask=torch.ones((shape[0], *shape[2:]), dtype=torch.bool))
        runner = exam.open(case, running=tuple(t.clone() for t in buffers))
        top = torch.randn(shape, generator=draw)
        x = case.x.clone().requires_grad_()
        y = exam.call(runner, x, case, training=False)
        _judge_evaluation(exam, case, y.detach())
        (grad,) = torch.autograd.grad(y, x, top) if y.requires_grad else (torch.zeros(shape),)
        wanted = wanted_gradient(exam, case, top, "x", exam.spec.formula)
        if not gradient_close(case, grad.double(), wanted):
            raise Broken(
                f"on {case} the gradient of x is not that of the affine map",
                "the graph is cut, or the batch's statistics take part, in evaluation",
            )
        now = runner.running()
        assert now is not None
        if not all(torch.equal(a, b) for a, b in zip(now, buffers, strict=True)):
            raise Broken(
                f"on {case} the running statistics changed",
                "they are updated in evaluation too; only training may",
            )

    for dtype, room in ((torch.float64, 1e-9), (torch.bfloat16, 0.02)):
        about = "evaluation, running statistics given"
        case = exam.case(draw, plain, about, learned=exam.learned, dtype=dtype)
        buffers = tuple(t.to(exam.parameter_dtype(dtype)) for t in stored)
        case = case.but(running=buffers)
        y = exam.run(case, exam.open(case), training=False)
        exam.judge([case], [y], room, room)


def _judge_evaluation(exam: Exam, case: Case, y: Tensor) -> None:
    try:
        exam.judge([case], [y], 1e-4, 1e-4)
    except Broken as broken:
        if broken.cause and "evaluation" not in broken.cause:
            broken.cause += " (in evaluation)"
        raise


def _needs_running(exam: Exam) -> None:
    if not exam.subject.has_running:
        raise Untested()


def statistics(draw: torch.Generator, channels: int) -> Statistics:
    """Draw running statistics."""
    mean = torch.randn(channels, generator=draw)
    var = 0.5 + torch.rand(channels, generator=draw)
    return Statistics(mean.double(), var.double())
