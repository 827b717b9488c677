"""Scale norm, L2 norm and fix norm: wrong ones with their cause, and right ones."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _length(x):
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True)


def _mean(x):
    return x - x.mean(-1, keepdim=True)


def _scaled(spread=lambda x, e: _length(x).clamp(min=e), gain=lambda w: w, root=True, eps=1e-5,
            wide=_wide, centre=lambda x: x):  # fmt: skip
    def norm(x, weight=None, eps=eps):
        h = wide(x)
        g = (x.shape[-1] ** 0.5 if root else 1.0) if weight is None else gain(weight)
        return (g * (centre(h) / spread(h, eps))).to(x.dtype)

    return norm


def _mutants(root, eps):
    """The mistakes that scale norm and L2 norm share."""

    def make(*args, **kwargs):
        return _scaled(*args, **{"root": root, "eps": eps, **kwargs})

    return {
        "plus eps": (make(lambda x, e: _length(x) + e), "plus eps, not max"),
        "eps in the root": (make(lambda x, e: (x.square().sum(-1, True) + e).sqrt()),
                            "eps is added inside"),
        "eps floor of the square": (make(lambda x, e: x.square().sum(-1, True).clamp(min=e).sqrt()),
                                    "floor on the square"),
        "eps not used": (make(lambda x, e: _length(x)), "eps is not used"),
        "fixed eps": (make(lambda x, e: _length(x).clamp(min=eps)), f"eps is {eps:g} here"),
        "other default": (make(eps=1e-3), "the default eps is 0.001"),
        "rms": (make(lambda x, e: (_length(x) / x.shape[-1] ** 0.5).clamp(min=e)),
                "the root mean square divides"),
        "no root": (make(lambda x, e: x.square().sum(-1, True).clamp(min=e)), "root is missing"),
        "sum of absolute values": (make(lambda x, e: x.abs().sum(-1, True).clamp(min=e)), ""),
        "largest value": (make(lambda x, e: x.abs().amax(-1, True).clamp(min=e)), ""),
        "centred": (make(lambda x, e: _length(_mean(x)).clamp(min=e), centre=_mean),
                    "the mean is subtracted"),
        "gain ignored": (make(gain=lambda w: 1.0), "gain is ignored"),
        "1 + gain": (make(gain=lambda w: 1 + w), "1 + gain"),
        "|gain|": (make(gain=torch.abs), "sign of the gain"),
        "gain squared": (make(gain=torch.square), "gain is squared"),
        "exp(gain)": (make(gain=torch.exp), ""),
        "detached": (make(lambda x, e: _length(x).clamp(min=e).detach()), "detached"),
        "gain without gradient": (make(gain=lambda w: w.item()), "graph is cut"),
        "half": (make(wide=lambda x: x), "half precision"),
        "first axis": (make(lambda x, e: torch.linalg.vector_norm(x, dim=0, keepdim=True).clamp(
            min=e)), "over the first axis"),
        "whole tensor": (make(lambda x, e: x.norm().clamp(min=e)), "over the whole tensor"),
        "sign lost": (make(centre=torch.abs), ""),
    }  # fmt: skip


class GainForEach(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.full((dim,), dim**0.5)), eps

    def forward(self, x):
        return (self.weight * _wide(x) / _length(_wide(x)).clamp(min=self.eps)).to(x.dtype)


class ScaleStartsAtOne(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.g, self.eps = nn.Parameter(torch.ones(1)), eps

    def forward(self, x):
        return scale_by_norm(x, self.g, self.eps)


SCALE_WRONG = {
    **_mutants(True, 1e-5),
    "√d missing": (_scaled(root=False), "√d is missing"),
    "√d with the gain": (_scaled(lambda x, e: _length(x).clamp(min=e) / x.shape[-1] ** 0.5,
                                 root=False), ""),
    "a gain for each feature": (GainForEach, "one number for all features"),
    "starts at 1": (ScaleStartsAtOne, "√d is missing"),
}  # fmt: skip
L2_WRONG = {
    **_mutants(False, 1e-12),
    "√d": (_scaled(root=True, eps=1e-12), "√d multiplies where no gain"),
    "gain divides": (_scaled(root=False, eps=1e-12, gain=torch.reciprocal), "gain divides"),
    "a gain for each feature": (GainForEach, "one number for all features"),
}
FIX_WRONG = {
    name: (lambda x, eps=1e-5, f=f: f(x, None, eps), cause)
    for name, (f, cause) in _mutants(False, 1e-5).items()
    if "gain" not in name and "fixed" not in name and "default" not in name
} | {"√d": (lambda x, eps=1e-5: x.shape[-1] ** 0.5 * fix_by_length(x, eps), "√d multiplies")}


def scale_by_norm(x, weight=None, eps=1e-5):
    wide = _wide(x)
    g = x.shape[-1] ** 0.5 if weight is None else weight
    return (g * F.normalize(wide, dim=-1, eps=eps)).to(x.dtype)


def scale_in_float64(x, g=None, epsilon=1e-5):
    wide = x.double()
    length = torch.maximum(wide.norm(dim=-1, keepdim=True), torch.tensor(epsilon).double())
    return (wide / length * (math.sqrt(x.shape[-1]) if g is None else g.double())).to(x.dtype)


def l2_by_dot(x, weight=None, eps=1e-12):
    wide = _wide(x)
    # The root of 0 has no gradient; a length does.
    length = torch.linalg.vector_norm(wide, dim=-1)
    y = torch.einsum("...d,...->...d", wide, 1 / length.clamp_min(eps))
    return (y if weight is None else y * weight).to(x.dtype)


def fix_by_length(x, eps=1e-5):
    return F.normalize(_wide(x), dim=-1, eps=eps).to(x.dtype)


class Scale(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.scale, self.eps = nn.Parameter(torch.tensor(dim**0.5)), eps

    def forward(self, x):
        return scale_by_norm(x, self.scale, self.eps)


class Temperature(nn.Module):
    def __init__(self, dim, eps=1e-12, temperature=1.0):
        super().__init__()
        self.temperature, self.eps = nn.Parameter(torch.tensor([temperature])), eps

    def forward(self, x):
        return l2_by_dot(x, self.temperature, self.eps)


class UnitEmbedding(nn.Embedding):
    def forward(self, input):
        return fix_by_length(super().forward(input)) * math.sqrt(self.embedding_dim)


SCALE_RIGHT = {"by normalize": scale_by_norm, "in float64": scale_in_float64, "a class": Scale,
               "made": Scale(10, 1e-3), "from pieces": _scaled()}  # fmt: skip
L2_RIGHT = {"by dot product": l2_by_dot, "a class": Temperature, "made": Temperature(10),
            "from pieces": _scaled(root=False, eps=1e-12)}  # fmt: skip
FIX_RIGHT = {"by normalize": fix_by_length, "an embedding": UnitEmbedding,
             "an embedding, made": UnitEmbedding(50, 8),
             "scaled": lambda x, eps=1e-5: scale_in_float64(x, torch.ones(()), eps)}  # fmt: skip
