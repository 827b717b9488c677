"""Further inputs that a likely cause must explain too, and causes that no formula has.

A cause may fit one input by accident: two kinds of tiny eps are indistinguishable for large
numbers, and a result with a small error looks as if one value had been left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from labkit.check.case import HALF, Broken, Case

if TYPE_CHECKING:
    from labkit.check.exam import Exam
    from labkit.check.formula import Formula

LARGE = (1.0, 1e3)  # sizes of numbers for which eps is negligible, ordinary ones first
SIZES = (*LARGE, 1e-9, 1e-6, 1e-3)
RUNNING = "the running statistics normalize in training; the batch's own must be used there"
ROUNDED = "the statistics are rounded to half precision: keep them in at least float32"
WORST = 2.0**-6  # largest error of a statistic of many values in half precision


class Probes:
    """Further inputs of the same kind as a case, each run once, when a cause needs it."""

    def __init__(self, exam: Exam, case: Case):
        self.exam, self.case = exam, case
        self.draws = exam.make_generator("probes")
        self.seen: dict[float, tuple[Case, Tensor] | None] = {}  # by size; None: it raised

    def draw(self, wrong: Formula) -> Iterator[tuple[Case, Tensor]]:
        """Yield cases that a wrong formula must fit, each with the actual result.

        Numbers so small that eps matters are used only for causes about eps, because code may have
        two faults. If gain and shift may be confused, both are given.
        """
        if "running" in self.case.given:
            return
        right, half = self.exam.norm.formula, self.case.x.dtype in HALF
        about_eps = wrong.eps_at != right.eps_at or "eps" in dict(wrong.fixed) or wrong.twice
        sizes = SIZES if about_eps else LARGE
        for size in LARGE[:1] if half or "eps" not in self.exam.norm.settings else sizes:
            if size not in self.seen:
                self.seen[size] = self._try_size(size)
            if (pair := self.seen[size]) is not None:
                yield pair
        if wrong.swapped:
            learned = self.exam.learned
            both = self.exam.draw_case(self.draws, self.case.x.shape, learned=learned)
            yield both, self.exam.run(both).detach()

    def _try_size(self, size: float) -> tuple[Case, Tensor] | None:
        x = size * torch.randn(self.case.x.shape, generator=self.draws, dtype=torch.float64)
        case = replace(self.case, x=x.to(self.case.x.dtype))
        try:
            return case, self.exam.run(case).detach()
        except Broken:  # a different law reports it
            return None


def describe_statistics(exam: Exam) -> str:
    """Describe wrong statistics that no formula produces; "" if they are right.

    They may be the running ones instead of the batch's (RUNNING), or rounded (ROUNDED).
    """
    try:
        if _normalizes_with_running(exam):
            return RUNNING
        if _rounds_statistics(exam):
            return ROUNDED
    except Broken:  # a law says it
        pass
    return ""


def _normalizes_with_running(exam: Exam) -> bool:
    """Return whether a training call normalizes with the running statistics that it is given."""
    if not exam.subject.has_running:
        return False
    draw = exam.make_generator("running statistics")
    far = (4 + torch.rand(exam.dim, generator=draw), 4 + torch.rand(exam.dim, generator=draw))
    case = exam.draw_case(draw)
    truth = exam.norm.formula(
        case.x, {**exam.fill_settings(case), "running": tuple(t.double() for t in far)}
    )
    y = exam.run(case, exam.open_runner(case, running=tuple(t.clone() for t in far)))
    return torch.allclose(y.detach().double(), truth, rtol=1e-3, atol=1e-3)


def _rounds_statistics(exam: Exam) -> bool:
    """Return whether whole units of a float32 result are off by half precision's rounding error.

    Within a unit the result is the right one times a number near 1, plus a number near 0. It is
    neither too large for every unit nor too small for every unit.
    """
    formula = exam.norm.formula
    if not formula.pool or formula.f or formula.skip or len(exam.shapes[0]) < 2:
        return False
    shape = exam.norm.long_shape(exam.dim, len(exam.shapes[0]))
    draw = exam.make_generator("rounded statistics")
    case = exam.draw_case(draw, shape, "float32 numbers")
    case = replace(case, x=torch.randn(shape, generator=draw) + 0.3)
    y, given = exam.run(case).detach().double(), exam.fill_settings(case)
    truth, axes = formula.split_units(exam.find_truth(case), given)
    y, _ = formula.split_units(y, given)
    shift = (y - truth).mean(axes, keepdim=True) if exam.norm.centred else 0.0
    factor = (y * truth).sum(axes, keepdim=True) / truth.square().sum(axes, keepdim=True)
    alike = (y - factor * truth - shift).abs().max() < 2e-5 * truth.abs().max()
    off = factor - 1
    near = off.abs().max() < WORST and (off.max() - off.min()) > 1e-4
    return bool(alike and near and off.max() > 0 > off.min())
