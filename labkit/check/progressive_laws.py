"""The laws of PRepBN: from layer norm to RepBN, one training call after the other.

y = λ · LN(x) + (1 − λ) · (BN(x) + eta · x)      in training, λ from 1 to 0 over `steps` calls
y = BN(x) + eta · x                              in evaluation, whatever λ is
"""

from collections.abc import Callable
from dataclasses import replace

import torch

from labkit.check.case import Broken, Case, Untested, describe
from labkit.check.exam import Exam
from labkit.check.laws import inputs_kept
from labkit.check.module import ModuleRunner
from labkit.check.progressive_parameters import close, inputs, learned, open_short
from labkit.check.progressive_rule import MISTAKES, STEPS, Blend, neutral, standard
from labkit.check.running_laws import Statistics, moved, why_running


def schedule(exam: Exam) -> None:
    """Go from layer norm to RepBN in equal steps, one for each training call."""
    runner = open_short(exam)
    _follow(exam, runner, inputs(exam, "schedule", STEPS + 3), Blend())


def first_call(exam: Exam) -> None:
    """Be layer norm at the first training call."""
    for shape in exam.shapes:
        case = exam.case(exam.generator("first"), shape, "the first training call")
        _follow(exam, open_short(exam), [case], Blend())


def warm_phase(exam: Exam) -> None:
    """Stay layer norm for `warm` calls, before the schedule starts and RepBN learns."""
    if "warm" not in exam.subject.sets:
        raise Untested()
    runner = open_short(exam, warm=2)
    before = _running(exam, runner)
    cases = inputs(exam, "warm", STEPS + 3)
    _follow(exam, runner, cases[:2], Blend(warm=2))
    if not all(torch.equal(a, b) for a, b in zip(before, _running(exam, runner), strict=True)):
        raise Broken(
            f"on {cases[1]} the running statistics moved during the warm phase",
            "RepBN runs in the warm phase, where layer norm alone does",
        )
    _follow(exam, runner, cases[2:], Blend(warm=2), start=2)


def _follow(
    exam: Exam, runner: ModuleRunner, cases: list[Case], blend: Blend, start: int = 0
) -> None:
    eps, own = exam.expected("eps"), neutral(exam.dim)
    actual = [exam.run(case, runner) for case in cases]

    def fits(blend: Blend, call: int) -> bool:
        wanted = blend(cases[call].x, start + call, eps, own)
        return close(actual[call], wanted)

    for call, case in enumerate(cases):
        if not fits(blend, call):
            wrong = [(s, replace(blend, **change)) for s, change in MISTAKES]
            causes = (s for s, other in wrong if all(fits(other, c) for c in range(len(cases))))
            wanted = blend(case.x, start + call, eps, own)
            share = f", λ = {blend.at(start + call):g}"
            raise Broken(describe(case, actual[call], wanted, share), next(causes, ""))


def _running(exam: Exam, runner: ModuleRunner) -> Statistics:
    now = runner.running()
    if now is None:
        raise Broken("it keeps no running mean and variance", "RepBN needs them for evaluation")
    return Statistics(*(t.detach().double().clone() for t in now))


def running(exam: Exam) -> None:
    """Learn the running statistics from the first training call on, whatever λ is."""
    runner = open_short(exam)
    expected = _running(exam, runner)
    for case in inputs(exam, "running", 3):
        before, expected = expected, moved(expected, case, 0.1)
        exam.run(case, runner)
        now = _running(exam, runner)
        for actual, wanted in zip(now, expected, strict=True):
            if not torch.allclose(actual, wanted, rtol=1e-4, atol=1e-4):
                raise Broken(
                    f"on {case} a running statistic of channel 0 came {actual[0].item():.6g}, "
                    f"expected {wanted[0].item():.6g}",
                    why_running(now, before, case, 0.1),
                )


def evaluation(exam: Exam) -> None:
    """Be RepBN alone in evaluation, whatever λ is, and change nothing."""
    runner, eps = open_short(exam), exam.expected("eps")
    cases = inputs(exam, "evaluation", 4)
    for case in cases[:2]:
        exam.run(case, runner)
    stored = _running(exam, runner)
    state = {name: value.clone() for name, value in runner.module.state_dict().items()}
    for rows in (None, 1):
        case = replace(cases[2], x=cases[2].x[:rows], about="evaluation after two training calls")
        y = exam.run(case, runner, training=False)
        x = case.x.double().movedim(1, -1)
        wanted = ((x - stored.mean) / (stored.var + eps).sqrt() + x).movedim(-1, 1)
        if not close(y, wanted):
            layer = standard(x, (-1,), eps).movedim(-1, 1)
            outcomes = [
                ("evaluation still mixes layer norm in; it is RepBN alone",
                 [share * layer + (1 - share) * wanted for share in (0.25, 0.5, 0.75)]),
                ("evaluation is layer norm; it is RepBN alone", [layer]),
                ("eta · x is missing in evaluation", [wanted - case.x.double()]),
                ("the batch's own statistics are used in evaluation",
                 [Blend(share="rises")(case.x, STEPS, eps, neutral(exam.dim)),
                  Blend(share="falls")(case.x, STEPS, eps, neutral(exam.dim))]),
            ]  # fmt: skip
            causes = (s for s, ways in outcomes if any(close(y, way) for way in ways))
            raise Broken(describe(case, y, wanted), next(causes, ""))
        for name, value in runner.module.state_dict().items():
            if not torch.equal(value, state[name]):
                raise Broken(
                    f"on {case} {name} changed",
                    "something is counted or updated in evaluation; only training may",
                )


def padding(exam: Exam) -> None:
    """Leave padding out of the statistics, where the mask is False."""
    if not exam.subject.takes_mask:
        raise Untested()
    runner, eps = open_short(exam), exam.expected("eps")
    for call, case in enumerate(inputs(exam, "padding", 4)):
        mask = torch.rand((case.x.shape[0], *case.x.shape[2:]), generator=exam.generator("m")) < 0.6
        mask.view(-1)[:3] = torch.tensor([True, False, True])
        y = exam.run(case.but(mask=mask), runner).movedim(1, -1)[mask]
        real = Blend()(case.x.movedim(1, -1)[mask], call, eps, neutral(exam.dim))
        if not close(y, real):
            whole = Blend()(case.x, call, eps, neutral(exam.dim)).movedim(1, -1)[mask]
            ignored = "the mask is ignored: padding counts in the statistics"
            raise Broken(describe(case, y, real), ignored if close(y, whole) else "")


def dtype_kept(exam: Exam) -> None:
    """Return the input's dtype, in training and evaluation."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        case = exam.case(exam.generator("dtype"), dtype=dtype)
        runner = exam.open(case)
        for training in (True, False):
            if (y := exam.run(case, runner, training)).dtype != dtype:
                raise Broken(f"on {case} the result is {y.dtype}; a norm returns the dtype of x")


LAWS: dict[str, Callable[[Exam], None]] = {
    "layer norm at first": first_call,
    "schedule": schedule,
    "warm phase": warm_phase,
    "inputs kept": inputs_kept,
    "running statistics": running,
    "evaluation is RepBN": evaluation,
    "parameters": learned,
    "padding left out": padding,
    "dtype kept": dtype_kept,
}
