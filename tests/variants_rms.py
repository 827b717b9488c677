"""RMS norms that are wrong, each with the cause to be named, and others that are right."""

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _make(spread, centre=lambda x: x, keep=lambda w: w):
    def norm(x, weight=None, eps=1e-6):
        wide = _wide(x)
        y = centre(wide) / spread(wide, eps)
        return (y if weight is None else y * keep(weight)).to(x.dtype)

    return norm


def _square(x):
    return x.square().mean(-1, keepdim=True)


def _root(x, eps):
    return (_square(x) + eps).sqrt()


def half_statistics(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def half_denominator(x, weight=None, eps=1e-6):
    y = x * torch.rsqrt(_square(_wide(x)) + eps).to(x.dtype)
    return y if weight is None else y * weight


def returns_float32(x, weight=None, eps=1e-6):
    y = _wide(x) * torch.rsqrt(_square(_wide(x)) + eps)
    return y if weight is None else y * _wide(weight)


def always_float32(x, weight=None, eps=1e-6):
    wide = x.float()
    y = wide / _root(wide, eps)
    return (y if weight is None else y * weight).to(x.dtype)


def overwrites_gain(x, weight=None, eps=1e-6):
    y = _wide(x) / _root(_wide(x), eps)
    if weight is None:
        return y.to(x.dtype)
    y = (y * weight).to(x.dtype)
    with torch.no_grad():
        weight.clamp_(min=0.1)
    return y


def overwrites_input(x, weight=None, eps=1e-6):
    x /= (x.square().mean(-1, keepdim=True) + eps).sqrt()
    return x if weight is None else x * weight


def detached(x, weight=None, eps=1e-6):
    wide = _wide(x)
    y = wide / _root(wide, eps).detach()
    return (y if weight is None else y * weight).to(x.dtype)


def through_numpy(x, weight=None, eps=1e-6):
    wide = _wide(x)
    y = torch.from_numpy((wide / _root(wide, eps)).detach().numpy())
    return (y if weight is None else y * weight).to(x.dtype)


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        rstd = torch.rsqrt(_square(x) + eps)
        ctx.save_for_backward(x, rstd)
        return x * rstd

    @staticmethod
    def backward(ctx, *tops):
        x, rstd = ctx.saved_tensors
        # One power of rstd is missing in the second term.
        return rstd * tops[0] - x * rstd.square() * (tops[0] * x).mean(-1, True), None


def wrong_backward(x, weight=None, eps=1e-6):
    y = WrongBackward.apply(_wide(x), eps)
    return (y if weight is None else y * weight).to(x.dtype)


def partial(x, weight=None, eps=1e-6):
    wide = _wide(x)
    y = wide / _root(wide[..., : max(1, x.shape[-1] // 2)], eps)
    return (y if weight is None else y * weight).to(x.dtype)


def outside_on_half_only(x, weight=None, eps=1e-6):
    return F.rms_norm(
        x.clamp(-250, 250) if x.dtype == torch.float16 else x, x.shape[-1:], weight, eps
    )


def first_axis(x, weight=None, eps=1e-6):
    y = _wide(x) / (_wide(x).square().mean(0, keepdim=True) + eps).sqrt()
    return (y if weight is None else y * weight).to(x.dtype)


def whole_tensor(x, weight=None, eps=1e-6):
    y = _wide(x) / (_wide(x).square().mean() + eps).sqrt()
    return (y if weight is None else y * weight).to(x.dtype)


def three_axes_wrong(x, weight=None, eps=1e-6):
    dims = (-2, -1) if x.ndim >= 3 else (-1,)
    y = _wide(x) / (_wide(x).square().mean(dims, keepdim=True) + eps).sqrt()
    return (y if weight is None else y * weight).to(x.dtype)


WRONG = {
    "eps outside": (_make(lambda x, e: _square(x).sqrt() + e), "eps is added outside"),
    "eps not used": (_make(lambda x, e: _square(x).sqrt()), "eps is not used"),
    "eps a floor": (_make(lambda x, e: _square(x).clamp(min=e).sqrt()), "eps is a floor"),
    "eps floor of length": (_make(lambda x, e: _square(x).sqrt().clamp(min=e)),
                            "floor on the root"),
    "fixed eps": (_make(lambda x, e: _root(x, 1e-6)), "eps is 1e-06 here"),
    "default of layer norm": (
        lambda x, weight=None, eps=1e-5: F.rms_norm(x, x.shape[-1:], weight, eps),
        "the default eps is 1e-05"),
    "centred": (_make(_root, lambda x: x - x.mean(-1, True)), ""),
    "layer norm": (lambda x, weight=None, eps=1e-6: F.layer_norm(x, x.shape[-1:], weight, eps=eps),
                   "the mean is subtracted"),
    "standard deviation": (
        _make(lambda x, e: (x.var(-1, keepdim=True, correction=0) + e).sqrt()),
        "the standard deviation divides"),
    "d − 1": (_make(lambda x, e: (x.square().sum(-1, True) / max(1, x.shape[-1] - 1) + e).sqrt()),
              "divides by d − 1"),
    "length": (_make(lambda x, e: (x.square().sum(-1, True) + e).sqrt()), "sum of squares"),
    "no root": (_make(lambda x, e: _square(x) + e), "root is missing"),
    "absolute": (_make(lambda x, e: x.abs().mean(-1, True) + e), "mean absolute"),
    "largest": (_make(lambda x, e: x.abs().amax(-1, True) + e), ""),
    "multiplies": (_make(lambda x, e: 1 / _root(x, e)), "multiplies by the root"),
    "gain ignored": (_make(_root, keep=lambda w: 1), "gain is ignored"),
    "1 + gain": (_make(_root, keep=lambda w: 1 + w), "1 + gain"),
    "gain squared": (_make(_root, keep=torch.square), ""),
    "gain averaged": (_make(_root, keep=torch.mean), ""),
    "gain divides": (_make(_root, keep=torch.reciprocal), "gain divides"),
    "sign lost": (_make(_root, torch.abs), ""),
    "minus": (_make(lambda x, e: -_root(x, e)), ""),
    "first axis": (first_axis, "over the first axis"),
    "whole tensor": (whole_tensor, "over the whole tensor"),
    "time pooled": (three_axes_wrong, ""),
    "half statistics": (half_statistics, "half precision"),
    "half denominator": (half_denominator, "half precision"),
    "clipped in float16": (outside_on_half_only, "half precision"),
    "float32 returned": (returns_float32, "not converted back"),
    "always float32": (always_float32, "float64 is converted"),
    "input overwritten": (overwrites_input, "in-place"),
    "gain overwritten": (overwrites_gain, "in-place"),
    "detached": (detached, "detached"),
    "numpy": (through_numpy, "graph is cut"),
    "wrong backward": (wrong_backward, ""),
    "partial": (partial, ""),
    "raises": (lambda x, weight=None, eps=1e-6: 1 / 0, ""),
    "exits": (lambda x, weight=None, eps=1e-6: exit(3), ""),
    "no gain": (lambda x, eps: x, ""),
}  # fmt: skip


def llama(x, weight=None, eps=1e-6):
    wide = _wide(x)
    y = (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
    return y if weight is None else weight * y


def gemma_order(x, g=None, eps=1e-6):
    wide = _wide(x)
    y = wide / torch.sqrt(torch.mean(wide * wide, dim=-1, keepdim=True) + eps)
    return (y if g is None else y * _wide(g)).to(x.dtype)


def by_length(x, weight=None, eps=1e-6):
    wide = _wide(x)
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    y = wide * torch.rsqrt(length.square() / x.shape[-1] + eps)
    return (y if weight is None else y * weight).to(x.dtype)


def by_einsum(x, weight, eps):
    wide = x.double()
    square = torch.einsum("...d,...d->...", wide, wide)[..., None] / x.shape[-1]
    return (wide * (square + eps) ** -0.5 * weight).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return llama(hidden_states, self.weight, self.variance_epsilon)


RIGHT = {
    "torch": lambda x, weight=None, eps=1e-6: F.rms_norm(x, x.shape[-1:], weight, eps),
    "torch's own function": F.rms_norm,
    "llama's order": llama,
    "gemma's order": gemma_order,
    "by length": by_length,
    "by einsum": by_einsum,
    "torch module": nn.RMSNorm(16),
    "torch module, large eps": nn.RMSNorm(16, eps=1e-2),
    "torch module, bare": nn.RMSNorm(16, elementwise_affine=False),
    "torch class": nn.RMSNorm,
    "llama's module": Llama(12),
    "llama's class": Llama,
}
