"""Norms of the last axis: wrong variants with the expected cause, and right ones.

`rows` is such a norm with every decision free. The right settings make a norm; one setting changed
makes a wrong one.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from variants_common import (
    DEFAULTS,
    GAINS,
    INSIDE,
    SHIFTS,
    WIDTHS,
    Gain,
    affine,
    double,
    inside,
    vary,
    wide,
)

from labkit import norms


def variance(x, p=None, correction=0):
    return x.var(-1, keepdim=True, correction=correction)


def square(x, p=None):
    return x.square().mean(-1, keepdim=True)


def total(x, p=None):
    return x.square().sum(-1, keepdim=True)


def length(x, p=None):
    """The square root has no finite slope at 0; this function does."""
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def plus(s, e):
    return s + e


def centred(x):
    return x - x.mean(-1, keepdim=True)


def rows(
    moment, root=inside, centre=lambda x: x, affine=affine, widen=wide, eps=1e-6, p=0.0625,
    free=lambda dim: 1.0, round_first=False, round_last=True,
):  # fmt: skip
    """y = gain · centre(x) / root(moment(x), eps) + shift; `free` is the gain if none is given.

    What a norm does not have (a shift, p) is never passed.
    """

    def norm(x, weight=None, bias=None, eps=eps, p=p):
        h = widen(x)
        y = centre(h) / root(moment(h, p), eps)
        if weight is None:
            y = y * free(x.shape[-1])
        if round_first:
            return affine(y.to(x.dtype), weight, bias)
        y = affine(y, widen(weight), widen(bias))
        return y.to(x.dtype) if round_last else y

    return norm


def family(moment, **usual):
    """Fix the right decisions of a norm; variants may override them."""
    return lambda moment=moment, **others: rows(moment, **usual | others)


def over(axes):
    """Share statistics over other axes, given by their number."""

    def moment(x, p=None):
        return x.var(axes(x.ndim), keepdim=True, correction=0)

    return {"moment": moment, "centre": lambda x: x - x.mean(axes(x.ndim), keepdim=True)}


def gain_class(call, start=1.0):
    """Make a class of modules from one line, call(x, weight, eps)."""
    forward = lambda self, x: call(x, self.weight, self.eps)  # noqa: E731
    return type("Made", (Gain,), {"forward": forward, "start": start})


# --- layer norm ---

layer = family(variance, centre=centred, eps=1e-5)


def as_layer(function):
    """Give a function the signature of a layer norm."""
    return lambda x, weight=None, bias=None, eps=1e-5: function(x, weight, bias, eps)


def raw_variance(x, p=None):
    return (square(x) - x.mean(-1, keepdim=True).square()).clamp(min=0)


def drops_the_axis(x, weight=None, bias=None, eps=1e-5):
    return affine((x - x.mean(-1)) / (x.var(-1, correction=0) + eps).sqrt(), weight, bias)


class Extra(nn.LayerNorm):
    def __init__(self, dim, eps=1e-5):
        super().__init__(dim, eps)
        self.extra = nn.Parameter(torch.ones(1))


LAYER_WRONG = {
    **vary(layer, affine=GAINS | SHIFTS, **INSIDE),
    "unbiased": (layer(partial(variance, correction=1)), "divides by d − 1"),
    "length": (layer(lambda x, p: total(centred(x))), "sum of squares"),
    "absolute": (layer(lambda x, p: centred(x).abs().mean(-1, True), root=plus),
                 "mean absolute"),
    "not centred": (layer(centre=lambda x: x), "not subtracted from x"),
    "rms": (layer(square, centre=lambda x: x), "as if it were RMS"),
    "spread about 0": (layer(square), "mean of x²"),
    "first axis": (layer(**over(lambda n: 0)), "over the first axis"),
    "whole tensor": (layer(**over(lambda n: tuple(range(n)))), "over the whole tensor"),
    "batch norm": (layer(**over(lambda n: tuple(range(n - 1)) or (0,))), "all axes but the last"),
    "E[x²] − E[x]²": (layer(raw_variance), "E[x²] − E[x]²"),
    "detached": (layer(lambda x, p: variance(x.detach()), centre=lambda x: (
        x - x.detach().mean(-1, True))), "statistics are detached"),
    "detached mean": (layer(centre=lambda x: x - x.mean(-1, True).detach()), "mean is detached"),
    "keepdim": (drops_the_axis, ""),
    "returns nothing": (as_layer(lambda *_: None), ""),
    "returns a list": (as_layer(lambda x, *_: x.tolist()), ""),
    "no shift": (lambda x, weight=None, eps=1e-5: F.layer_norm(x, x.shape[-1:], weight, None, eps),
                 "missing parameter"),
}  # fmt: skip


def two_passes(x, gamma=None, beta=None, epsilon=1e-5):
    h = wide(x)
    middle = h - h.sum(-1, keepdim=True) / h.shape[-1]
    y = middle / torch.sqrt((middle * middle).sum(-1, keepdim=True) / h.shape[-1] + epsilon)
    return (y * (1 if gamma is None else gamma) + (0 if beta is None else beta)).to(x.dtype)


class OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, eps):
        var, mean = torch.var_mean(wide(x), -1, correction=0, keepdim=True)
        rstd = torch.rsqrt(var + eps)
        ctx.save_for_backward((wide(x) - mean) * rstd, rstd)
        return ((wide(x) - mean) * rstd).to(x.dtype)

    @staticmethod
    def backward(ctx, *tops):
        standard, rstd = ctx.saved_tensors
        top = tops[0]
        inner = top - top.mean(-1, True) - standard * (top * standard).mean(-1, True)
        return inner * rstd, None


class ByHand(nn.Module):
    def __init__(self, d_model, epsilon=1e-5):
        super().__init__()
        self.gamma, self.beta = (nn.Parameter(torch.full((d_model,), s)) for s in (1.0, 0.0))
        self.epsilon = epsilon

    def forward(self, x):
        return two_passes(x, self.gamma, self.beta, self.epsilon)


LAYER_RIGHT = {
    "torch's own function": F.layer_norm,
    "two passes": two_passes,
    "a further parameter": Extra,
    "own backward": as_layer(lambda x, w, b, e: affine(OwnBackward.apply(x, e), w, b).to(x)),
    "from pieces": layer(),
    "torch module": nn.LayerNorm(24),
    "torch module, two axes": nn.LayerNorm((3, 4)),
    "torch module, bare": nn.LayerNorm(10, elementwise_affine=False),
    "torch module, no shift": nn.LayerNorm(10, bias=False),
    "torch class": nn.LayerNorm,
    "module by hand": ByHand,
    "module by hand, made": ByHand(20, 1e-3),
    "bare formula": lambda x: F.layer_norm(x, x.shape[-1:]),
}


# --- the Annotated Transformer's layer norm: eps is added to the unbiased deviation ---


def std(x, p=None, correction=1):
    return length(centred(x)) / math.sqrt(max(1, x.shape[-1] - correction))


annotated = family(std, root=plus, centre=centred)
ANNOTATED_WRONG = {
    **vary(annotated, eps=DEFAULTS, affine=GAINS | SHIFTS, widen=WIDTHS),
    "torch's layer norm": (lambda x, weight=None, bias=None, eps=1e-6: F.layer_norm(
        x, x.shape[-1:], weight, bias, eps), "here the standard deviation is the unbiased one"),
    "eps inside": (annotated(root=lambda s, e: (s.square() + e).sqrt()), "eps is added inside"),
    "eps not used": (annotated(root=lambda s, e: s + 1e-38), "eps is not used"),
    "eps a floor": (annotated(root=lambda s, e: s.clamp(min=e)), "eps is a floor"),
    "eps both": (annotated(root=lambda s, e: (s.square() + e).sqrt() + e), "again outside"),
    "fixed eps": (annotated(root=lambda s, e: s + 1e-6), "eps is 1e-06 here"),
}  # fmt: skip


class AnnotatedTransformer(nn.Module):
    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2, self.b_2 = (nn.Parameter(torch.full((features,), s)) for s in (1.0, 0.0))
        self.eps = eps

    def forward(self, x):
        deviation = wide(x).std(-1, keepdim=True)
        return (self.a_2 * centred(wide(x)) / (deviation + self.eps) + self.b_2).to(x.dtype)


ANNOTATED_RIGHT = {
    "in float64": annotated(widen=double),
    "the published module": AnnotatedTransformer,
    "the published module, made": AnnotatedTransformer(16, 1e-4),
    "from pieces": annotated(),
}


# --- RMS norm, of any rounding order ---

rms = family(square)
AS_LAYER = (lambda x, weight=None, eps=1e-6: F.layer_norm(x, x.shape[-1:], weight, eps=eps),
            "the mean is subtracted")  # fmt: skip


def overwrites_gain(x, weight=None, eps=1e-6):
    y = rms()(x, weight, None, eps)
    if weight is not None:
        with torch.no_grad():
            weight.clamp_(min=0.1)
    return y


def by_torch(clip):
    return lambda x, weight=None, eps=1e-6: F.rms_norm(clip(x), x.shape[-1:], weight, eps)


RMS_WRONG = {
    **vary(rms, affine=GAINS, **INSIDE),
    "layer norm": AS_LAYER,
    "standard deviation": (rms(variance), "the standard deviation divides"),
    "d − 1": (rms(lambda x, p: total(x) / max(1, x.shape[-1] - 1)), "divides by d − 1"),
    "largest": (rms(lambda x, p: x.abs().amax(-1, True), root=plus), "largest absolute"),
    "gain averaged": (rms(affine=lambda y, w, b: affine(y, None if w is None else w.mean(), b)),
                      "mean of the gains"),
    "float32 returned": (rms(round_last=False), "not converted back"),
    "gain overwritten": (overwrites_gain, "in-place"),
    "exits": (lambda x, weight=None, eps=1e-6: exit(3), ""),
}  # fmt: skip


def llama(x, weight=None, eps=1e-6):
    return rms(round_first=True)(x, weight, None, eps)


def by_length(x, g=None, eps=1e-6):
    y = wide(x) * torch.rsqrt(length(wide(x)).square() / x.shape[-1] + eps)
    return affine(y, g, None).to(x.dtype)


class Llama(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, hidden_states):
        return llama(hidden_states, self.weight, self.variance_epsilon)


RMS_WRONG |= {
    "llama's order": (llama, "gain promotes the result"),
    "llama's class": (Llama, "gain promotes the result"),
}
RMS_RIGHT = {
    "torch": by_torch(lambda x: x),
    "by length": by_length,
    "in float64": rms(widen=double),
    "from pieces": rms(),
    "torch module": nn.RMSNorm(16),
    "torch module, bare": nn.RMSNorm(16, elementwise_affine=False),
    "torch class": nn.RMSNorm,
}


# --- by rounding order: what is wrong and right for the variant that is asked for ---


def t5(x, weight=None, eps=1e-6):
    """As published: a float32 gain is not rounded to."""
    y = rms()(wide(x), None, None, eps)
    if weight is None:
        return y.to(x.dtype)
    return weight * (y.to(weight.dtype) if weight.dtype in (torch.float16, torch.bfloat16) else y)


def t5_by_rsqrt(x, weight=None, eps=1e-6):
    """Round the normalized values to the gain's dtype."""
    y = wide(x) * torch.rsqrt(wide(x).pow(2).mean(-1, keepdim=True) + eps)
    kind = x.dtype if weight is None or weight.dtype == x.dtype else y.dtype
    return affine(y.to(kind), weight, None)


def one_plus(y, w, b=None):
    return y if w is None else y * (1 + w)


llama_order, gemma = family(square, round_first=True), family(square, affine=one_plus)
Gemma = gain_class(lambda x, w, e: gemma()(x, w, None, e), start=0.0)


def orders(make):
    """List the mistakes common to all orders of casts."""
    return vary(make, affine=GAINS, root=INSIDE["root"], eps=DEFAULTS)


TORCH_WRONG = orders(rms) | {"llama's order": (llama, "cast back to x's dtype before")}
TORCH_RIGHT = {"torch": by_torch(lambda x: x), "from pieces": rms(), "torch class": nn.RMSNorm,
               "torch module": nn.RMSNorm(32)}  # fmt: skip
LLAMA_WRONG = {**orders(llama_order), "torch's order": (rms(), "one rounding, after the gain"),
               "t5": (t5, "with a float32 gain is: one rounding")}  # fmt: skip
LLAMA_RIGHT = {"from pieces": llama, "a class": Llama, "made": Llama(64),
               "float64 inside": llama_order(widen=double)}  # fmt: skip
T5_WRONG = {**orders(llama_order), "llama": (llama, "cast back"),
            "llama's class": (Llama, "with a float32 gain is: cast back")}  # fmt: skip
T5_RIGHT = {"as published": t5, "by rsqrt": t5_by_rsqrt,
            "a class": gain_class(lambda x, w, e: t5(x, w, e))}  # fmt: skip
GEMMA_WRONG = {
    **vary(gemma, root=INSIDE["root"], eps=DEFAULTS),
    "llama's order": (llama_order(affine=one_plus), ""),
    "gain in half": (lambda x, weight=None, eps=1e-6: (
        rms()(wide(x), None, None, eps) * (1 if weight is None else 1 + weight)).to(x.dtype), ""),
}  # fmt: skip
GEMMA_RIGHT = {"from pieces": gemma(), "a class": Gemma, "made": Gemma(48),
               "by addcmul": rms(affine=lambda y, w, b: (
                   y if w is None else torch.addcmul(y, y, w)))}  # fmt: skip


def root_mean(x, p=None):
    return length(x) * x.shape[-1] ** -0.5


class AuthorsRMSNorm(nn.Module):
    """The norm of bzhangGo/rmsnorm by its formula: scale · x / (|x| / √d + eps) [+ offset].

    All of it in the dtype of x; with 0 < p < 1 the length is that of the first p · d features.
    """

    def __init__(self, d, p=-1.0, eps=1e-8, bias=False):
        super().__init__()
        self.eps, self.d, self.p = eps, d, p
        self.scale = nn.Parameter(torch.ones(d))
        self.register_parameter("offset", nn.Parameter(torch.zeros(d)) if bias else None)

    def forward(self, x):
        count = int(self.d * self.p) if 0 < self.p < 1 else self.d
        length = torch.linalg.vector_norm(x[..., :count], dim=-1, keepdim=True)
        y = self.scale * (x / (length * count**-0.5 + self.eps))
        return y if self.offset is None else y + self.offset


outside = family(root_mean, root=plus, eps=1e-8)
OUTSIDE_WRONG = {
    **vary(outside, affine=GAINS, eps=DEFAULTS),
    "inside": (rms(eps=1e-8), "eps is added inside"),
    "eps not used": (rms(root=lambda v, e: v.sqrt(), eps=1e-8), "eps is not used"),
    "no root": (rms(root=plus, eps=1e-8), "root is missing"),
    "the authors' module of a part": (AuthorsRMSNorm(16, p=0.5), ""),
}  # fmt: skip
OUTSIDE_RIGHT = {
    "the authors' class": AuthorsRMSNorm, "the authors' module": AuthorsRMSNorm(16),
    "the authors' module, another eps": AuthorsRMSNorm(24, -1, 1e-5),
    "by length": outside(), "from a square": rms(
    root=lambda v, e: v.clamp(min=1e-37).sqrt() + e, eps=1e-8),
    "in float64": outside(widen=double), "llama's order": outside(round_first=True),
    "the input's precision": outside(widen=lambda x: x)}  # fmt: skip


# --- partial RMS norm ---


def head(count=lambda n, p: max(1, int(n * p)), pick=lambda x, k: x[..., :k]):
    """Compute the mean square from some features only."""
    return lambda x, p: square(pick(x, count(x.shape[-1], p)))


partial_rms = family(head())


def only_the_part(x, weight=None, eps=1e-6, p=0.0625):
    k = max(1, int(x.shape[-1] * p))
    y = torch.cat([rms()(wide(x)[..., :k], None, None, eps), wide(x)[..., k:]], -1)
    return affine(y, weight, None).to(x.dtype)


def share(x, p):
    return x[..., : max(1, int(x.shape[-1] * p))]


PARTIAL_WRONG = {
    **vary(partial_rms, affine=GAINS, **INSIDE),
    "all features": (partial_rms(head(lambda n, p: n)), "all features are counted"),
    "last features": (partial_rms(head(pick=lambda x, k: x[..., -k:])), "the last features"),
    "rounded up": (partial_rms(head(lambda n, p: max(1, math.ceil(n * p)))), "rounded up"),
    "rounded": (partial_rms(head(lambda n, p: max(1, round(n * p)))), "rounded to the nearest"),
    "none when few": (partial_rms(head(lambda n, p: int(n * p))), ""),
    "two at least": (partial_rms(head(lambda n, p: max(2, int(n * p)))), ""),
    "only the part": (only_the_part, "only the first"),
    "p fixed": (partial_rms(lambda x, p: square(share(x, 0.0625))), "p is 0.0625 here"),
    "other default of p": (partial_rms(p=0.125), "the default p is 0.125"),
    **vary(partial_rms, p={f"default p {p:g}": (p, "") for p in (0.05, 0.06, 0.063, 0.0675)}),
}  # fmt: skip


class PartialModule(nn.Module):
    def __init__(self, dim, p=0.0625, eps=1e-6):
        super().__init__()
        self.scale, self.p, self.eps = nn.Parameter(torch.ones(dim)), p, eps

    def forward(self, x):
        return norms.partial_rms_norm(x, self.scale, self.eps, self.p)


PARTIAL_RIGHT = {
    "in float64": partial_rms(widen=double), "from pieces": partial_rms(),
    "a module": PartialModule, "a module, made": PartialModule(20, 0.3, 1e-4),
}  # fmt: skip


# --- scale norm, L2 norm: the length divides, and eps is the least one ---


def at_least(n, e):
    return n.clamp(min=e)


def root_of_dim(dim):
    return dim**0.5


lengths = family(length, root=at_least, eps=1e-5)
ON_LENGTHS = {
    "root": {
        "plus eps": (plus, "plus eps, not max"),
        "eps in the root": (lambda n, e: (n.square() + e).sqrt(), "eps is added inside"),
        "eps floor of the square": (lambda n, e: n.square().clamp(min=e).sqrt(),
                                    "floor on the square"),
        "eps not used": (lambda n, e: n, "eps is not used"),
        "fixed eps": (lambda n, e: n.clamp(min=1e-6), "eps is 1e-06 here"),
        "no root": (lambda n, e: n.square().clamp(min=e), "root is missing"),
        "gradient below eps": (lambda n, e: n + (n.clamp(min=e) - n).detach(), ""),
    },
    "moment": {
        "rms": (lambda x, p: root_mean(x), "the root mean square divides"),
        "no gradient at 0": (lambda x, p: total(x).sqrt(), "no slope at 0"),
    },
    "eps": DEFAULTS,
    "widen": WIDTHS,
}  # fmt: skip
GainForEach = gain_class(lambda x, w, e: (w * F.normalize(wide(x), dim=-1, eps=1e-5)).to(x.dtype))


def of_length(**settings):
    """List the mistakes common to both norms."""
    centring = lengths(lambda x, p: length(centred(x)), centre=centred, **settings)
    return {**vary(partial(lengths, **settings), **ON_LENGTHS),
            "centred": (centring, "the mean is subtracted")}  # fmt: skip


class Scale(nn.Module):
    """Scale norm with one gain, which may have another initial value."""

    def __init__(self, dim, eps=1e-5, start=None):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.tensor(dim**0.5 if start is None else start)), eps

    def forward(self, x):
        return (self.g * F.normalize(wide(x), dim=-1, eps=self.eps)).to(x.dtype)


class ScaleFromOne(Scale):
    def __init__(self, dim, eps=1e-5):
        super().__init__(dim, eps, 1.0)


class Temperature(nn.Module):
    def __init__(self, dim, eps=1e-12, temperature=1.0):
        super().__init__()
        self.temperature, self.eps = nn.Parameter(torch.tensor([temperature])), eps

    def forward(self, x):
        return lengths()(x, self.temperature, None, self.eps)


scale, l2 = partial(lengths, free=root_of_dim), partial(lengths, eps=1e-12)
SCALE_WRONG = {
    **of_length(free=root_of_dim), **vary(scale, affine=GAINS),
    "√d missing": (lengths(), "√d is missing"),
    "a gain for each feature": (GainForEach, "one number for all features"),
    "starts at 1": (ScaleFromOne, "√d is missing"),
}  # fmt: skip
L2_WRONG = {
    **of_length(eps=1e-12), **vary(l2, affine=GAINS),
    "√d": (l2(free=root_of_dim), "√d multiplies where no gain"),
    "a gain for each feature": (GainForEach, "one number for all features"),
}  # fmt: skip
SCALE_RIGHT = {"in float64": scale(widen=double),
               "a class": Scale, "made": Scale(10, 1e-3), "from pieces": scale()}  # fmt: skip
L2_RIGHT = {"in float64": l2(widen=double),
            "a class": Temperature, "made": Temperature(10), "from pieces": l2()}  # fmt: skip
