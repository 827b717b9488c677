"""Norms that pool over more axes than the last: wrong ones with the expected cause, right ones.

Batch and RepBN (with running statistics), group and instance norm, PowerNorm of one batch.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from variants_common import (
    DEFAULTS,
    GAINS,
    INSIDE,
    ROOTS,
    SHIFTS,
    affine,
    double,
    inside,
    vary,
    wide,
)


def along(p, x):
    """Reshape a parameter for the channel axis."""
    return None if p is None else p.view(1, -1, *[1] * (x.ndim - 2))


def of_batch(x):
    return (0, *range(2, x.ndim))


# --- batch norm, and RepBN = batch norm + eta · x ---


def taken(x, mean, var, training, momentum, move=None, axes=of_batch, correction=0):
    """Return the statistics for normalization; `move` updates the running ones."""
    if not training and mean is not None:
        return along(mean, x), along(var, x)
    if mean is not None:
        n = x.numel() / x.shape[1]
        new = x.mean(of_batch(x)), x.var(of_batch(x), correction=0)
        with torch.no_grad():
            (move or lerp)(mean, var, new[0].to(mean.dtype), new[1].to(var.dtype), momentum, n)
    dims = axes(x)
    if not dims:
        return x.detach() * 0, x.detach() * 0 + 1
    return x.mean(dims, keepdim=True), x.var(dims, keepdim=True, correction=correction)


def lerp(mean, var, new_mean, new_var, momentum, n):
    mean.lerp_(new_mean, momentum)
    var.lerp_(new_var * n / (n - 1), momentum)


def batch(
    root=inside, statistics=taken, affine=affine, widen=wide, eps=1e-5, mode=lambda training:
    training, momentum_of=lambda m: m, join=lambda y, x, eta: y, eta=1.0,
):  # fmt: skip
    def norm(x, running_mean=None, running_var=None, weight=None, bias=None, eta=eta,
             training=False, momentum=0.1, eps=eps):  # fmt: skip
        h = widen(x)
        mean, var = statistics(h, running_mean, running_var, mode(training), momentum_of(momentum))
        y = affine((h - mean) / root(var, eps), along(weight, x), along(bias, x))
        return join(y, h, eta).to(x.dtype)

    return norm


def pooled(axes, correction=0):
    return partial(taken, axes=lambda x: axes(x.ndim), correction=correction)


def moved(how):
    return partial(taken, move=how)


def graph_kept(x, mean, var, training, momentum):
    found = taken(x, None, None, True, momentum)
    if not training or mean is None:
        return taken(x, mean, var, training, momentum)
    mean.mul_(1 - momentum).add_(momentum * found[0].flatten())
    var.mul_(1 - momentum).add_(momentum * x.var(of_batch(x)))
    return found


def updates_in_evaluation(x, mean, var, training, momentum):
    if training or mean is None:
        return taken(x, mean, var, training, momentum)
    stored = along(mean.clone(), x), along(var.clone(), x)
    taken(x, mean, var, x.shape[0] > 1, momentum)
    return stored


def running_in_training(x, mean, var, training, momentum):
    found = taken(x, mean, var, training, momentum)
    return found if mean is None else (along(mean, x).clone(), along(var, x).clone())


def store(how):
    """Update the mean correctly, and the variance in another way."""

    def move(mean, var, new_mean, new_var, momentum, n):
        mean.lerp_(new_mean, momentum)
        how(var, new_var * n / (n - 1), momentum, n)

    return moved(move)


def every(n):
    return tuple(range(n))


MOVES = {
    "biased stored": (
        store(lambda v, new, m, n: v.lerp_(new * (n - 1) / n, m)),
        "biased variance is stored",
    ),
    "momentum reversed": (
        moved(lambda m, v, new, var, p, n: lerp(m, v, new, var, 1 - p, n)),
        "other way round",
    ),
    "replaced": (
        moved(lambda m, v, new, var, p, n: lerp(m, v, new, var, 1.0, n)),
        "replace the running ones",
    ),
    "deviation stored": (
        store(lambda v, new, m, n: v.lerp_(new.sqrt(), m)),
        "standard deviation is stored",
    ),
    "variance not updated": (store(lambda *_: None), "running variance is not"),
    "never updated": (moved(lambda *_: None), "not updated in place"),
    "updated in evaluation": (updates_in_evaluation, "updated in evaluation"),
    "graph kept": (graph_kept, ""),
    "running in training, moved": (running_in_training, ""),
}
MODES = {"batch in evaluation": (lambda training: True, ""),
         "running in training": (lambda training: False, "")}  # fmt: skip
POOLS = {
    "unbiased": (pooled(lambda n: (0, *range(2, n)), 1), "divides by n − 1"),
    "whole tensor": (pooled(every), "whole tensor"),
    "channel axis": (pooled(lambda n: (1,)), "over the channel axis"),
}  # fmt: skip


class VarianceFromZero(nn.BatchNorm1d):
    def reset_running_stats(self):
        super().reset_running_stats()
        self.running_var.zero_()  # pyright: ignore[reportOptionalMemberAccess]


class PlainStatistics(nn.Module):
    def __init__(self, dim, eps=1e-5, momentum=0.1):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.running_mean, self.running_var = torch.zeros(dim), torch.ones(dim)
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias,
                            self.training, self.momentum, self.eps)  # fmt: skip


BATCH_WRONG = {
    **vary(batch, statistics=POOLS | MOVES, mode=MODES, affine=GAINS | SHIFTS, **INSIDE),
    "layer norm": (lambda x, running_mean=None, running_var=None, eps=1e-5: F.layer_norm(
        x, x.shape[-1:], None, None, eps), "over the last axis"),
    "variance from 0": (VarianceFromZero, "it must start at 1"),
    "statistics are no buffers": (PlainStatistics, "register_buffer"),
    "momentum ignored": (batch(momentum_of=lambda m: 0.1), "momentum is not used"),
}  # fmt: skip


def by_rows(x, running_mean=None, running_var=None, weight=None, bias=None, training=False,
            momentum=0.1, eps=1e-5):  # fmt: skip
    rows = wide(x.movedim(1, -1).reshape(-1, x.shape[1]))
    if training or running_mean is None:
        mean, n = rows.sum(0) / len(rows), len(rows)
        var = ((rows - mean) ** 2).sum(0) / n
        if running_mean is not None:
            running_mean.data = (1 - momentum) * running_mean + momentum * mean.detach()
            unbiased = var.detach() * n / (n - 1)
            running_var.data = (1 - momentum) * running_var + momentum * unbiased
    else:
        mean, var = running_mean, running_var
    y = affine((rows - mean) / torch.sqrt(var + eps), weight, bias)
    return y.to(x.dtype).reshape(x.shape[0], *x.shape[2:], x.shape[1]).movedim(-1, 1)


class ByHand(nn.Module):
    def __init__(self, channels, eps=1e-5, momentum=0.1):
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.full((channels,), s)) for s in (1.0, 0.0))
        self.register_buffer("moving_mean", torch.zeros(channels))
        self.register_buffer("moving_var", torch.ones(channels))
        self.eps, self.momentum = eps, momentum

    def forward(self, x):
        return by_rows(x, self.moving_mean, self.moving_var, self.gamma, self.beta, self.training,
                       self.momentum, self.eps)  # fmt: skip


BATCH_RIGHT = {
    "from pieces": batch(),
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

rep = partial(batch, join=lambda y, x, eta: y + eta * x)


def skip_first(x, running_mean=None, running_var=None, weight=None, bias=None, eta=1.0,
               training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    y = rep()(wide(x), running_mean, running_var, None, None, eta, training, momentum, eps)
    return affine(y, along(weight, x), along(bias, x)).to(x.dtype)


def not_in_evaluation(x, running_mean=None, running_var=None, weight=None, bias=None, eta=1.0,
                      training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    used = eta if training or running_mean is None else 0.0
    return rep()(x, running_mean, running_var, weight, bias, used, training, momentum, eps)


class RepBN(nn.Module):
    """As in the authors' code: channels last, eta is called alpha."""

    def __init__(self, channels, eta=(1.0,)):
        super().__init__()
        self.alpha, self.bn = nn.Parameter(torch.tensor(eta)), nn.BatchNorm1d(channels)

    def forward(self, x):
        turned = x.transpose(1, 2)
        return (self.bn(turned) + self.alpha * turned).transpose(1, 2)


class EtaForEach(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.bn, self.alpha = nn.BatchNorm1d(dim, eps), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.bn(x) + along(self.alpha, x) * x


SKIPS = {
    "no skip": (lambda y, x, eta: y, ""),
    "eta ignored": (lambda y, x, eta: y + x, ""),
    "subtracted": (lambda y, x, eta: y - eta * x, ""),
    "eta on both": (lambda y, x, eta: eta * (y + x), ""),
    "mixed": (lambda y, x, eta: (1 - eta) * y + eta * x, ""),
    "detached eta": (lambda y, x, eta: y + float(eta) * x, "graph is cut"),
    "detached skip": (lambda y, x, eta: y + eta * x.detach(), ""),
}
REP_WRONG = {
    **vary(rep, statistics=POOLS | MOVES, mode=MODES, affine=GAINS | SHIFTS, join=SKIPS, root=ROOTS,
           eps=DEFAULTS),
    "skip before gain and shift": (skip_first, ""),
    "no skip in evaluation": (not_in_evaluation, ""),
    "eta for each channel": (EtaForEach, "one number for all features"),
}  # fmt: skip
REP_RIGHT = {
    "from pieces": rep(),
    "in float64": rep(widen=double),
    "the authors' class": RepBN, "the authors' module": RepBN(8),
    "by add": rep(join=lambda y, x, eta: torch.add(eta * x, y)),
}  # fmt: skip


# --- group and instance norm: statistics of the last axis of what `split` gives ---


def channels(split, root=inside, affine=affine, widen=wide, eps=1e-5, join=lambda y, g, shape:
             y.reshape(shape)):  # fmt: skip
    def norm(x, num_groups=1, weight=None, bias=None, eps=eps):
        h = widen(x)
        rows = split(h, num_groups)
        var, mean = torch.var_mean(rows, -1, correction=0, keepdim=True)
        y = join((rows - mean) / root(var, eps), num_groups, h.shape)
        return affine(y, along(weight, x), along(bias, x)).to(x.dtype)

    return norm


def instance(split=lambda h, groups: h.flatten(2), **settings):
    group = channels(split, **settings)
    default = settings.get("eps", 1e-5)

    def norm(x, weight=None, bias=None, eps=default):
        return group(x, 1, weight, bias, eps)

    return norm


def by_groups(h, groups):
    return h.reshape(h.shape[0], groups, -1)


group = partial(channels, by_groups)


def skipped_where_alone(x, num_groups, weight=None, bias=None, eps=1e-5):
    if x.ndim == 2 and num_groups == x.shape[1]:
        return affine(wide(x), weight, bias).to(x.dtype)
    return group()(x, num_groups, weight, bias, eps)


STRIDED = {
    "split": lambda h, g: h.reshape(h.shape[0], -1, g, *h.shape[2:]).transpose(1, 2).flatten(2),
    "join": lambda y, g, shape: y.reshape(shape[0], g, -1, *shape[2:]).transpose(1, 2).reshape(
        shape),
}  # fmt: skip
GROUP_WRONG = {
    **vary(group, affine=GAINS | SHIFTS, **INSIDE),
    "strided": (channels(**STRIDED), "every G-th channel"),
    "skipped for one in a group": (skipped_where_alone, "nothing is normalized"),
    "layer norm": (lambda x, num_groups, weight=None, bias=None, eps=1e-5: F.layer_norm(
        x, x.shape[-1:], None, None, eps), "over the last axis"),
}  # fmt: skip


GROUP_RIGHT = {
    "torch": F.group_norm, "torch class": nn.GroupNorm, "torch module": nn.GroupNorm(2, 8),
    "in float64": group(widen=double), "from pieces": group(),
}  # fmt: skip


def by_group_norm(x, weight=None, bias=None, eps=1e-5):
    return F.group_norm(x, x.shape[1], weight, bias, eps)


INSTANCE_WRONG = {
    **vary(instance, affine=GAINS | SHIFTS, **INSIDE),
    "batch norm": (lambda x, weight=None, bias=None, eps=1e-5: F.batch_norm(
        x, None, None, weight, bias, True, eps=eps), "shared by the batch"),
    "layer norm": (instance(lambda h, g: h.flatten(1).unsqueeze(1)), "all axes but the first"),
    "last axis only": (instance(lambda h, g: h), "over the last axis"),
    "channel axis": (instance(lambda h, g: h.movedim(1, -1),
                              join=lambda y, g, shape: y.movedim(-1, 1)), "over the channel axis"),
}  # fmt: skip


class Instance(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.full((channels,), s)) for s in (1.0, 0.0))
        self.eps = eps

    def forward(self, x):
        return by_group_norm(x, self.gamma, self.beta, self.eps)


INSTANCE_RIGHT = {
    "by group norm": by_group_norm, "from pieces": instance(),
    "in float64": instance(widen=double), "a class": Instance,
    "torch 1d": nn.InstanceNorm1d(8), "torch 2d": nn.InstanceNorm2d(8, affine=True),
    "torch class": nn.InstanceNorm3d,
}  # fmt: skip


# --- PowerNorm of one batch, where a mask is True for real tokens ---


def real(x, mask):
    return x.reshape(-1, x.shape[-1]) if mask is None else x[mask]


def square(x, mask):
    return real(x, mask).square().mean(0)


def power(moment=square, root=inside, affine=affine, widen=wide, eps=1e-5):
    def norm(x, weight=None, bias=None, eps=eps, mask=None):
        h = widen(x)
        return affine(h / root(moment(h, mask), eps), weight, bias).to(x.dtype)

    return norm


def zeroed(x, mask):
    return x if mask is None else torch.where(mask[..., None], x, 0.0)


POWER_WRONG = {
    **vary(power, affine=GAINS | SHIFTS, **INSIDE),
    "each token": (power(lambda x, m: x.square().mean(-1, True)), "over the last axis"),
    "whole tensor": (power(lambda x, m: x.square().mean()), "over the whole tensor"),
    "first axis only": (power(lambda x, m: x.square().mean(0)), "over the first axis"),
    "mask ignored": (power(lambda x, m: square(x, None)), "mask is ignored"),
    "mask inverted": (power(lambda x, m: square(x, m if m is None or bool(m.all()) else ~m)),
                      "mask is inverted"),
    "padding counted": (power(lambda x, m: square(zeroed(x, m), None)), "their divisor counts it"),
}  # fmt: skip


def no_mask(x, weight=None, bias=None, eps=1e-5):
    return power()(x, weight, bias, eps)


POWER_RIGHT = {"without a mask": no_mask, "from pieces": power(),
               "in float64": power(widen=double)}  # fmt: skip
