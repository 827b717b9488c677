"""What is told before a long search: no block at all, a wrong axis, tokens that see nothing."""

from typing import TYPE_CHECKING

import torch
from torch import nn

from labkit.check.blocks.design import Design
from labkit.check.blocks.exam import close
from labkit.check.blocks.search import Search
from labkit.check.case import Broken
from labkit.model.config import ModelConfig

if TYPE_CHECKING:
    from labkit.check.blocks.module import ModuleExam

AXIS = "attention runs over the first axis: batch_first=True is missing, or the axes are exchanged"
SAID = (
    "; it was made for (time, batch, dim), and here (batch, time, dim) is the rule: hand it in "
    "with batch_first=True, or in a module that transposes before and after it"
)
_EMPTY = (
    "the causal mask is off by one: a token does not see itself, and the first sees nothing "
    "(tril(-1) for tril(0), > for >=)"
)


def refuse(given: nn.Module) -> None:
    """Refuse what cannot be a block."""
    kind = type(given).__name__
    if sum(p.ndim >= 2 for p in given.parameters()) < 3:
        raise Broken(
            f"{kind} is no block: attention and feed-forward have four matrices or more; hand in "
            "a block, a step (x, f, norm) or a wrapper (make_norm, sublayer)"
        )


def misfit(given: nn.Module, width: int, config: ModelConfig | None) -> None:
    """Refuse a config of another width."""
    kind = type(given).__name__
    if config is not None and config.dim != width:
        raise Broken(
            f"{kind} has parameters for a stream of width {width}; the config says "
            f"dim={config.dim}",
            "module and config have different sizes",
        )


def first_axis(exam: "ModuleExam", designs: list[Design]) -> str:
    """Return what is wrong when one sequence of a batch changes what comes for another."""
    case = exam.case(exam.generator("axes"), batch=2, time=3)
    moved = case.x.clone()
    moved[0] = moved[0].flip(-1)
    try:
        with torch.no_grad():
            actual, other = (
                exam.run_on(case, case.x.clone()).stream,
                exam.run_on(case, moved).stream,
            )
    except Broken:
        return ""
    if close(other[1], actual[1], 1e-9):
        return ""
    exam.batch_first = False
    try:
        search = Search(exam, designs)
        right = search.right()
    except Broken:
        right = None
    finally:
        exam.batch_first = True
    if right is None:
        return "the sequences of a batch see each other: attention or a norm runs over the batch"
    given = exam.original
    said = isinstance(given, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer)
    said = said or getattr(given, "batch_first", None) is False
    return AXIS + (SAID if said else "")


def sees_nothing(search: Search) -> str:
    """Notice a first row that has no number, where the others have."""
    actual = search.actual[0].stream
    empty = bool(actual[:, 0].isnan().all()) and bool(actual[:, 1:].isfinite().all())
    return _EMPTY if empty else ""
