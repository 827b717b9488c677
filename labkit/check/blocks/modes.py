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


def training(exam: Exam) -> None:
    """Match the equations in training mode too, with dropout at 0."""
    if exam.off or not exam.has_modes:
        raise Untested()
    case = exam.case(exam.generator("training"), "in training mode")
    runs = []
    for _ in range(2):
        with exam.in_training(), torch.random.fork_rng(devices=[]):
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
