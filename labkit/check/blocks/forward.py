"""Call the forward of somebody else's block with the stream and whatever else it asks for."""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.blocks.call import bind, parameters
from labkit.check.blocks.design import Case, Design, Out
from labkit.check.blocks.exam import guarded, stream_of
from labkit.check.blocks.inside import Inside
from labkit.context import Context


def call(module: nn.Module, design: Design, case: Case, x: Tensor, batch_first: bool = True) -> Out:
    """Call a module on `x`, with what its forward asks for by name."""
    shape, i = x.shape, design.inside
    given = x if batch_first else x.transpose(0, 1)
    known, context = _arguments(module, design.inside, case, x)
    try:
        args, kwargs, _ = bind(module.forward, {"x": given, **known}, ("x",))
        result = module(*args, **kwargs)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        raise guarded(str(case), error) from error
    if not batch_first and isinstance(result, Tensor):
        result = result.transpose(0, 1)
    stream = stream_of(result, shape, str(case))
    more = [t for t in result[1:] if isinstance(t, Tensor)] if isinstance(
        result, tuple | list) else []  # fmt: skip
    dual = any(half.second for half in design.sides)
    second = next((t for t in more if t.shape == shape), None) if dual else None
    if second is None and case.r is not None and context.total is not case.r:
        second = context.total
    scores = next((t for t in more if t.ndim == 4 and t.shape[1] == i.heads), None)
    if scores is None and i.chain and context.scores:
        last = next(iter(context.scores.values()))
        scores = None if last is case.prev else last
    return Out(stream, second, scores)


def _arguments(
    module: nn.Module, i: Inside, case: Case, x: Tensor
) -> tuple[dict[str, Any], Context]:
    """Offer everything that a forward might want besides the stream."""
    time, kind = x.shape[1], x.dtype
    half = torch.arange(0, i.head_dim, 2, dtype=torch.float64) / i.head_dim
    angles = torch.arange(time, dtype=torch.float64)[:, None] * 10_000.0**-half
    doubled = torch.cat((angles, angles), -1)
    cos, sin = doubled.cos().to(kind), doubled.sin().to(kind)
    context = Context(
        angles=angles.to(kind),
        entry=x,
        scores={} if case.prev is None else {"attention": case.prev.to(kind)},
        total=None if case.r is None else case.r.to(kind),
    )
    known: dict[str, Any] = {
        "context": context, "angles": angles.to(kind), "cos": cos, "sin": sin,
        "cos_sin": (cos[None], sin[None]), "causal": i.causal, "entry": x,
        "positions": torch.arange(time)[None],
        "second": x if case.r is None else case.r.to(kind),
    }  # fmt: skip
    if case.prev is not None:
        known["prev"] = case.prev.to(kind)
    if i.causal:
        mask = torch.full((time, time), -torch.inf, dtype=kind).triu(1)
        four = any(p.name == "attention_mask" for p in parameters(module.forward) or [])
        known["mask"] = mask[None, None] if four else mask
    return known, context
