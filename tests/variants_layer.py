"""Layer norms that are wrong, each with the cause to be named, and others that are right."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _write(centre, spread, weight, bias):
    y = centre / spread
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _make(spread, centre=lambda x: x - x.mean(-1, keepdim=True)):
    def norm(x, weight=None, bias=None, eps=1e-5):
        wide = _wide(x)
        return _write(centre(wide), spread(wide, eps), weight, bias).to(x.dtype)

    return norm


def _var(x):
    return x.var(-1, keepdim=True, correction=0)


def _pooled(axes):
    def norm(x, weight=None, bias=None, eps=1e-5):
        wide = _wide(x)
        dims = axes(x.ndim)
        mean, var = wide.mean(dims, keepdim=True), wide.var(dims, keepdim=True, correction=0)
        return _write(wide - mean, (var + eps).sqrt(), weight, bias).to(x.dtype)

    return norm


def raw_moments(x, weight=None, bias=None, eps=1e-5):
    wide = _wide(x)
    mean = wide.mean(-1, keepdim=True)
    var = wide.square().mean(-1, keepdim=True) - mean.square()
    return _write(wide - mean, (var.clamp(min=0) + eps).sqrt(), weight, bias).to(x.dtype)


def half_statistics(x, weight=None, bias=None, eps=1e-5):
    return _write(x - x.mean(-1, keepdim=True), (_var(x) + eps).sqrt(), weight, bias)


def returns_float32(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(_wide(x), x.shape[-1:], None, None, eps)
    return _write(y, 1, *(p if p is None else _wide(p) for p in (weight, bias)))


def always_float32(x, weight=None, bias=None, eps=1e-5):
    weight, bias = (p if p is None else p.float() for p in (weight, bias))
    return F.layer_norm(x.float(), x.shape[-1:], weight, bias, eps).to(x.dtype)


def overwrites_input(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    with torch.no_grad():
        x.sub_(x.mean(-1, keepdim=True))
    return y


def ignores_gain(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], None, bias, eps)


def ignores_shift(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, None, eps)


def exchanged(x, weight=None, bias=None, eps=1e-5):
    return _write(F.layer_norm(x, x.shape[-1:], None, None, eps), 1, bias, weight)


def shift_first(x, weight=None, bias=None, eps=1e-5):
    y = F.layer_norm(x, x.shape[-1:], None, bias, eps)
    return y if weight is None else y * weight


def one_plus_gain(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], None if weight is None else 1 + weight, bias, eps)


def detached_statistics(x, weight=None, bias=None, eps=1e-5):
    wide = _wide(x)
    mean, var = wide.detach().mean(-1, keepdim=True), _var(wide.detach())
    return _write(wide - mean, (var + eps).sqrt(), weight, bias).to(x.dtype)


def detached_root(x, weight=None, bias=None, eps=1e-5):
    wide = _wide(x)
    spread = (_var(wide) + eps).sqrt().detach()
    return _write(wide - wide.mean(-1, keepdim=True), spread, weight, bias).to(x.dtype)


def detached_mean(x, weight=None, bias=None, eps=1e-5):
    wide = _wide(x)
    centred = wide - wide.mean(-1, keepdim=True).detach()
    return _write(centred, (_var(wide) + eps).sqrt(), weight, bias).to(x.dtype)


def no_gradient(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x.detach(), x.shape[-1:], weight, bias, eps)


def gain_without_gradient(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], None if weight is None else weight.data, bias, eps)


def needs_contiguous(x, weight=None, bias=None, eps=1e-5):
    flat = x.view(-1, x.shape[-1])
    return F.layer_norm(flat, x.shape[-1:], weight, bias, eps).view(x.shape)


def reads_memory(x, weight=None, bias=None, eps=1e-5):
    same = torch.as_strided(x, x.shape, torch.empty(x.shape).stride())
    return F.layer_norm(same, x.shape[-1:], weight, bias, eps)


def hides_nan(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps).nan_to_num()


def spreads_nan(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps) + 0 * x.sum()


def random_noise(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps) + 0.01 * torch.randn_like(x)


def fixed_eps(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5)


def default_of_rms(x, weight=None, bias=None, eps=1e-6):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def only_two_axes(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[1:], weight, bias, eps)


def drops_the_axis(x, weight=None, bias=None, eps=1e-5):
    return _write(x - x.mean(-1), (x.var(-1, correction=0) + eps).sqrt(), weight, bias)


def sign_of_gain_lost(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], None if weight is None else weight.abs(), bias, eps)


def clipped(x, weight=None, bias=None, eps=1e-5):
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps).clamp(-2, 2)


class EpsForgotten(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, 1e-3)


OUTSIDE = "eps is added outside the root"
WRONG = {
    "unbiased": (_make(lambda x, e: (x.var(-1, keepdim=True) + e).sqrt()), "divides by d − 1"),
    "annotated": (_make(lambda x, e: x.std(-1, keepdim=True) + e), "divides by d − 1"),
    "eps outside": (_make(lambda x, e: _var(x).sqrt() + e), OUTSIDE),
    "eps not used": (_make(lambda x, e: _var(x).sqrt()), "eps is not used"),
    "eps a floor": (_make(lambda x, e: _var(x).clamp(min=e).sqrt()), "eps is a floor"),
    "eps floor of root": (_make(lambda x, e: _var(x).sqrt().clamp(min=e)), "floor on the root"),
    "eps twice": (_make(lambda x, e: (_var(x) + e).sqrt() + e), "again outside"),
    "eps squared": (_make(lambda x, e: (_var(x) + e * e).sqrt()), "eps is squared"),
    "fixed eps": (fixed_eps, "eps is 1e-05 here"),
    "default of rms": (default_of_rms, "the default eps is 1e-06"),
    "no root": (_make(lambda x, e: _var(x) + e), "root is missing"),
    "length": (_make(lambda x, e: (_var(x) * x.shape[-1] + e).sqrt()), "sum of squares"),
    "absolute": (_make(lambda x, e: (x - x.mean(-1, keepdim=True)).abs().mean(-1, True) + e),
                 "mean absolute"),
    "multiplies": (_make(lambda x, e: 1 / (_var(x) + e).sqrt()), "multiplies by the root"),
    "not centred": (_make(lambda x, e: (_var(x) + e).sqrt(), lambda x: x), "not subtracted from x"),
    "rms": (_make(lambda x, e: (x.square().mean(-1, True) + e).sqrt(), lambda x: x),
            "as if it were RMS"),
    "spread about 0": (_make(lambda x, e: (x.square().mean(-1, True) + e).sqrt()), "mean of x²"),
    "first axis": (_pooled(lambda n: 0), "over the first axis"),
    "whole tensor": (_pooled(lambda n: tuple(range(n))), "over the whole tensor"),
    "whole sample": (only_two_axes, ""),
    "E[x²] − E[x]²": (raw_moments, "E[x²] − E[x]²"),
    "half statistics": (half_statistics, "half precision"),
    "float32 returned": (returns_float32, "not converted back"),
    "always float32": (always_float32, "float64 is converted"),
    "input overwritten": (overwrites_input, "in-place"),
    "gain ignored": (ignores_gain, "gain is ignored"),
    "shift ignored": (ignores_shift, "shift is ignored"),
    "exchanged": (exchanged, "exchanged"),
    "shift first": (shift_first, "before the gain"),
    "1 + gain": (one_plus_gain, "1 + gain"),
    "|gain|": (sign_of_gain_lost, ""),
    "detached": (detached_statistics, "statistics are detached"),
    "detached root": (detached_root, "denominator is detached"),
    "detached mean": (detached_mean, "mean is detached"),
    "no gradient": (no_gradient, "graph is cut"),
    "gain without gradient": (gain_without_gradient, "graph is cut"),
    "view": (needs_contiguous, ""),
    "strides ignored": (reads_memory, "as if it were contiguous"),
    "NaN hidden": (hides_nan, ""),
    "NaN spread": (spreads_nan, "multiplication by 0"),
    "noise": (random_noise, "random"),
    "keepdim": (drops_the_axis, ""),
    "clipped": (clipped, ""),
    "returns nothing": (lambda x, weight=None, bias=None, eps=1e-5: None, ""),
    "returns a list": (lambda x, weight=None, bias=None, eps=1e-5: x.tolist(), ""),
    "identity": (lambda x, weight=None, bias=None, eps=1e-5: x, ""),
    "batch norm": (_pooled(lambda n: tuple(range(n - 1)) or (0,)), "all axes but the last"),
    "module, eps forgotten": (EpsForgotten, "eps is 0.001 here"),
    "module, eps forgotten, made": (EpsForgotten(8), "eps is 0.001 here"),
    "softmax": (lambda x, weight=None, bias=None, eps=1e-5: x.softmax(-1), ""),
    "no shift": (lambda x, weight=None, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps),
                 "missing parameter"),
}  # fmt: skip


def two_passes(x, weight=None, bias=None, eps=1e-5):
    wide = x.double() if x.dtype == torch.float64 else x.float()
    n = wide.shape[-1]
    centred = wide - wide.sum(-1, keepdim=True) / n
    variance = (centred * centred).sum(-1, keepdim=True) / n
    y = centred / torch.sqrt(variance + eps)
    y = y * (1 if weight is None else weight) + (0 if bias is None else bias)
    return y.to(x.dtype)


def projection(x, gamma=None, beta=None, epsilon=1e-5):
    wide = _wide(x)
    n = x.shape[-1]
    centred = wide @ (torch.eye(n, dtype=wide.dtype) - 1 / n)
    length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    unit = centred * math.sqrt(n) / torch.hypot(length, torch.tensor((n * epsilon) ** 0.5))
    y = unit if gamma is None else unit * gamma
    return (y if beta is None else y + beta).to(x.dtype)


def welford(x, weight=None, bias=None, eps=1e-5):
    wide = _wide(x)
    mean, squares = torch.zeros_like(wide[..., 0]), torch.zeros_like(wide[..., 0])
    for count, column in enumerate(wide.unbind(-1), start=1):
        delta = column - mean
        mean = mean + delta / count
        squares = squares + delta * (column - mean)
    spread = (squares / x.shape[-1] + eps).rsqrt()
    y = (wide - mean.unsqueeze(-1)) * spread.unsqueeze(-1)
    return _write(y, 1, weight, bias).to(x.dtype)


def all_in_float64(x, weight, bias, eps):
    wide = x.double()
    var, mean = torch.var_mean(wide, -1, correction=0, keepdim=True)
    y = (wide - mean) / (var + eps) ** 0.5
    return _write(y, 1.0, weight, bias).to(x.dtype)


def last_axis_first(x, weight=None, bias=None, eps=1e-5):
    rows = _wide(x).movedim(-1, 0)
    y = ((rows - rows.mean(0)) * (rows.var(0, correction=0) + eps).pow(-0.5)).movedim(0, -1)
    return torch.addcmul(
        torch.zeros(()) if bias is None else bias, y.to(x.dtype),
        torch.ones((), dtype=x.dtype) if weight is None else weight,
    ).to(x.dtype)  # fmt: skip


class OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        wide = _wide(x)
        var, mean = torch.var_mean(wide, -1, correction=0, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        ctx.save_for_backward((wide - mean) * rstd, rstd)
        return ctx.saved_tensors[0].to(x.dtype) if False else ((wide - mean) * rstd).to(x.dtype)

    @staticmethod
    def backward(ctx, *tops):
        standard, rstd = ctx.saved_tensors
        top = tops[0]
        inner = top - top.mean(-1, True) - standard * (top * standard).mean(-1, True)
        return inner * rstd, None


def own_backward(x, weight=None, bias=None, eps=1e-5):
    return _write(OwnBackward.apply(x, eps), 1, weight, bias)


class ByHand(nn.Module):
    def __init__(self, d_model, epsilon=1e-5):
        super().__init__()
        self.gamma, self.beta = (
            nn.Parameter(torch.ones(d_model)),
            nn.Parameter(torch.zeros(d_model)),
        )
        self.epsilon = epsilon

    def forward(self, x):
        return two_passes(x, self.gamma, self.beta, self.epsilon)


RIGHT = {
    "torch": lambda x, weight=None, bias=None, eps=1e-5: F.layer_norm(
        x, x.shape[-1:], weight, bias, eps
    ),
    "torch's own function": F.layer_norm,
    "two passes": two_passes,
    "projection": projection,
    "welford": welford,
    "all in float64": all_in_float64,
    "last axis first": last_axis_first,
    "own backward": own_backward,
    "torch module": nn.LayerNorm(24),
    "torch module, tiny eps": nn.LayerNorm(16, eps=1e-12),
    "torch module, two axes": nn.LayerNorm((3, 4)),
    "torch module, bare": nn.LayerNorm(10, elementwise_affine=False),
    "torch module, no shift": nn.LayerNorm(10, bias=False),
    "torch class": nn.LayerNorm,
    "module by hand": ByHand,
    "module by hand, made": ByHand(20, 1e-3),
    "bare formula": lambda x: F.layer_norm(x, x.shape[-1:]),
}
