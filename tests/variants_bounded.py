"""BHyT: wrong variants with the cause to be named, and right ones."""

import torch
import torch.nn.functional as F
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _bhyt(rms=lambda x, e: (x.square().mean(-1, True) + e).sqrt(),
          squash=lambda u, s, k: torch.tanh(s * u / k), gain=lambda w: w, wide=_wide, scale=1.0,
          bound=10.0, eps=1e-6):  # fmt: skip
    def norm(x, scale=scale, weight=None, bound=bound, eps=eps):
        h = wide(x)
        y = squash(h / rms(h, eps), scale, bound)
        return (y if weight is None else y * gain(weight)).to(x.dtype)

    return norm


BHYT_WRONG = {
    "no tanh": (_bhyt(squash=lambda u, s, k: s * u / k), "the squash is nothing"),
    "bound ignored": (_bhyt(squash=lambda u, s, k: torch.tanh(s * u)), "kappa is ignored"),
    "bound outside": (_bhyt(squash=lambda u, s, k: torch.tanh(s * u) / k), "outside the tanh"),
    "bound multiplies": (_bhyt(squash=lambda u, s, k: torch.tanh(s * u * k)), "kappa multiplies"),
    "bound restored": (_bhyt(squash=lambda u, s, k: k * torch.tanh(s * u / k)), ""),
    "scale ignored": (_bhyt(squash=lambda u, s, k: torch.tanh(u / k)), "lambda is ignored"),
    "scale outside": (_bhyt(squash=lambda u, s, k: s * torch.tanh(u / k)), "outside the tanh"),
    "scale divides": (_bhyt(squash=lambda u, s, k: torch.tanh(u / (k * s))), "lambda divides"),
    "|scale|": (_bhyt(squash=lambda u, s, k: torch.tanh(abs(s) * u / k)), "sign of lambda"),
    "scale without gradient": (_bhyt(squash=lambda u, s, k: torch.tanh(float(s) * u / k)),
                               "graph is cut"),
    "fixed bound": (_bhyt(squash=lambda u, s, k: torch.tanh(s * u / 10.0)), "bound is 10 here"),
    "default bound 5": (_bhyt(bound=5.0), "the default bound is 5"),
    "default eps": (_bhyt(eps=1e-5), "the default eps is 1e-05"),
    "default scale 2": (_bhyt(scale=2.0), ""),
    "no norm": (_bhyt(rms=lambda x, e: 1.0), ""),
    "eps outside": (_bhyt(lambda x, e: x.square().mean(-1, True).sqrt() + e), "added outside"),
    "eps not used": (_bhyt(lambda x, e: x.square().mean(-1, True).sqrt()), "eps is not used"),
    "no root": (_bhyt(lambda x, e: x.square().mean(-1, True) + e), "root is missing"),
    "length": (_bhyt(lambda x, e: (x.square().sum(-1, True) + e).sqrt()), "sum of squares"),
    "deviation": (_bhyt(lambda x, e: (x.var(-1, keepdim=True, correction=0) + e).sqrt()),
                  "standard deviation divides"),
    "detached": (_bhyt(lambda x, e: (x.square().mean(-1, True) + e).sqrt().detach()), "detached"),
    "half": (_bhyt(wide=lambda x: x), "half precision"),
    "half denominator": (_bhyt(lambda x, e: (
        (_wide(x).square().mean(-1, True) + e).sqrt().bfloat16().to(x.dtype)),), ""),
    "gain ignored": (_bhyt(gain=lambda w: 1), "gain is ignored"),
    "1 + gain": (_bhyt(gain=lambda w: 1 + w), "1 + gain"),
    "erf": (_bhyt(squash=lambda u, s, k: torch.erf(s * u / k)), "the squash is erf"),
    "clip": (_bhyt(squash=lambda u, s, k: (s * u / k).clamp(-1, 1)), "the squash is clip"),
}  # fmt: skip


def bhyt_after_rms_norm(x, scale=1.0, weight=None, bound=10.0, eps=1e-6):
    y = torch.tanh(F.rms_norm(_wide(x), x.shape[-1:], None, eps) * (scale / bound))
    return (y if weight is None else y * weight).to(x.dtype)


def bhyt_in_float64(x, lam=1.0, gamma=None, kappa=10.0, eps=1e-6):
    wide = x.double()
    u = lam * wide / (kappa * torch.sqrt(torch.mean(wide**2, -1, keepdim=True) + eps))
    y = (1 - torch.exp(-2 * u.abs())) / (1 + torch.exp(-2 * u.abs())) * u.sign()
    y = torch.where(u.abs() < 0.3, torch.tanh(u), y)
    return (y if gamma is None else y * gamma).to(x.dtype)


def bhyt_rounds_twice(x, scale=1.0, weight=None, bound=10.0, eps=1e-6):
    """Round the normalized values to the input's dtype, as Llama does."""
    y = F.rms_norm(_wide(x), x.shape[-1:], None, eps).to(x.dtype)
    y = torch.tanh(y * (scale / bound))
    return y if weight is None else y * weight


class BHyT(nn.Module):
    def __init__(self, dim, scale=1.0, bound=10.0, eps=1e-6):
        super().__init__()
        self.lambda_, self.weight = (
            nn.Parameter(torch.tensor([scale])),
            nn.Parameter(torch.ones(dim)),
        )
        self.kappa, self.eps = bound, eps

    def forward(self, x):
        return bhyt_after_rms_norm(x, self.lambda_, self.weight, self.kappa, self.eps)


BHYT_RIGHT = {
    "after rms norm": bhyt_after_rms_norm, "in float64": bhyt_in_float64,
    "rounds twice": bhyt_rounds_twice, "a class": BHyT, "made": BHyT(12, 2.0, 5.0),
    "from pieces": _bhyt(),
}  # fmt: skip
