"""RMS norms by rounding order: what is wrong and right for the variant that is asked for."""

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _standard(x, eps, spread=lambda s, e: (s + e).sqrt()):
    return _wide(x) / spread(_wide(x).square().mean(-1, keepdim=True), eps)


def _once(gain=lambda w: w, spread=lambda s, e: (s + e).sqrt(), eps=1e-6):
    """Round once, after the gain."""

    def norm(x, weight=None, eps=eps):
        y = _standard(x, eps, spread)
        return (y if weight is None else y * gain(_wide(weight))).to(x.dtype)

    return norm


def _twice(gain=lambda w: w, spread=lambda s, e: (s + e).sqrt(), eps=1e-6):
    """Round before the gain, and after."""

    def norm(x, weight=None, eps=eps):
        y = _standard(x, eps, spread).to(x.dtype)
        return y if weight is None else gain(weight) * y

    return norm


def _length(x, e):
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True) * x.shape[-1] ** -0.5 + e


def outside_length(x, weight=None, eps=1e-8):
    y = _wide(x) / _length(_wide(x), eps)
    return (y if weight is None else y * weight).to(x.dtype)


def t5_published(x, weight=None, eps=1e-6):
    y = _standard(x, eps)
    if weight is None:
        return y.to(x.dtype)
    return weight * (y.to(weight.dtype) if weight.dtype in (torch.float16, torch.bfloat16) else y)


def t5_by_rsqrt(x, weight=None, eps=1e-6):
    """Round the standard values as the gain is held."""
    y = _wide(x) * torch.rsqrt(_wide(x).pow(2).mean(-1, keepdim=True) + eps)
    kind = x.dtype if weight is None or weight.dtype == x.dtype else y.dtype
    return y.to(kind) if weight is None else y.to(kind) * weight


def half_gain(x, weight=None, eps=1e-6):
    """Add 1 to the gain in half precision, where digits of a small gain are lost."""
    y = _standard(x, eps)
    return (y if weight is None else y * (1 + weight)).to(x.dtype)


class Gemma(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.zeros(dim)), eps

    def forward(self, x):
        return (_standard(x, self.eps) * (1.0 + _wide(self.weight))).type_as(x)


class T5(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return t5_published(x, self.weight, self.eps)


class GemmaFromOne(Gemma):
    def __init__(self, dim, eps=1e-6):
        super().__init__(dim, eps)
        nn.init.ones_(self.weight)


class Llama(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x):
        return self.weight * _standard(x, self.variance_epsilon).to(x.dtype)


def _outer(norm):
    """Round to bfloat16 on the way, whatever x is."""
    return lambda x, weight=None, eps=1e-6: norm(x.bfloat16(), weight, eps).to(x.dtype)


_EPS = {
    "eps outside": (lambda s, e: s.sqrt() + e, "eps is added outside"),
    "eps not used": (lambda s, e: s.sqrt(), "eps is not used"),
    "no root": (lambda s, e: s + e, "root is missing"),
    "eps a floor": (lambda s, e: s.clamp(min=e).sqrt(), "eps is a floor"),
    "fixed eps": (lambda s, e: (s + 1e-6).sqrt(), "eps is 1e-06 here"),
}
_GAIN = {
    "gain ignored": (lambda w: 1.0, "gain is ignored"),
    "|gain|": (torch.abs, ""),
    "gain squared": (torch.square, ""),
    "gain divides": (torch.reciprocal, "gain divides"),
}


def _common(make):
    listed = {name: (make(spread=f), cause) for name, (f, cause) in _EPS.items()}
    listed |= {name: (make(f), cause) for name, (f, cause) in _GAIN.items()}
    return listed | {"default of layer norm": (make(eps=1e-5), "the default eps is 1e-05"),
                     "through bfloat16": (_outer(make()), "")}  # fmt: skip


TORCH_WRONG = {
    **_common(_once), "llama's order": (_twice(), "cast back to x's dtype before"),
    "1 + gain": (_once(lambda w: 1 + w), "1 + gain"), "llama's class": (Llama, "cast back"),
    "layer norm": (lambda x, weight=None, eps=1e-6: F.layer_norm(
        x, x.shape[-1:], weight, None, eps), "the mean is subtracted"),
    "gemma's class": (Gemma, ""),
}  # fmt: skip
TORCH_RIGHT = {"torch": lambda x, weight=None, eps=1e-6: F.rms_norm(x, x.shape[-1:], weight, eps),
               "from pieces": _once(), "torch class": nn.RMSNorm,
               "torch module": nn.RMSNorm(32)}  # fmt: skip
LLAMA_WRONG = {
    **_common(_twice), "torch's order": (_once(), "one rounding, after the gain"),
    "torch": (nn.RMSNorm, "one rounding"), "1 + gain": (_twice(lambda w: 1 + w), "1 + gain"),
    "t5": (t5_published, "not cast back"), "gemma's class": (Gemma, ""),
}  # fmt: skip
LLAMA_RIGHT = {"from pieces": _twice(), "a class": Llama, "made": Llama(64),
               "float64 inside": lambda x, weight=None, eps=1e-6: _twice()(x, weight, eps) if
               x.dtype == torch.float64 else (lambda y: y if weight is None else y * weight)(
                   _standard(x.double(), eps).to(x.dtype))}  # fmt: skip
T5_WRONG = {
    **_common(_twice), "torch's order": (_once(), "one rounding, after the gain"),
    "torch": (nn.RMSNorm, "one rounding"), "llama": (_twice(), "cast back"),
    "layer norm": (nn.LayerNorm, "the mean is subtracted"), "gemma's class": (Gemma, ""),
    "llama's class": (Llama, "cast back before a float32 gain"),
}  # fmt: skip
T5_RIGHT = {"as published": t5_published, "by rsqrt": t5_by_rsqrt, "a class": T5}
GEMMA_WRONG = {
    **_common(lambda gain=lambda w: w, **more: _once(lambda w: 1 + gain(w), **more)),
    "gain itself": (_once(), "here 1 + gain does"), "2 + gain": (_once(lambda w: 2 + w), ""),
    "1 − gain": (_once(lambda w: 1 - w), ""), "llama's order": (_twice(lambda w: 1 + w), ""),
    "gain in half": (half_gain, ""), "starts at 1": (GemmaFromOne, ""),
    "llama's class": (Llama, ""),
}  # fmt: skip
GEMMA_WRONG["gain divides"] = (GEMMA_WRONG["gain divides"][0], "")
del GEMMA_WRONG["gain ignored"], GEMMA_WRONG["gain squared"]
GEMMA_RIGHT = {"from pieces": _once(lambda w: 1 + w), "a class": Gemma, "made": Gemma(48),
               "by addcmul": lambda x, weight=None, eps=1e-6: _standard(x, eps).to(x.dtype) if
               weight is None else torch.addcmul(_standard(x, eps), _standard(x, eps),
                                                 _wide(weight)).to(x.dtype)}  # fmt: skip
OUTSIDE_WRONG = {
    **{name: (_once(f, lambda s, e: s.sqrt() + e, 1e-8), cause)
       for name, (f, cause) in _GAIN.items()},
    "inside": (_once(eps=1e-8), "eps is added inside"), "torch": (nn.RMSNorm, ""),
    "eps not used": (_once(spread=lambda s, e: s.sqrt(), eps=1e-8), "eps is not used"),
    "both": (_once(spread=lambda s, e: (s + e).sqrt() + e, eps=1e-8), "again outside"),
    "a floor": (_once(spread=lambda s, e: s.sqrt().clamp(min=e), eps=1e-8), "eps is a floor"),
    "default 1e-6": (_once(spread=lambda s, e: s.sqrt() + e), "the default eps is 1e-06"),
    "no root": (_once(spread=lambda s, e: s + e, eps=1e-8), "root is missing"),
    "added to the length": (lambda x, weight=None, eps=1e-8: (
        _wide(x) * x.shape[-1] ** 0.5 / (_wide(x).norm(dim=-1, keepdim=True) + eps)
        * (1 if weight is None else weight)).to(x.dtype), ""),
    "llama's order": (_twice(spread=lambda s, e: s.sqrt() + e, eps=1e-8), "cast back"),
    "1 + gain": (_once(lambda w: 1 + w, lambda s, e: s.sqrt() + e, 1e-8), "1 + gain"),
    "through bfloat16": (_outer(outside_length), ""),
    "no gradient at 0": (_once(spread=lambda s, e: s.sqrt() + e, eps=1e-8), "no slope at 0"),
}  # fmt: skip
OUTSIDE_RIGHT = {"by length": outside_length, "from pieces": _once(
    spread=lambda s, e: s.clamp(min=1e-37).sqrt() + e, eps=1e-8),
    "in float64": lambda x, weight=None, eps=1e-8: outside_length(
        x.double(), None if weight is None else weight.double(), eps).to(x.dtype)}  # fmt: skip
IDENTITY_WRONG = {
    "a copy to half and back": (lambda x: x.bfloat16().to(x.dtype), ""),
    "twice": (lambda x: 2 * x, ""), "minus": (lambda x: -x, ""), "zero": (lambda x: 0 * x, ""),
    "normalized": (lambda x: F.rms_norm(x, x.shape[-1:]), ""),
    "a hair more": (lambda x: x * (1 + 1e-6), ""), "cut": (lambda x: x.clamp(-50, 50), ""),
    "detached": (lambda x: x.detach(), ""), "NaN hidden": (lambda x: x.nan_to_num(), ""),
    "dropout": (nn.Dropout(0.1), ""), "layer norm": (nn.LayerNorm(12), ""),
    "contiguous rows": (lambda x: torch.as_strided(x, x.shape, torch.empty(x.shape).stride()), ""),
    "overwritten": (lambda x: x.mul_(2) if not x.requires_grad else x, ""),
    "sorted": (lambda x: x.sort(-1).values, ""), "float32": (lambda x: x.float(), ""),
}  # fmt: skip
IDENTITY_RIGHT = {"torch's": nn.Identity, "itself": lambda x: x, "a clone": torch.clone,
                  "no dropout": nn.Dropout(0.0),
                  "contiguous": lambda x: x.contiguous()}  # fmt: skip
