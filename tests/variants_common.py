"""Ways to break any right norm, mostly in one corner only, where a law must still find it.

Each takes a right function and returns a wrong one with the same signature.
"""

import functools
import inspect

import torch


def _when(condition, change=lambda y: y * 1.02):
    """Be wrong where the input is of one kind."""

    def corrupt(right):
        @functools.wraps(right)
        def wrong(x, *args, **kwargs):
            y = right(x, *args, **kwargs)
            return change(y) if condition(x) else y

        return wrong

    return corrupt


def _before(change, condition=lambda x: True):
    """Change the input first."""

    def corrupt(right):
        @functools.wraps(right)
        def wrong(x, *args, **kwargs):
            return right(change(x) if condition(x) else x, *args, **kwargs)

        return wrong

    return corrupt


def _contiguous_only(right):
    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        same = torch.as_strided(x, x.shape, torch.empty(x.shape).stride())
        return right(same, *args, **kwargs)

    return wrong


def _overwrites(right):
    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        if not x.requires_grad:
            x.mul_(0.5)
        return y

    return wrong


def _overwrites_half(right):
    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        if x.dtype == torch.bfloat16 and not x.requires_grad:
            x.copy_(y)
        return y

    return wrong


def _same_memory(right):
    buffers = {}

    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        if y.requires_grad:
            return y
        return buffers.setdefault((y.shape, y.dtype), torch.empty_like(y)).copy_(y)

    return wrong


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


def _wrong_backward(right):
    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        if y.requires_grad:
            y.register_hook(lambda top: top * 1.05)
        return y

    return wrong


def _parameter_gradient_lost(right):
    names = [n for n in inspect.signature(right).parameters if n in ("weight", "alpha", "eta")]

    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        for name in names:
            if isinstance(kwargs.get(name), torch.Tensor):
                kwargs[name] = kwargs[name].detach()
        return right(x, *args, **kwargs)

    return wrong


def _noise(right):
    @functools.wraps(right)
    def wrong(x, *args, **kwargs):
        y = right(x, *args, **kwargs)
        return y * (1 + 1e-3 * torch.randn_like(y))

    return wrong


def _largest(x):
    return x.detach().abs().max()


CORRUPTIONS = {
    "wrong for a batch of one": _when(lambda x: x.ndim > 1 and x.shape[0] == 1),
    "wrong for four axes": _when(lambda x: x.ndim == 4),
    "wrong in float16": _when(lambda x: x.dtype == torch.float16),
    "wrong in bfloat16": _when(lambda x: x.dtype == torch.bfloat16, lambda y: y * 1.03),
    "wrong in float64": _when(lambda x: x.dtype == torch.float64),
    "wrong for large numbers": _when(lambda x: _largest(x) > 1e4, lambda y: y * 1.1),
    "wrong for huge numbers": _when(lambda x: _largest(x) > 1e16, lambda y: y * 0.9),
    "wrong for tiny numbers": _when(lambda x: _largest(x) < 1e-8, lambda y: y * 1.1),
    "tiny numbers are 0": _before(lambda x: torch.where(x.abs() < 1e-7, x * 0, x)),
    "large numbers are cut": _before(lambda x: x.clamp(-1e4, 1e4)),
    "wrong for views": _when(lambda x: not x.is_contiguous()),
    "reads memory in order": _contiguous_only,
    "overwrites x": _overwrites,
    "overwrites x in bfloat16": _overwrites_half,
    "result in shared memory": _same_memory,
    "remembers results": _remembers,
    "wrong under autograd": _when(lambda x: x.requires_grad),
    "wrong without autograd": _when(lambda x: not x.requires_grad),
    "no gradient": _before(lambda x: x.detach()),
    "no gradient in half": _before(
        lambda x: x.detach(), lambda x: x.dtype in (torch.float16, torch.bfloat16)
    ),
    "gradient five per cent too large": _wrong_backward,
    "parameters' gradient lost": _parameter_gradient_lost,
    "NaN hidden": _before(lambda x: x.nan_to_num()),
    "NaN spreads": lambda right: functools.wraps(right)(
        lambda x, *a, **k: right(x, *a, **k) + 0 * x.sum()
    ),
    "noise": _noise,
    "always float32": lambda right: functools.wraps(right)(
        lambda x, *a, **k: right(x.float(), *a, **k).to(x.dtype)
    ),
    "rounded to bfloat16": lambda right: functools.wraps(right)(
        lambda x, *a, **k: right(x, *a, **k).bfloat16().to(x.dtype)
    ),
    "float32 comes back": lambda right: functools.wraps(right)(
        lambda x, *a, **k: right(x, *a, **k).float() if x.dtype != torch.float64
        else right(x, *a, **k)
    ),
}  # fmt: skip
