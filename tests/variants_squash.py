"""DyT and Derf: wrong variants with the cause to be named, and right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _affine(y, w, b):
    return (y if w is None else y * w) + (0 if b is None else b)


def _shift_first(y, w, b):
    y = y if b is None else y + b
    return y if w is None else y * w


def _dyt(f=lambda x, a: torch.tanh(a * x), affine=_affine, default=0.5):
    def norm(x, alpha=default, weight=None, bias=None):
        return affine(f(_wide(x), alpha), weight, bias).to(x.dtype)

    return norm


def _derf(f=lambda x, a, s: torch.erf(a * x + s), affine=_affine, default=0.5, start=0.0):
    def norm(x, alpha=default, shift=start, weight=None, bias=None):
        return affine(f(_wide(x), alpha, shift), weight, bias).to(x.dtype)

    return norm


class AlphaForEach(nn.Module):
    def __init__(self, dim, alpha=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((dim,), alpha))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class AlphaOne(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class DyT(nn.Module):
    """As the authors have it, in the input's precision."""

    def __init__(self, normalized_shape, alpha_init_value=0.5):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(1) * alpha_init_value)
        self.weight = nn.Parameter(torch.ones(normalized_shape))
        self.bias = nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


_GAINS = {
    "gain ignored": (lambda y, w, b: _affine(y, None, b), "gain is ignored"),
    "shift ignored": (lambda y, w, b: _affine(y, w, None), "shift is ignored"),
    "shift first": (_shift_first, "before the gain"),
    "shift subtracted": (lambda y, w, b: _affine(y, w, None if b is None else -b), "subtracted"),
    "exchanged": (lambda y, w, b: _affine(y, b, w), "exchanged"),
    "1 + gain": (lambda y, w, b: _affine(y, None if w is None else 1 + w, b), "1 + gain"),
    "|gain|": (lambda y, w, b: _affine(y, None if w is None else w.abs(), b), "sign of the gain"),
}
DYT_WRONG = {
    **{name: (_dyt(affine=f), cause) for name, (f, cause) in _GAINS.items()},
    "alpha outside": (_dyt(lambda x, a: a * torch.tanh(x)), "outside the tanh"),
    "alpha twice": (_dyt(lambda x, a: a * torch.tanh(a * x)), "again outside"),
    "alpha ignored": (_dyt(lambda x, a: torch.tanh(x)), "alpha is ignored"),
    "alpha divides": (_dyt(lambda x, a: torch.tanh(x / a)), "alpha divides"),
    "alpha squared": (_dyt(lambda x, a: torch.tanh(a * a * x)), "alpha is squared"),
    "|alpha|": (_dyt(lambda x, a: torch.tanh(abs(a) * x)), "sign of alpha"),
    "fixed alpha": (_dyt(lambda x, a: torch.tanh(0.5 * x)), ""),
    "alpha without gradient": (_dyt(lambda x, a: torch.tanh(float(a) * x)), "graph is cut"),
    "default alpha 1": (_dyt(default=1.0), ""),
    "erf": (_dyt(lambda x, a: torch.erf(a * x)), "the squash is erf"),
    "sigmoid": (_dyt(lambda x, a: torch.sigmoid(a * x)), "the squash is sigmoid"),
    "hard tanh": (_dyt(lambda x, a: F.hardtanh(a * x)), "the squash is clip"),
    "softsign": (_dyt(lambda x, a: F.softsign(a * x)), "the squash is softsign"),
    "centred": (_dyt(lambda x, a: torch.tanh(a * (x - x.mean(-1, True)))), ""),
    "normalized": (_dyt(lambda x, a: torch.tanh(a * F.rms_norm(x, x.shape[-1:]))), ""),
    "detached": (_dyt(lambda x, a: torch.tanh(a * x).detach()), ""),
    "alpha for each feature": (AlphaForEach, "one number for all features"),
    "starts at 1": (AlphaOne, ""),
    "overflows": (_dyt(lambda x, a: 1 - 2 / (torch.exp(2 * a * x) + 1) + 0 * torch.exp(x)), ""),
}


def dyt_by_sigmoid(x, alpha=0.5, weight=None, bias=None):
    u = 2 * alpha * x.double()
    return _affine(2 * torch.sigmoid(u) - 1, weight, bias).to(x.dtype)


class TanhFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u):
        y = torch.tanh(u)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, *tops):
        (y,) = ctx.saved_tensors
        return tops[0] * (1 - y.square())


def dyt_own_backward(x, alpha=0.5, gamma=None, beta=None):
    return _affine(TanhFunction.apply(alpha * _wide(x)), gamma, beta).to(x.dtype)


def dyt_addcmul(x, alpha=0.5, weight=None, bias=None):
    y = torch.tanh(_wide(x).mul(alpha))
    weight = torch.ones((), dtype=y.dtype) if weight is None else weight.to(y.dtype)
    bias = torch.zeros((), dtype=y.dtype) if bias is None else bias.to(y.dtype)
    return torch.addcmul(bias, y, weight).to(x.dtype)


DYT_RIGHT = {
    "by sigmoid": dyt_by_sigmoid, "own backward": dyt_own_backward, "addcmul": dyt_addcmul,
    "the authors' class": DyT, "the authors' module": DyT(10, 0.8), "from pieces": _dyt(),
    "in the input's precision": lambda x, alpha=0.5: torch.tanh(alpha * x),
}  # fmt: skip


DERF_WRONG = {
    **{name: (_derf(affine=f), cause) for name, (f, cause) in _GAINS.items()},
    "alpha outside": (_derf(lambda x, a, s: a * torch.erf(x + s)), "outside the erf"),
    "alpha ignored": (_derf(lambda x, a, s: torch.erf(x + s)), "alpha is ignored"),
    "alpha divides": (_derf(lambda x, a, s: torch.erf(x / a + s)), "alpha divides"),
    "|alpha|": (_derf(lambda x, a, s: torch.erf(abs(a) * x + s)), "sign of alpha"),
    "shift before alpha": (_derf(lambda x, a, s: torch.erf(a * (x + s))), "before alpha"),
    "inner shift ignored": (_derf(lambda x, a, s: torch.erf(a * x)), "inner shift is ignored"),
    "inner shift outside": (_derf(lambda x, a, s: torch.erf(a * x) + s), "outside the erf"),
    "inner shift subtracted": (_derf(lambda x, a, s: torch.erf(a * x - s)),
                               "inner shift is subtracted"),
    "inner shift without gradient": (_derf(lambda x, a, s: torch.erf(a * x + float(s))),
                                     "graph is cut"),
    "alpha without gradient": (_derf(lambda x, a, s: torch.erf(float(a) * x + s)), "graph is cut"),
    "default alpha 1": (_derf(default=1.0), ""),
    "default shift": (_derf(start=0.1), ""),
    "tanh": (_derf(lambda x, a, s: torch.tanh(a * x + s)), "the squash is tanh"),
    "tanh, nearly erf": (_derf(lambda x, a, s: torch.tanh(1.205 * (a * x + s))), ""),
    "normal's integral": (_derf(lambda x, a, s: torch.erf((a * x + s) / 2**0.5)),
                          "the squash is erf of u/√2"),
    "erfc": (_derf(lambda x, a, s: torch.erfc(a * x + s)), "the squash is one minus erf"),
    "0 to 1": (_derf(lambda x, a, s: (1 + torch.erf(a * x + s)) / 2), ""),
    "centred": (_derf(lambda x, a, s: torch.erf(a * (x - x.mean(-1, True)) + s)), ""),
}  # fmt: skip


def derf_by_erfc(x, alpha=0.5, shift=0.0, weight=None, bias=None):
    u = alpha * x.double() + shift
    y = torch.where(u > 0, 1 - torch.erfc(u), torch.erfc(-u) - 1)
    # 1 − erfc loses the digits of small numbers.
    y = torch.where(u.abs() < 0.5, torch.erf(u), y)
    return _affine(y, weight, bias).to(x.dtype)


class ErfFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return torch.erf(u)

    @staticmethod
    def backward(ctx, *tops):
        (u,) = ctx.saved_tensors
        return tops[0] * (2 / math.sqrt(math.pi)) * torch.exp(-u.square())


def derf_own_backward(x, alpha=0.5, shift=0.0, weight=None, bias=None):
    return _affine(ErfFunction.apply(torch.add(shift, alpha * _wide(x))), weight, bias).to(x.dtype)


class Derf(nn.Module):
    def __init__(self, dim, alpha=0.5, shift=0.0):
        super().__init__()
        self.alpha, self.shift = nn.Parameter(torch.tensor(alpha)), nn.Parameter(
            torch.tensor(shift))  # fmt: skip
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


DERF_RIGHT = {"by erfc": derf_by_erfc, "own backward": derf_own_backward, "a class": Derf,
              "made": Derf(10, 0.3, 0.1), "from pieces": _derf()}  # fmt: skip
