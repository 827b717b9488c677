"""Evaluation and training: without dropout a block is the same function in both."""

import torch
from torch import nn

from labkit.check.blocks.exam import Exam, close, describe
from labkit.check.case import Broken, Untested


def without_dropout(module: nn.Module) -> None:
    """Set every dropout of a copy to 0."""
    for one in module.modules():
        if isinstance(one, nn.modules.dropout._DropoutNd):
            one.p = 0.0
        elif isinstance(one, nn.MultiheadAttention):
            one.dropout = 0.0
        for name, value in list(vars(one).items()):
            if "drop" in name and isinstance(value, float):
                setattr(one, name, 0.0)


def training(exam: Exam) -> None:
    """Match the equations in training mode too, with dropout at 0."""
    if exam.off or not exam.has_modes:
        raise Untested()
    if exam.remembers:
        exam.notes.append("training mode was not checked: a norm has running statistics")
        raise Untested()
    case = exam.case(exam.generator("training"), "in training mode")
    runs = []
    for seed in range(2):
        with exam.in_training(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            runs.append(exam.run(case).stream)
    if not close(runs[1], runs[0], 1e-9):
        exam.notes.append(
            "training mode was not checked: something random takes part in it (dropout?)"
        )
        raise Untested()
    expected = exam.truth(case).stream
    if not close(runs[0], expected):
        raise Broken(
            describe(str(case), runs[0], expected),
            "it does one thing in training mode and another in evaluation mode",
        )
