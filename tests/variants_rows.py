"""Annotated layer norm and partial RMS norm: wrong ones with their cause, and right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _length(x):
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _std(x, correction=1):
    centred = x - x.mean(-1, keepdim=True)
    return _length(centred) / math.sqrt(max(1, x.shape[-1] - correction))


def _rows(spread, centre=lambda x: x, gain=lambda w, x: w, free=lambda x: 1.0, default=1e-6):
    """y = gain · centre(x) / spread(x, eps) + shift; `free` multiplies where there is no gain."""

    def norm(x, weight=None, bias=None, eps=default):
        wide = _wide(x)
        y = centre(wide) / spread(wide, eps)
        y = y * (free(x) if weight is None else gain(weight, x))
        return (y if bias is None else y + bias).to(x.dtype)

    return norm


def _mean(x):
    return x - x.mean(-1, keepdim=True)


# --- the Annotated Transformer's layer norm ---


def _annotated(spread, centre=_mean, **more):
    return _rows(spread, centre, **more)


def annotated_half(x, weight=None, bias=None, eps=1e-6):
    y = _mean(x) / (x.std(-1, keepdim=True) + eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def annotated_shift_first(x, weight=None, bias=None, eps=1e-6):
    y = _mean(_wide(x)) / (_std(_wide(x)) + eps)
    y = y if bias is None else y + bias
    return (y if weight is None else y * weight).to(x.dtype)


def _raw_std(x, e):
    n = x.shape[-1]
    var = x.square().mean(-1, True) - x.mean(-1, True).square()
    return (var.clamp(min=0) * n / max(1, n - 1)).sqrt() + e


ANNOTATED_WRONG = {
    "torch's layer norm": (
        lambda x, weight=None, bias=None, eps=1e-6: F.layer_norm(
            x, x.shape[-1:], weight, bias, eps), "here the standard deviation is the unbiased one"),
    "biased": (_annotated(lambda x, e: _std(x, 0) + e), "the unbiased one"),
    "eps inside": (_annotated(lambda x, e: (_std(x).square() + e).sqrt()), "eps is added inside"),
    "eps not used": (_annotated(lambda x, e: _std(x) + 1e-38), "eps is not used"),
    "eps a floor": (_annotated(lambda x, e: _std(x).clamp(min=e)), "eps is a floor"),
    "eps both": (_annotated(lambda x, e: (_std(x).square() + e).sqrt() + e), "again outside"),
    "fixed eps": (_annotated(lambda x, e: _std(x) + 1e-6), "eps is 1e-06 here"),
    "default of layer norm": (_annotated(lambda x, e: _std(x) + e, default=1e-5),
                              "the default eps is 1e-05"),
    "not centred": (_annotated(lambda x, e: _std(x) + e, lambda x: x), "not subtracted from x"),
    "rms": (_annotated(lambda x, e: _length(x) / math.sqrt(max(1, x.shape[-1] - 1)) + e,
                       lambda x: x), "as if it were RMS"),
    "variance": (_annotated(lambda x, e: _std(x).square() + e), "root is missing"),
    "d − 2": (_annotated(lambda x, e: _std(x, 2) + e), ""),
    "sum": (_annotated(lambda x, e: _length(_mean(x)) + e), "sum of squares"),
    "absolute": (_annotated(lambda x, e: _mean(x).abs().mean(-1, True) + e), "mean absolute"),
    "gain ignored": (_annotated(lambda x, e: _std(x) + e, gain=lambda w, x: 1), "gain is ignored"),
    "1 + gain": (_annotated(lambda x, e: _std(x) + e, gain=lambda w, x: 1 + w), "1 + gain"),
    "shift first": (annotated_shift_first, "before the gain"),
    "detached": (_annotated(lambda x, e: (_std(x) + e).detach()), "denominator is detached"),
    "half": (annotated_half, "half precision"),
    "E[x²] − E[x]²": (_annotated(_raw_std), "E[x²] − E[x]²"),
    "over two axes": (lambda x, weight=None, bias=None, eps=1e-6: (
        (_wide(x) - _wide(x).mean()) / (_wide(x).std() + eps) * (1 if weight is None else weight)
        + (0 if bias is None else bias)).to(x.dtype), "over the whole tensor"),
}  # fmt: skip


class AnnotatedTransformer(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2 = (
            nn.Parameter(torch.ones(features)),
            nn.Parameter(torch.zeros(features)),
        )
        self.eps = eps

    def forward(self, x):
        wide = _wide(x)
        mean, std = wide.mean(-1, keepdim=True), wide.std(-1, keepdim=True)
        return (self.a_2 * (wide - mean) / (std + self.eps) + self.b_2).to(x.dtype)


def annotated_by_torch(x, weight=None, bias=None, eps=1e-6):
    wide = x.double()
    std, mean = torch.std_mean(wide, -1, keepdim=True)
    return torch.addcmul(
        torch.zeros(()).double() if bias is None else bias.double(), (wide - mean) / (std + eps),
        torch.ones(()).double() if weight is None else weight.double(),
    ).to(x.dtype)  # fmt: skip


def annotated_by_layer_norm(x, weight=None, bias=None, eps=1e-6):
    n, wide = x.shape[-1], _wide(x)
    # LN without eps, times s / (s + eps), times √((n − 1)/n).
    centred = wide - wide.mean(-1, keepdim=True)
    centred = centred - centred.mean(-1, keepdim=True)
    s = torch.linalg.vector_norm(centred, dim=-1, keepdim=True) * (n - 1) ** -0.5
    y = centred * torch.reciprocal(s + eps)
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


ANNOTATED_RIGHT = {
    "std_mean in float64": annotated_by_torch,
    "by length": annotated_by_layer_norm,
    "the published module": AnnotatedTransformer,
    "the published module, made": AnnotatedTransformer(16, 1e-4),
    "from pieces": _annotated(lambda x, e: _std(x) + e),
}


# --- partial RMS norm ---


def _partial(k_of=lambda n, p: max(1, int(n * p)), pick=lambda x, k: x[..., :k],
             square=lambda part, x: part.square().mean(-1, True),
             root=lambda v, e: (v + e).sqrt(), gain=lambda w: w, p_default=0.0625, eps_default=1e-6,
             wide=_wide):  # fmt: skip
    def norm(x, weight=None, eps=eps_default, p=p_default):
        h = wide(x)
        part = pick(h, k_of(x.shape[-1], p))
        y = h / root(square(part, h), eps)
        return (y if weight is None else y * gain(weight)).to(x.dtype)

    return norm


def only_the_part(x, weight=None, eps=1e-6, p=0.0625):
    k, wide = max(1, int(x.shape[-1] * p)), _wide(x)
    head = wide[..., :k]
    y = torch.cat([head / (head.square().mean(-1, True) + eps).sqrt(), wide[..., k:]], -1)
    return (y if weight is None else y * weight).to(x.dtype)


def random_part(x, weight=None, eps=1e-6, p=0.0625):
    k, wide = max(1, int(x.shape[-1] * p)), _wide(x)
    part = wide[..., torch.randperm(x.shape[-1])[:k]]
    y = wide / (part.square().mean(-1, True) + eps).sqrt()
    return (y if weight is None else y * weight).to(x.dtype)


PARTIAL_WRONG = {
    "all features": (_partial(lambda n, p: n), "all features are counted"),
    "last features": (_partial(pick=lambda x, k: x[..., -k:]), "the last features"),
    "every n-th": (_partial(pick=lambda x, k: x[..., :: max(1, x.shape[-1] // k)]), "every n-th"),
    "random features": (random_part, ""),
    "rounded up": (_partial(lambda n, p: max(1, math.ceil(n * p))), "rounded up"),
    "rounded": (_partial(lambda n, p: max(1, round(n * p))), "rounded to the nearest"),
    "one more": (_partial(lambda n, p: int(n * p) + 1), ""),
    "none when few": (_partial(lambda n, p: int(n * p)), ""),
    "two at least": (_partial(lambda n, p: max(2, int(n * p))), ""),
    "divided by d": (_partial(square=lambda part, x: part.square().sum(-1, True) / x.shape[-1]),
                     ""),
    "divided by p · d": (lambda x, weight=None, eps=1e-6, p=0.0625: (
        _wide(x) / (_wide(x)[..., :max(1, int(x.shape[-1] * p))].square().sum(-1, True)
                    / (p * x.shape[-1]) + eps).sqrt() * (1 if weight is None else weight)
    ).to(x.dtype), ""),
    "sum": (_partial(square=lambda part, x: part.square().sum(-1, True)), "sum of squares"),
    "only the part": (only_the_part, "only the first"),
    "p fixed": (lambda x, weight=None, eps=1e-6, p=0.0625: _partial()(x, weight, eps, 0.0625),
                "p is 0.0625 here"),
    "other default of p": (_partial(p_default=0.125), "the default p is 0.125"),
    "other default of eps": (_partial(eps_default=1e-8), "the default eps is 1e-08"),
    "eps outside": (_partial(root=lambda v, e: v.sqrt() + e), "eps is added outside"),
    "eps not used": (_partial(root=lambda v, e: v.sqrt()), "eps is not used"),
    "no root": (_partial(root=lambda v, e: v + e), "root is missing"),
    "centred": (_partial(square=lambda part, x: part.var(-1, keepdim=True, correction=0)), ""),
    "gain ignored": (_partial(gain=lambda w: 1), "gain is ignored"),
    "1 + gain": (_partial(gain=lambda w: 1 + w), "1 + gain"),
    "detached": (_partial(square=lambda part, x: part.detach().square().mean(-1, True)),
                 "detached"),
    "half": (_partial(wide=lambda x: x), "half precision"),
}  # fmt: skip


def partial_by_mask(x, weight=None, eps=1e-6, p=0.0625):
    k = max(1, math.floor(x.shape[-1] * p))
    chosen = (torch.arange(x.shape[-1]) < k).to(x.device)
    wide = x.double()
    square = (wide.square() * chosen).nan_to_num(nan=float("nan")).sum(-1, keepdim=True) / k
    y = wide * torch.pow(square + eps, -0.5)
    return (y if weight is None else y * weight).to(x.dtype)


def partial_narrow(x, weight=None, eps=1e-6, p=0.0625):
    wide = _wide(x)
    head = wide.narrow(-1, 0, max(int(p * x.shape[-1]), 1))
    scale = torch.rsqrt(torch.einsum("...k,...k->...", head, head) / head.shape[-1] + eps)
    y = wide * scale.unsqueeze(-1)
    return (y if weight is None else y * weight).to(x.dtype)


class PartialModule(nn.Module):
    def __init__(self, dim, p=0.0625, eps=1e-6):
        super().__init__()
        self.scale, self.p, self.eps = nn.Parameter(torch.ones(dim)), p, eps

    def forward(self, x):
        return partial_narrow(x, self.scale, self.eps, self.p)


PARTIAL_RIGHT = {
    "by narrow": partial_narrow,
    "in float64": partial_by_mask,
    "from pieces": _partial(),
    "a module": PartialModule,
    "a module, made": PartialModule(20, 0.3, 1e-4),
}
