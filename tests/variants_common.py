"""Variants shared by all norms: one wrong decision each, with the cause that must be named.

`DECISIONS` turn one knob of a norm that is written with its decisions free (variants_rows and
variants_pooled); `CORRUPTIONS` break any right function, mostly in one corner only, where a law
must still find it.
"""

import functools
import inspect

import torch
from torch import nn


def wide(x):
    """Return x in at least float32; None stays None."""
    return None if x is None else x.to(torch.promote_types(x.dtype, torch.float32))


def double(x):
    return None if x is None else x.double()


def affine(y, w, b):
    y = y if w is None else y * w
    return y if b is None else y + b


def shift_first(y, w, b):
    y = y if b is None else y + b
    return y if w is None else y * w


def rms(x, eps=1e-6):
    """Divide each row by its root mean square, in at least float32."""
    return wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + eps)


class Gain(nn.Module):
    """A gain for each feature and an eps, for classes whose forward is one line."""

    start = 1.0

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.full((dim,), self.start)), eps


def gained(change):
    """Use a gain other than the given one."""
    return lambda y, w, b: affine(y, None if w is None else change(w), b)


def vary(make, **tables):
    """Make a norm for each row of the tables, whose keys name the changed decision."""
    return {
        name: (make(**{knob: value}), cause)
        for knob, table in tables.items()
        for name, (value, cause) in table.items()
    }


def inside(v, e):
    return (v + e).sqrt()


ROOTS = {  # what divides, of a norm with eps inside the root
    "eps outside": (lambda v, e: v.sqrt() + e, "eps is added outside"),
    "eps not used": (lambda v, e: v.sqrt(), "eps is not used"),
    "eps a floor": (lambda v, e: v.clamp(min=e).sqrt(), "eps is a floor"),
    "eps floor of root": (lambda v, e: v.sqrt().clamp(min=e), "floor on the root"),
    "eps twice": (lambda v, e: (v + e).sqrt() + e, "again outside"),
    "eps squared": (lambda v, e: (v + e * e).sqrt(), "eps is squared"),
    "fixed eps": (lambda v, e: (v + 1e-6).sqrt(), "eps is 1e-06 here"),
    "no root": (lambda v, e: v + e, "root is missing"),
    "multiplies": (lambda v, e: 1 / (v + e).sqrt(), "multiplies by the root"),
    "minus": (lambda v, e: -(v + e).sqrt(), ""),
    "detached root": (lambda v, e: (v + e).sqrt().detach(), "detached"),
}
DEFAULTS = {"another default": (1e-3, "the default eps is 0.001")}
GAINS = {
    "gain ignored": (gained(lambda w: w * 0 + 1), "gain is ignored"),
    "1 + gain": (gained(lambda w: 1 + w), "1 + gain"),
    "|gain|": (gained(torch.abs), "sign of the gain"),
    "gain squared": (gained(torch.square), "gain is squared"),
    "gain divides": (gained(torch.reciprocal), "gain divides"),
    "gain without gradient": (gained(torch.detach), "graph is cut"),
}
SHIFTS = {
    "shift ignored": (lambda y, w, b: affine(y, w, None), "shift is ignored"),
    "shift first": (shift_first, "before the gain"),
    "shift subtracted": (lambda y, w, b: affine(y, w, None if b is None else -b), "subtracted"),
    "exchanged": (lambda y, w, b: affine(y, b, w), "exchanged"),
}
WIDTHS = {
    "half statistics": (lambda x: x, "half precision"),
}
INSIDE = {"root": ROOTS, "eps": DEFAULTS, "widen": WIDTHS}


# --- ways to break any right function ---


def _corruption(change):
    """Turn `change(right, x, args, kwargs)` into a corruption of a function."""

    def corrupt(right):
        @functools.wraps(right)
        def wrong(x, *args, **kwargs):
            return change(right, x, args, kwargs)

        return wrong

    return corrupt


def _when(condition, change=lambda y: y * 1.02):
    """Return wrong results for inputs of one kind only."""
    return _after(lambda y, x: change(y) if condition(x) else y)


def _after(change):
    """Change the result."""
    return _corruption(lambda right, x, a, k: change(right(x, *a, **k), x))


def _before(change, condition=lambda x: True):
    """Change the input first."""
    return _corruption(lambda right, x, a, k: right(change(x) if condition(x) else x, *a, **k))


def _overwrites(y, x):
    if not x.requires_grad:
        x.mul_(0.5)
    return y


def _overwrites_half(y, x):
    if x.dtype == torch.bfloat16 and not x.requires_grad:
        x.copy_(y)
    return y


def _same_memory(right):
    buffers = {}
    keep = lambda y: buffers.setdefault((y.shape, y.dtype), torch.empty_like(y)).copy_(y)  # noqa: E731
    return _after(lambda y, x: y if y.requires_grad else keep(y))(right)


def _remembers(right):
    results = {}

    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        key = (x.shape, x.dtype, float(x.detach().double().sum()))
        if key not in results or x.requires_grad:
            y = right(x, *args, **kwargs)
            results[key] = y.detach()
            return y
        return results[key]

    return wrong


def _wrong_backward(y, x):
    if y.requires_grad:
        y.register_hook(lambda top: top * 1.05)
    return y


def _parameter_gradient_lost(right):
    names = [n for n in inspect.signature(right).parameters if n in ("weight", "alpha", "eta")]

    def change(right, x, args, kwargs):
        lost = {n: kwargs[n].detach() for n in names if isinstance(kwargs.get(n), torch.Tensor)}
        return right(x, *args, **kwargs | lost)

    return _corruption(change)(right)


def _largest(x):
    return x.detach().abs().max()


CORRUPTIONS = {  # name -> how, part of the cause to be named
    "wrong for a batch of one": (_when(lambda x: x.ndim > 1 and x.shape[0] == 1), ""),
    "wrong for four axes": (_when(lambda x: x.ndim == 4), ""),
    "wrong in float16": (_when(lambda x: x.dtype == torch.float16), ""),
    "wrong in bfloat16": (_when(lambda x: x.dtype == torch.bfloat16, lambda y: y * 1.03), ""),
    "wrong in float64": (_when(lambda x: x.dtype == torch.float64), ""),
    "wrong for large numbers": (_when(lambda x: _largest(x) > 1e4, lambda y: y * 1.1), ""),
    "wrong for huge numbers": (_when(lambda x: _largest(x) > 1e16, lambda y: y * 0.9), ""),
    "wrong for tiny numbers": (_when(lambda x: _largest(x) < 1e-8, lambda y: y * 1.1), ""),
    "tiny numbers are 0": (_before(lambda x: torch.where(x.abs() < 1e-7, x * 0, x)), ""),
    "large numbers are cut": (_before(lambda x: x.clamp(-1e4, 1e4)), ""),
    "overwrites x": (_after(_overwrites), "in-place"),
    "overwrites x in bfloat16": (_after(_overwrites_half), "in-place"),
    "result in shared memory": (_same_memory, "memory that the next call uses"),
    "remembers results": (_remembers, ""),
    "wrong under autograd": (_when(lambda x: x.requires_grad), "under autograd"),
    "no gradient": (_before(lambda x: x.detach()), "graph is cut"),
    "no gradient in half": (
        _before(lambda x: x.detach(), lambda x: x.dtype in (torch.float16, torch.bfloat16)),
        "graph is cut"),
    "gradient five per cent too large": (_after(_wrong_backward), ""),
    "parameters' gradient lost": (_parameter_gradient_lost, "graph is cut"),
    "noise": (_after(lambda y, x: y * (1 + 1e-3 * torch.randn_like(y))), "random"),
    "rounded to bfloat16": (_after(lambda y, x: y.bfloat16().to(x.dtype)), ""),
    "float32 comes back": (
        _after(lambda y, x: y.float() if x.dtype != torch.float64 else y), "not converted back"),
}  # fmt: skip
