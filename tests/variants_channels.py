"""Group, instance and RepBN variants: wrong ones with the cause to be named, and right ones."""

import torch
import torch.nn.functional as F
import variants_batch
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _along(p, x):
    return p.view(1, -1, *[1] * (x.ndim - 2))


def _affine(y, w, b):
    return (y if w is None else y * _along(w, y)) + (0 if b is None else _along(b, y))


def _affine_last(y, w, b):
    return (y if w is None else y * w) + (0 if b is None else b)


def _shift_first(y, w, b):
    y = y if b is None else y + _along(b, y)
    return y if w is None else y * _along(w, y)


def _var(x, mean):
    return (x - mean).square().mean(-1, keepdim=True)


def _split(x, groups):
    return x.reshape(x.shape[0], groups, -1)


def _strided(x, groups):
    return x.reshape(x.shape[0], -1, groups, *x.shape[2:]).transpose(1, 2).reshape(
        x.shape[0], groups, -1)  # fmt: skip


def _norm(split, spread=lambda v, e: (v + e).sqrt(), var=_var, affine=_affine, wide=_wide,
          centre=lambda x, m: x - m, eps=1e-5):  # fmt: skip
    """The statistics run over the last axis of what `split` gives."""

    def norm(x, groups, weight, bias, eps):
        h = wide(x)
        rows = split(h, groups)
        mean = rows.mean(-1, keepdim=True)
        y = centre(rows, mean) / spread(var(rows, mean), eps)
        return affine(y.reshape(h.shape), weight, bias).to(x.dtype)

    return norm


def _group(split=_split, default=1e-5, **more):
    def group(x, num_groups, weight=None, bias=None, eps=default):
        return _norm(split, **more)(x, num_groups, weight, bias, eps)

    return group


def _instance(split=None, default=1e-5, **more):
    def instance(x, weight=None, bias=None, eps=default):
        pick = split or (lambda h, groups: h.flatten(2))
        return _norm(pick, **more)(x, 1, weight, bias, eps)

    return instance


def _raw(x, mean):
    return (x.square().mean(-1, True) - mean.square()).clamp(min=0)


_SHARED = {
    "unbiased": ({"var": lambda x, m: _var(x, m) * x.shape[-1] / max(1, x.shape[-1] - 1)},
                 "divides by n − 1"),
    "eps outside": ({"spread": lambda v, e: v.sqrt() + e}, "eps is added outside"),
    "eps not used": ({"spread": lambda v, e: v.sqrt()}, "eps is not used"),
    "fixed eps": ({"spread": lambda v, e: (v + 1e-5).sqrt()}, "eps is 1e-05 here"),
    "default of rms": ({"default": 1e-6}, "the default eps is 1e-06"),
    "no root": ({"spread": lambda v, e: v + e}, "root is missing"),
    "not centred": ({"centre": lambda x, m: x}, "not subtracted from x"),
    "mean of x²": ({"var": lambda x, m: x.square().mean(-1, True)}, "mean of x²"),
    "E[x²] − E[x]²": ({"var": _raw}, "E[x²] − E[x]²"),
    "half": ({"wide": lambda x: x}, "half precision"),
    "gain ignored": ({"affine": lambda y, w, b: _affine(y, None, b)}, "gain is ignored"),
    "shift ignored": ({"affine": lambda y, w, b: _affine(y, w, None)}, "shift is ignored"),
    "shift first": ({"affine": _shift_first}, "before the gain"),
    "gain on the last axis": ({"affine": _affine_last}, ""),
    "1 + gain": ({"affine": lambda y, w, b: _affine(y, None if w is None else 1 + w, b)},
                 "1 + gain"),
    "detached": ({"var": lambda x, m: _var(x, m).detach()}, "detached"),
    "mean detached": ({"centre": lambda x, m: x - m.detach()}, "mean is detached"),
    "sign lost": ({"centre": lambda x, m: (x - m).abs()}, ""),
}  # fmt: skip


def group_gain_for_each_group(x, num_groups, weight=None, bias=None, eps=1e-5):
    y = F.group_norm(x, num_groups, None, None, eps)
    if weight is not None:
        weight = weight.view(num_groups, -1).mean(1).repeat_interleave(len(weight) // num_groups)
    return _affine(y, weight, bias)


def group_over_batch(x, num_groups, weight=None, bias=None, eps=1e-5):
    rows = _wide(x).unflatten(1, (num_groups, -1))
    axes = (0, *range(2, rows.ndim))
    y = (rows - rows.mean(axes, True)) / (rows.var(axes, keepdim=True, correction=0) + eps).sqrt()
    return _affine(y.reshape(x.shape), weight, bias).to(x.dtype)


def group_channels_only(x, num_groups, weight=None, bias=None, eps=1e-5):
    rows = _wide(x).unflatten(1, (num_groups, -1))
    y = (rows - rows.mean(2, True)) / (rows.var(2, keepdim=True, correction=0) + eps).sqrt()
    return _affine(y.reshape(x.shape), weight, bias).to(x.dtype)


GROUP_WRONG = {
    **{name: (_group(**change), cause) for name, (change, cause) in _SHARED.items()},
    "one group": (_group(lambda h, g: h.flatten(1).unsqueeze(1)), ""),
    "each channel": (lambda x, num_groups, weight=None, bias=None, eps=1e-5: F.group_norm(
        x, x.shape[1], weight, bias, eps), ""),
    "strided": (lambda x, num_groups, weight=None, bias=None, eps=1e-5: _affine(
        F.group_norm(_strided(x, num_groups).reshape(x.shape), num_groups, None, None, eps).reshape(
            x.shape[0], num_groups, -1, *x.shape[2:]).transpose(1, 2).reshape(x.shape),
        weight, bias), "every G-th channel"),
    "groups are sizes": (lambda x, num_groups, weight=None, bias=None, eps=1e-5: F.group_norm(
        x, x.shape[1] // num_groups, weight, bias, eps), ""),
    "gain for each group": (group_gain_for_each_group, ""),
    "over the batch": (group_over_batch, ""),
    "channels only": (group_channels_only, ""),
    "layer norm": (lambda x, num_groups, weight=None, bias=None, eps=1e-5: F.layer_norm(
        x, x.shape[-1:], None, None, eps), "over the last axis"),
}  # fmt: skip


def group_by_batch_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    wide = _wide(x).reshape(1, x.shape[0] * num_groups, -1)
    y = F.batch_norm(wide, None, None, training=True, eps=eps) if wide.shape[-1] > 1 else wide * 0
    return _affine(y.reshape(x.shape), weight, bias).to(x.dtype)


def group_one_by_one(x, num_groups, weight=None, bias=None, eps=1e-5):
    parts = []
    for part in x.double().chunk(num_groups, dim=1):
        axes = tuple(range(1, x.ndim))
        var, mean = torch.var_mean(part, axes, correction=0, keepdim=True)
        parts.append((part - mean) * torch.rsqrt(var + eps))
    return _affine(torch.cat(parts, 1), weight, bias).to(x.dtype)


GROUP_RIGHT = {
    "torch": F.group_norm, "torch class": nn.GroupNorm, "torch module": nn.GroupNorm(2, 8),
    "by batch norm": group_by_batch_norm, "one by one": group_one_by_one,
    "from pieces": _group(),
}  # fmt: skip

INSTANCE_WRONG = {
    **{name: (_instance(**change), cause) for name, (change, cause) in _SHARED.items()},
    "batch norm": (lambda x, weight=None, bias=None, eps=1e-5: F.batch_norm(
        x, None, None, weight, bias, True, eps=eps), "shared by the batch"),
    "layer norm": (_instance(lambda h, g: h.flatten(1).unsqueeze(1)), "all axes but the first"),
    "last axis only": (_instance(lambda h, g: h), "over the last axis"),
    "channel axis": (lambda x, weight=None, bias=None, eps=1e-5: _affine(F.layer_norm(
        x.movedim(1, -1), (x.shape[1],), None, None, eps).movedim(-1, 1), weight, bias),
        "over the channel axis"),
    "two groups": (lambda x, weight=None, bias=None, eps=1e-5: F.group_norm(
        x, 2, weight, bias, eps), ""),
    "four axes": (lambda x, weight=None, bias=None, eps=1e-5: F.group_norm(
        x, x.shape[1] if x.ndim == 3 else 1, weight, bias, eps), ""),
}  # fmt: skip


def instance_by_moments(x, weight=None, bias=None, eps=1e-5):
    flat = x.double().flatten(2)
    centred = flat - flat.mean(-1, keepdim=True)
    square = torch.einsum("nct,nct->nc", centred, centred)[..., None] / flat.shape[-1]
    return _affine((centred / (square + eps) ** 0.5).view(x.shape), weight, bias).to(x.dtype)


class Instance(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.gamma, self.beta = (
            nn.Parameter(torch.ones(channels)),
            nn.Parameter(torch.zeros(channels)),
        )
        self.eps = eps

    def forward(self, x):
        return F.group_norm(x, x.shape[1], self.gamma, self.beta, self.eps)


INSTANCE_RIGHT = {
    "by group norm": lambda x, weight=None, bias=None, eps=1e-5: F.group_norm(
        x, x.shape[1], weight, bias, eps),
    "by moments": instance_by_moments, "from pieces": _instance(), "a class": Instance,
    "torch 1d": nn.InstanceNorm1d(8), "torch 2d": nn.InstanceNorm2d(8, affine=True),
    "torch class": nn.InstanceNorm3d,
}  # fmt: skip


# --- RepBN ---


def _rep(batch=variants_batch.RIGHT["by rows"], join=lambda y, x, eta: y + eta * x, eta_start=1.0):
    def norm(x, running_mean=None, running_var=None, weight=None, bias=None, eta=eta_start,
             training=False, momentum=0.1, eps=1e-5):  # fmt: skip
        wide = _wide(x)
        y = batch(wide, running_mean, running_var, weight, bias, training, momentum, eps)
        return join(y, wide, eta).to(x.dtype)

    return norm


def _inside(x, running_mean=None, running_var=None, weight=None, bias=None, eta=1.0,
            training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    y = variants_batch.RIGHT["by rows"](
        _wide(x), running_mean, running_var, None, None, training, momentum, eps)  # fmt: skip
    return _affine(y + eta * _wide(x), weight, bias).to(x.dtype)


def _not_in_evaluation(x, running_mean=None, running_var=None, weight=None, bias=None, eta=1.0,
                       training=False, momentum=0.1, eps=1e-5):  # fmt: skip
    used = eta if training or running_mean is None else 0.0
    return _rep()(x, running_mean, running_var, weight, bias, used, training, momentum, eps)


class EtaForEach(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.bn, self.alpha = nn.BatchNorm1d(dim, eps), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.bn(x) + _along(self.alpha, x) * x


class EtaAtZero(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.bn, self.eta = nn.BatchNorm1d(dim, eps), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.bn(x) + self.eta * x


class RepBN(nn.Module):
    """As the authors have it: channels last, eta is called alpha."""

    def __init__(self, channels):
        super().__init__()
        self.alpha, self.bn = nn.Parameter(torch.ones(1)), nn.BatchNorm1d(channels)

    def forward(self, x):
        turned = x.transpose(1, 2)
        return (self.bn(turned) + self.alpha * turned).transpose(1, 2)


_FROM_BATCH = ("unbiased", "eps outside", "fixed eps", "no root", "E[x²] − E[x]²", "gain ignored",
               "shift ignored", "detached", "biased stored", "momentum reversed", "replaced",
               "never updated", "batch in evaluation", "running in training",
               "updated in evaluation")  # fmt: skip
REP_WRONG = {
    **{name: (_rep(variants_batch.WRONG[name][0]), variants_batch.WRONG[name][1])
       for name in _FROM_BATCH},
    "no skip": (_rep(join=lambda y, x, eta: y), "eta · x is missing"),
    "eta ignored": (_rep(join=lambda y, x, eta: y + x), "eta is ignored"),
    "subtracted": (_rep(join=lambda y, x, eta: y - eta * x), "eta · x is subtracted"),
    "eta on the norm": (_rep(join=lambda y, x, eta: eta * y + x), ""),
    "eta on both": (_rep(join=lambda y, x, eta: eta * (y + x)), "eta multiplies the norm as well"),
    "mixed": (_rep(join=lambda y, x, eta: (1 - eta) * y + eta * x), "multiplied by 1 − eta"),
    "|eta|": (_rep(join=lambda y, x, eta: y + abs(eta) * x), ""),
    "detached eta": (_rep(join=lambda y, x, eta: y + float(eta) * x), "graph is cut"),
    "detached skip": (_rep(join=lambda y, x, eta: y + eta * x.detach()), ""),
    "skip before gain and shift": (_inside, "before gain and shift"),
    "no skip in evaluation": (_not_in_evaluation, "eta · x is missing (in evaluation)"),
    "default eta 0": (_rep(eta_start=0.0), ""),
    "eta for each channel": (EtaForEach, "one number for all features"),
    "eta starts at 0": (EtaAtZero, ""),
    "batch norm": (nn.BatchNorm1d(8), ""),
}  # fmt: skip
REP_RIGHT = {
    "by rows": _rep(), "torch's batch norm": _rep(F.batch_norm),
    "in float64": _rep(lambda x, m, v, w, b, *rest: variants_batch.RIGHT["by rows"](
        x.double(), m, v, w, b, *rest)),
    "the authors' class": RepBN, "the authors' module": RepBN(8),
    "one affine map in evaluation": _rep(join=lambda y, x, eta: torch.add(eta * x, y)),
}  # fmt: skip
