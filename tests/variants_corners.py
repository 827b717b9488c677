"""Norms that are wrong in a corner: at zero rows, without autograd, far out, under other names."""

import torch
import torch.nn.functional as F
from torch import nn
from variants_common import affine, wide

from labkit import norms


def _root(x):
    return x.pow(2).sum(-1, keepdim=True).sqrt()


def _straight(x, eps):
    length = x.norm(dim=-1, keepdim=True)
    return length + (length.clamp(min=eps) - length).detach()


def _scaled(length, root, eps):
    def norm(x, weight=None, eps=eps):
        gain = (x.shape[-1] ** 0.5 if root else 1.0) if weight is None else weight
        return (gain * wide(x) / length(wide(x), eps)).to(x.dtype)

    return norm


def _lengths(root, eps):
    return {
        "no gradient at 0": (_scaled(lambda x, e: _root(x).clamp(min=e), root, eps),
                             "no slope at 0"),
        "gradient below eps": (_scaled(_straight, root, eps), ""),
    }  # fmt: skip


def annotated_without_slope(x, weight=None, bias=None, eps=1e-6):
    h = wide(x)
    y = (h - h.mean(-1, keepdim=True)) / (h.var(-1, keepdim=True).sqrt() + eps)
    return affine(y, weight, bias).to(x.dtype)


class EpsInTraining(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return norms.rms_norm(x, self.weight, self.eps if self.training else 0.0)


def other_without_grad(x, weight=None, bias=None, eps=1e-5):
    eps = eps if torch.is_grad_enabled() else 1e-3
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def other_in_inference(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    return y.clamp(-1, 1) if torch.is_inference_mode_enabled() else y


def _partial(default):
    def norm(x, weight=None, eps=1e-6, p=default):
        return norms.partial_rms_norm(x, weight, eps, p)

    return norm


def clamped(x, weight=None, eps=1e-6):
    return norms.rms_norm(x, weight, eps).clamp(-1000, 1000)


def clamped_layer(x, weight=None, bias=None, eps=1e-5):
    return affine(F.layer_norm(x, x.shape[-1:], None, None, eps).clamp(-30, 30), weight, bias)


def by_sigmoid(x, alpha=0.5, weight=None, bias=None):
    return affine(2 * torch.sigmoid(2 * alpha * wide(x)) - 1, weight, bias).to(x.dtype)


def by_erfc(x, alpha=0.5, shift=0.0, weight=None, bias=None):
    return affine(1 - torch.erfc(alpha * wide(x) + shift), weight, bias).to(x.dtype)


class Slope(nn.Module):
    """DyT whose alpha has a name of its own."""

    def __init__(self, dim, used=True):
        super().__init__()
        self.slope, self.used = nn.Parameter(torch.full((1,), 0.5)), used
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        slope = self.slope if self.used else 0.5
        return affine(torch.tanh(slope * wide(x)), self.weight, self.bias).to(x.dtype)


class S(nn.Module):
    """BHyT whose scale has a name of its own."""

    def __init__(self, dim, start=1.0, used=True):
        super().__init__()
        self.s, self.used = nn.Parameter(torch.tensor(start)), used
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return norms.bounded_tanh(x, self.s if self.used else 1.0, self.weight)


class Extra(nn.LayerNorm):
    def __init__(self, dim, eps=1e-5):
        super().__init__(dim, eps)
        self.extra = nn.Parameter(torch.ones(1))


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


def skipped_where_groups_hold_one(x, num_groups, weight=None, bias=None, eps=1e-5):
    alone = x.ndim == 2 and num_groups == x.shape[1]
    y = x if alone else F.group_norm(x, num_groups, None, None, eps)
    shape = (-1, *[1] * (x.ndim - 2))
    weight, bias = (None if p is None else p.view(shape) for p in (weight, bias))
    return affine(y, weight, bias).to(x.dtype)


def wave(x, weight=None, bias=None, eps=1e-5):
    return affine(torch.sin(3 * wide(x)), weight, bias).to(x.dtype)


WRONG = {
    "scale": _lengths(True, 1e-5),
    "l2": _lengths(False, 1e-12),
    "fix": {
        name: (lambda x, eps=1e-5, f=f: f(x, None, eps), cause)
        for name, (f, cause) in _lengths(False, 1e-5).items()
    },
    "annotated": {"no gradient at a constant": (annotated_without_slope, "no slope at 0")},
    "rms": {
        "eps in training only": (EpsInTraining, "eps is not used"),
        "eps in training only, made": (EpsInTraining(16), "eps is not used"),
        "clamped": (clamped, "cut off"),
    },
    "layer": {
        "another eps without grad": (other_without_grad, "eps is 0.001 here"),
        "another in inference": (other_in_inference, "torch.inference_mode()"),
        "clamped": (clamped_layer, "cut off"),
        "a further parameter": (Extra, ""),
    },
    "partial": {f"default p {p:g}": (_partial(p), "") for p in (0.05, 0.06, 0.063, 0.0675)},
    "t5": {"llama's, made": (norms.LlamaRMSNorm(32), "cast back before a float32 gain")},
    "llama": {"t5's": (norms.T5RMSNorm, "not cast back")},
    "dyt": {
        "by sigmoid in float32": (by_sigmoid, "cancels near 0"),
        "alpha unnamed and ignored": (Slope(9, used=False), "alpha is 0.5 whatever is given"),
    },
    "derf": {"by erfc in float32": (by_erfc, "cancels near 0")},
    "bhyt": {"scale unnamed and ignored": (S(12, used=False), "lambda is ignored")},
    "batch": {
        "variance from 0": (VarianceFromZero, "it starts at 1"),
        "statistics are no buffers": (PlainStatistics, "register_buffer"),
    },
    "group": {"skipped for one in a group": (skipped_where_groups_hold_one, "another way")},
}
RIGHT = {
    "dyt": {"alpha unnamed": Slope, "alpha unnamed, made": Slope(9)},
    "bhyt": {"scale unnamed": S, "scale unnamed, made": S(12, 3.0)},
}
