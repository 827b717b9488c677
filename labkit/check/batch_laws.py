"""The laws of batch norm alone: samples are coupled, and statistics run along."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from labkit.check.exam import Broken, Case, Exam, Untested, describe


class Statistics(NamedTuple):
    """A mean and a variance for each channel, float64."""

    mean: Tensor
    var: Tensor


def batch_coupling(exam: Exam) -> None:
    """Let every sample's result depend on the other samples of the batch."""
    draw = exam.generator("coupling")
    case = exam.case(draw, about="another first sample in the batch")
    x = case.x.clone()
    x[0] = 4 - 3 * x[0]
    before, after = exam.run(case), exam.run(replace(case, x=x))
    if torch.allclose(before[1:], after[1:], rtol=1e-4, atol=1e-4):
        raise Broken(
            f"on {case} the other samples' results stayed the same: the batch is not shared",
            "the statistics are those of each sample, not of the batch",
        )


def running_update(exam: Exam) -> None:
    """Move the running statistics towards the batch's: (1 − m)·running + m·batch, var unbiased."""
    _needs_running(exam)
    draw = exam.generator("running")
    choices = (exam.subject.momentum,) if exam.subject.is_module else (None, 0.3)
    for shape in exam.shapes[:2]:
        for momentum in choices:
            _three_steps(exam, draw, shape, momentum)


def _three_steps(
    exam: Exam, draw: torch.Generator, shape: tuple[int, ...], momentum: float | None
) -> None:
    case = exam.case(draw, shape, "training")
    start = _statistics(draw, shape[1])
    buffers = tuple(t.float() for t in start)
    runner = exam.open(case, running=buffers, momentum=None if exam.subject.is_module else momentum)
    module = getattr(runner, "module", None)
    tracked = getattr(module, "num_batches_tracked", None)
    seen = int(tracked) if tracked is not None else 0
    expected = start
    for step in range(1, 4):
        case = exam.case(draw, shape, f"training step {step}", offset=float(step))
        if exam.subject.is_module and momentum is None:
            weight = 1.0 / (seen + step)  # torch's momentum=None: the average of all batches
        else:
            weight = 0.1 if momentum is None else momentum
        x = case.x.clone().requires_grad_()
        before, expected = expected, _moved(expected, case, weight)
        exam.call(runner, x, str(case))
        now = runner.running()
        assert now is not None
        if any(t.requires_grad for t in now):
            raise Broken(
                f"on {case} the running statistics carry a gradient graph, which grows each step",
                "the buffers are updated without no_grad() or detach()",
            )
        for name, came, wanted in zip(("mean", "var"), now, expected, strict=True):
            if not torch.allclose(came.double(), wanted, rtol=1e-4, atol=1e-4):
                place = f"running_{name} of channel 0 came {came[0].item():.6g}"
                raise Broken(
                    f"on {case}, momentum {weight:g}, {place}, expected {wanted[0].item():.6g} "
                    f"(before {getattr(before, name)[0].item():.6g})",
                    _why_running(Statistics(*now), before, case, weight),
                )


def _moved(old: Statistics, case: Case, weight: float, correction: int = 1) -> Statistics:
    rows = case.x.double().movedim(1, -1).flatten(0, -2)
    batch = Statistics(rows.mean(0), rows.var(0, correction=correction))
    return Statistics(*(o + weight * (b - o) for o, b in zip(old, batch, strict=True)))


def _why_running(now: Statistics, before: Statistics, case: Case, weight: float) -> str:
    rows = case.x.double().movedim(1, -1).flatten(0, -2)
    biased = _moved(before, case, weight, correction=0)
    std = before.var + weight * (rows.std(0) - before.var)
    summed = before.var * (1 - weight) + weight * rows.var(0) * rows.shape[0]
    other = _moved(before, case, 0.1)
    outcomes = (
        ("the biased variance is stored; the running one divides by n − 1", biased),
        ("momentum is the other way round: it weighs the new batch here, as in torch",
         _moved(before, case, 1 - weight)),
        ("momentum is the other way round, and the biased variance is stored",
         _moved(before, case, 1 - weight, correction=0)),
        ("the running statistics are not updated in place", before),
        ("the batch's statistics replace the running ones", _moved(before, case, 1.0)),
        ("the batch's statistics replace the running ones", _moved(before, case, 1.0, 0)),
        ("momentum is not used", other),
        ("the standard deviation is stored, not the variance", Statistics(biased.mean, std)),
        ("the running mean is updated, the running variance is not",
         Statistics(biased.mean, before.var)),
        ("the running variance is updated, the running mean is not",
         Statistics(before.mean, _moved(before, case, weight).var)),
        ("the sum of squares is stored, not their mean", Statistics(biased.mean, summed)),
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
    runner = exam.open(case, running=tuple(t.float() + 4 for t in _statistics(draw, exam.dim)))
    y = exam.run(case, runner)
    exam.judge([case], [y], 2e-5, 2e-5, "the running statistics take part in training")


def evaluation_uses_running(exam: Exam) -> None:
    """Normalize with the running statistics in evaluation, one sample or many, and keep them."""
    _needs_running(exam)
    draw = exam.generator("evaluation")
    stored = _statistics(draw, exam.dim)
    eps = exam.subject.expected_eps(exam.usual_eps, torch.float32)
    small = Statistics(stored.mean, stored.var * eps)
    for statistics, samples in ((stored, None), (stored, 1), (small, None)):
        case = exam.case(draw, about="evaluation", gain=True, shift=True)
        case = replace(case, x=case.x[:samples])
        buffers = Statistics(*(t.float() for t in statistics))
        runner = exam.open(case, running=tuple(t.clone() for t in buffers))
        y = exam.run(case, runner, training=False)
        _judge_evaluation(exam, case, y, Statistics(*(t.double() for t in buffers)), eps)
        now = runner.running()
        assert now is not None
        if not all(torch.equal(a, b) for a, b in zip(now, buffers, strict=True)):
            raise Broken(
                f"on {case} the running statistics changed",
                "they are updated in evaluation too; only training may",
            )


def _judge_evaluation(exam: Exam, case: Case, y: Tensor, stored: Statistics, eps: float) -> None:
    along = [1, -1, *[1] * (case.x.ndim - 2)]

    def outcome(mean: Tensor, scale: Tensor) -> Tensor:
        standard = (case.x.double() - mean.view(along)) / scale.view(along)
        weight = 1.0 if case.weight is None else case.weight.double().view(along)
        bias = 0.0 if case.bias is None else case.bias.double().view(along)
        return standard * weight + bias

    def close(expected: Tensor) -> bool:
        room = 1e-4 * (expected.abs() + expected.abs().max())
        return bool(((y.double() - expected).abs() <= room).all())

    mean, var = stored
    expected = outcome(mean, (var + eps).sqrt())
    if close(expected):
        return
    wrong = (
        ("eps is added outside the root in evaluation", outcome(mean, var.sqrt() + eps)),
        ("eps is not used in evaluation", outcome(mean, var.sqrt())),
        ("the running variance divides without its root", outcome(mean, var)),
        ("the running variance divides without its root", outcome(mean, var + eps)),
        ("the running mean is not subtracted", outcome(mean * 0, (var + eps).sqrt())),
    )
    cause = next((sentence for sentence, formula in wrong if close(formula)), "")
    if not cause and case.x.shape[0] > 1 and close(exam.truth(case)):
        cause = "the batch's own statistics are used in evaluation; the training flag is ignored"
    if not cause and case.x.shape[0] > 1:
        found = exam.diagnose(lambda f: close(exam.truth(case, f)))
        cause = f"the batch's own statistics are used in evaluation, and {found}" if found else ""
    raise Broken(describe(case, y, expected, ", running statistics given"), cause)


def _needs_running(exam: Exam) -> None:
    if not exam.subject.has_running:
        raise Untested()


def _statistics(draw: torch.Generator, channels: int) -> Statistics:
    mean = torch.randn(channels, generator=draw)
    var = 0.5 + torch.rand(channels, generator=draw)
    return Statistics(mean.double(), var.double())
