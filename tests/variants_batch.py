"""Batch norms that are wrong, each with the cause to be named, and others that are right."""

import torch
import torch.nn.functional as F
from torch import nn


def _along(p, x):
    return p.view(1, -1, *[1] * (x.ndim - 2))


def _axes(x):
    return (0, *range(2, x.ndim))


def _batch(x, running_mean, running_var, training, momentum, unbiased=True, old=None):
    """The statistics to normalize with; the running ones are moved."""
    if not training and running_mean is not None:
        return _along(running_mean, x), _along(running_var, x)
    mean, var = x.mean(_axes(x), keepdim=True), x.var(_axes(x), keepdim=True, correction=0)
    if running_mean is not None:
        n = x.numel() / x.shape[1]
        with torch.no_grad():
            stored = var * n / (n - 1) if unbiased else var
            running_mean.lerp_(mean.flatten().to(running_mean.dtype), momentum)
            running_var.lerp_(stored.flatten().to(running_var.dtype), momentum)
    return mean, var


def _make(
    spread=lambda var, e: (var + e).sqrt(),
    statistics=_batch,
    wide=lambda x: x.to(torch.promote_types(x.dtype, torch.float32)),
    affine=lambda y, w, b: (
        (y if w is None else y * _along(w, y)) + (0 if b is None else _along(b, y))
    ),
    mode=lambda training: training,
    momentum_of=lambda m: m,
):
    def norm(x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
             momentum=0.1, eps=1e-5):  # fmt: skip
        h = wide(x)
        mean, var = statistics(h, running_mean, running_var, mode(training), momentum_of(momentum))
        return affine((h - mean) / spread(var, eps), weight, bias).to(x.dtype)

    return norm


def _pooled(axes, correction=0):
    def statistics(x, running_mean, running_var, training, momentum):
        if not training and running_mean is not None:
            return _along(running_mean, x), _along(running_var, x)
        _batch(x, running_mean, running_var, training, momentum)
        dims = axes(x.ndim)
        if not dims:
            return x.detach() * 0, x.detach() * 0 + 1
        return x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=correction)

    return statistics


def _moved(how):
    def statistics(x, running_mean, running_var, training, momentum):
        if not training and running_mean is not None:
            return _along(running_mean, x), _along(running_var, x)
        mean, var = x.mean(_axes(x), keepdim=True), x.var(_axes(x), keepdim=True, correction=0)
        if running_mean is not None:
            with torch.no_grad():
                stored = x.var(_axes(x))
                how(running_mean, running_var, mean.flatten(), stored, momentum)
        return mean, var

    return statistics


def _raw(x, running_mean, running_var, training, momentum):
    mean, var = _batch(x, running_mean, running_var, training, momentum)
    if training or running_mean is None:
        var = (x.square().mean(_axes(x), keepdim=True) - mean.square()).clamp(min=0)
    return mean, var


def _detached(x, running_mean, running_var, training, momentum):
    mean, var = _batch(x, running_mean, running_var, training, momentum)
    return mean.detach(), var.detach()


def _graph_kept(x, running_mean, running_var, training, momentum):
    mean, var = _batch(x, None, None, training or running_mean is None, momentum)
    if training and running_mean is not None:
        n = x.numel() / x.shape[1]
        running_mean.mul_(1 - momentum).add_(momentum * mean.flatten())
        running_var.mul_(1 - momentum).add_(momentum * var.flatten() * n / (n - 1))
        return mean, var
    return _batch(x, running_mean, running_var, training, momentum)


def _updates_in_evaluation(x, running_mean, running_var, training, momentum):
    if not training and running_mean is not None:
        stored = _along(running_mean.clone(), x), _along(running_var.clone(), x)
        _batch(x, running_mean, running_var, x.shape[0] > 1, momentum)
        return stored
    return _batch(x, running_mean, running_var, training, momentum)


def _running_in_training(x, running_mean, running_var, training, momentum):
    mean, var = _batch(x, running_mean, running_var, training, momentum)
    if training and running_mean is not None:
        return _along(running_mean, x).clone(), _along(running_var, x).clone()
    return mean, var


def _swap(m, v, mean, var, momentum):
    m.lerp_(mean, 1 - momentum)
    v.lerp_(var, 1 - momentum)


def _mean_only(m, v, mean, var, momentum):
    m.lerp_(mean, momentum)


def _replaced(m, v, mean, var, momentum):
    m.copy_(mean)
    v.copy_(var)


def _deviation(m, v, mean, var, momentum):
    m.lerp_(mean, momentum)
    v.lerp_(var.sqrt(), momentum)


def _on_last_axis(y, w, b):
    return (y if w is None else y * w) + (0 if b is None else b)


def _shift_first(y, w, b):
    y = y if b is None else y + _along(b, y)
    return y if w is None else y * _along(w, y)


def _no_gain(y, w, b):
    return y if b is None else y + _along(b, y)


def _no_shift(y, w, b):
    return y if w is None else y * _along(w, y)


def overwrites_input(x, running_mean=None, running_var=None, weight=None, bias=None,
                     training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    y = _make()(x, running_mean, running_var, weight, bias, training, momentum, eps)
    with torch.no_grad():
        return x.copy_(y) if not x.requires_grad else y


def layer_norm_instead(x, running_mean=None, running_var=None, weight=None, bias=None,
                       training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    return F.layer_norm(x, x.shape[-1:], None, None, eps)


WRONG = {
    "unbiased": (_make(statistics=_pooled(lambda n: (0, *range(2, n)), 1)), "divides by n − 1"),
    "eps outside": (_make(lambda v, e: v.sqrt() + e), "eps is added outside"),
    "eps not used": (_make(lambda v, e: v.sqrt()), "eps is not used"),
    "fixed eps": (_make(lambda v, e: (v + 1e-5).sqrt()), "eps is 1e-05 here"),
    "eps a floor": (_make(lambda v, e: v.clamp(min=e).sqrt()), "eps is a floor"),
    "no root": (_make(lambda v, e: v + e), "root is missing"),
    "each position": (_make(statistics=_pooled(lambda n: (0,))), ""),
    "each sample": (_make(statistics=_pooled(lambda n: tuple(range(2, n)))), ""),
    "whole tensor": (_make(statistics=_pooled(lambda n: tuple(range(n)))), "whole tensor"),
    "channel axis": (_make(statistics=_pooled(lambda n: (1,))), "over the channel axis"),
    "last axis kept": (_make(statistics=_pooled(lambda n: tuple(range(n - 1)))), ""),
    "layer norm": (layer_norm_instead, "over the last axis"),
    "E[x²] − E[x]²": (_make(statistics=_raw), "E[x²] − E[x]²"),
    "half statistics": (_make(wide=lambda x: x), "half precision"),
    "always float32": (_make(wide=lambda x: x.float()), "float64 is converted"),
    "gain ignored": (_make(affine=_no_gain), "gain is ignored"),
    "shift ignored": (_make(affine=_no_shift), "shift is ignored"),
    "shift first": (_make(affine=_shift_first), "before the gain"),
    "gain on the last axis": (_make(affine=_on_last_axis), ""),
    "detached": (_make(statistics=_detached), "detached"),
    "biased stored": (_make(statistics=lambda *a: _batch(*a, unbiased=False)),
                      "biased variance is stored"),
    "momentum reversed": (_make(statistics=_moved(_swap)), "other way round"),
    "momentum ignored": (_make(momentum_of=lambda m: 0.1), "momentum is not used"),
    "replaced": (_make(statistics=_moved(_replaced)), "replace the running ones"),
    "deviation stored": (_make(statistics=_moved(_deviation)), "standard deviation is stored"),
    "variance not updated": (_make(statistics=_moved(_mean_only)), "running variance is not"),
    "never updated": (_make(statistics=_moved(lambda *a: None)), "not updated in place"),
    "graph kept": (_make(statistics=_graph_kept), ""),
    "batch in evaluation": (_make(mode=lambda training: True), ""),
    "running in training": (_make(mode=lambda training: False), ""),
    "running in training, moved": (_make(statistics=_running_in_training), ""),
    "updated in evaluation": (_make(statistics=_updates_in_evaluation), "updated in evaluation"),
    "input overwritten": (overwrites_input, "in-place"),
    "running std": (_make(lambda v, e: (v + e) ** 0.25), ""),
    "instance norm": (nn.InstanceNorm1d(8), ""),
    "batch of layer norm": (nn.LayerNorm(8), ""),
}  # fmt: skip


def by_rows(x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
            momentum=0.1, eps=1e-5):  # fmt: skip
    rows = x.movedim(1, -1).reshape(-1, x.shape[1])
    wide = rows.to(torch.promote_types(x.dtype, torch.float32))
    if training or running_mean is None:
        mean = wide.sum(0) / len(rows)
        var = ((wide - mean) ** 2).sum(0) / len(rows)
        if running_mean is not None:
            running_mean.data = (1 - momentum) * running_mean + momentum * mean.detach()
            unbiased = var.detach() * len(rows) / (len(rows) - 1)
            running_var.data = (1 - momentum) * running_var + momentum * unbiased
    else:
        mean, var = running_mean, running_var
    y = (wide - mean) / torch.sqrt(var + eps)
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    shape = (x.shape[0], *x.shape[2:], x.shape[1])
    return y.to(x.dtype).reshape(shape).movedim(-1, 1)


class ByHand(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(channels))
        self.beta = nn.Parameter(torch.zeros(channels))
        self.register_buffer("moving_mean", torch.zeros(channels))
        self.register_buffer("moving_var", torch.ones(channels))
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        return by_rows(x, self.moving_mean, self.moving_var, self.gamma, self.beta, self.training,
                       self.momentum, self.eps)  # fmt: skip


RIGHT = {
    "from pieces": _make(),
    "torch": F.batch_norm,
    "by rows": by_rows,
    "torch 1d": nn.BatchNorm1d(8),
    "torch 2d": nn.BatchNorm2d(8, momentum=0.3),
    "torch 3d": nn.BatchNorm3d(8, eps=1e-3),
    "torch, cumulative": nn.BatchNorm1d(8, momentum=None),
    "torch, no statistics": nn.BatchNorm1d(8, track_running_stats=False),
    "torch, bare": nn.BatchNorm1d(8, affine=False),
    "torch class": nn.BatchNorm2d,
    "module by hand": ByHand,
    "module by hand, made": ByHand(6, 1e-4, 0.2),
    "bare formula": lambda x, eps=1e-5: F.batch_norm(x, None, None, None, None, True, 0.1, eps),
}
