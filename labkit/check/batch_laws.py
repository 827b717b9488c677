"""The laws of norms that share statistics in a batch: coupling, padding, registered buffers."""

from dataclasses import replace

import torch
from torch import Tensor

from labkit.check.case import Broken, Case, Untested, describe
from labkit.check.exam import Exam
from labkit.check.gradient_laws import gradient_close, wanted_gradient
from labkit.check.module import Module, ModuleRunner
from labkit.check.tensors import find_buffer


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


def padding(exam: Exam) -> None:
    """Take statistics of the real tokens only, where the mask is True, whatever padding holds."""
    if not exam.subject.takes_mask:
        raise Untested()
    draw = exam.generator("mask")
    for shape in exam.shapes[:2]:
        for fill in (0.0, 300.0):
            about = f"with a mask, padding filled with {fill:g}"
            case = exam.case(draw, shape, about, learned=exam.learned)
            positions = case.x.movedim(exam.spec.formula.features, -1).shape[:-1]
            mask = torch.rand(positions, generator=draw) < 0.6
            mask.view(-1)[:3] = torch.tensor([True, False, True])
            spread = mask.unsqueeze(exam.spec.formula.features)
            case = replace(case, x=torch.where(spread, case.x, case.x + fill)).but(mask=mask)
            exam.compare([case])
            exam.compare([case.but(mask=torch.ones_like(mask))])
            _hold_gradient(exam, case, torch.randn(shape, generator=draw) * spread)


def kept_as_buffers(exam: Exam) -> None:
    """Hold that a module registers its statistics, and starts with those of a standard normal."""
    runner = exam.open(exam.case(exam.generator("buffers")))
    assert isinstance(runner, ModuleRunner)
    registered = [*runner.module.buffers(), *runner.module.parameters()]
    for kind, start in (("mean", 0.0), ("var", 1.0)):
        own = find_buffer(runner.module, kind)
        if own is None:
            continue
        if not any(own is one for one in registered):
            raise Broken(
                f"the running {kind} is no buffer, so state_dict() and .to() leave it out",
                "a plain tensor where register_buffer(…) is wanted",
            )
        if isinstance(exam.subject, Module) and exam.subject.is_class and (own != start).any():
            actual = own.flatten()[0].item()
            raise Broken(
                f"the running {kind} of a new module is {actual:g}, expected {start:g}",
                f"the running {kind} starts at {actual:g}; it starts at {start:g}",
            )


def _hold_gradient(exam: Exam, case: Case, top: Tensor) -> None:
    """Compare the gradient of x where none arrives at padding."""
    runner, x = exam.open(case), case.x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(exam.call(runner, x, case), x, top)
    wanted = wanted_gradient(exam, case, top, "x", exam.spec.formula)
    if not gradient_close(case, grad.double(), wanted):
        raise Broken(describe(case, grad, wanted, ", gradient of x"))
