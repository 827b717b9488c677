"""DyT, Derf, BHyT and no norm: wrong variants with the expected cause, and right ones."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from variants_common import (
    DEFAULTS,
    GAINS,
    ROOTS,
    SHIFTS,
    WIDTHS,
    affine,
    double,
    inside,
    vary,
    wide,
)


def squash(f, affine=affine, alpha=0.5, shift=0.0):
    """y = gain · f(x, alpha, shift) + bias; DyT has no inner shift and never receives one."""

    def norm(x, alpha=alpha, inner_shift=shift, weight=None, bias=None):
        return affine(f(wide(x), alpha, inner_shift), weight, bias).to(x.dtype)

    return norm


class DyT(nn.Module):
    """As in the authors' code, in the input's precision; alpha may have as many values as x."""

    def __init__(self, normalized_shape, alpha_init_value=0.5, each=False):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(normalized_shape if each else 1) * alpha_init_value)
        self.weight = nn.Parameter(torch.ones(normalized_shape))
        self.bias = nn.Parameter(torch.zeros(normalized_shape))

    def forward(self, x):
        return torch.tanh(self.alpha * x) * self.weight + self.bias


class AlphaForEach(DyT):
    def __init__(self, dim):
        super().__init__(dim, each=True)


class Slope(nn.Module):
    """DyT with another name for alpha."""

    def __init__(self, dim, used=True):
        super().__init__()
        self.slope, self.used = nn.Parameter(torch.full((1,), 0.5)), used
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return dyt()(x, self.slope if self.used else 0.5, 0.0, self.weight, self.bias)


def slopes(f, name):
    """List possible mistakes with alpha, for DyT and Derf."""
    return {
        "alpha outside": (squash(lambda x, a, s: a * f(x + s)), f"outside the {name}"),
        "alpha twice": (squash(lambda x, a, s: a * f(a * x + s)), "again outside"),
        "alpha ignored": (squash(lambda x, a, s: f(x + s)), "alpha is ignored"),
        "alpha divides": (squash(lambda x, a, s: f(x / a + s)), "alpha divides"),
        "alpha squared": (squash(lambda x, a, s: f(a * a * x + s)), "alpha is squared"),
        "|alpha|": (squash(lambda x, a, s: f(abs(a) * x + s)), "sign of alpha"),
        "alpha without gradient": (squash(lambda x, a, s: f(float(a) * x + s)), "graph is cut"),
        "default alpha 1": (squash(lambda x, a, s: f(a * x + s), alpha=1.0), "by default"),
        "detached": (squash(lambda x, a, s: f(a * x + s).detach()), ""),
    }


dyt = partial(squash, lambda x, a, s: torch.tanh(a * x))
DYT_WRONG = {
    **vary(dyt, affine=GAINS | SHIFTS), **slopes(torch.tanh, "tanh"),
    "erf": (squash(lambda x, a, s: torch.erf(a * x)), "the squash is erf"),
    "sigmoid": (squash(lambda x, a, s: torch.sigmoid(a * x)), "the squash is sigmoid"),
    "hard tanh": (squash(lambda x, a, s: F.hardtanh(a * x)), "the squash is clip"),
    "softsign": (squash(lambda x, a, s: F.softsign(a * x)), "the squash is softsign"),
    "by sigmoid in float32": (squash(lambda x, a, s: 2 * torch.sigmoid(2 * a * x) - 1),
                              "cancels near 0"),
    "alpha unnamed and ignored": (Slope(9, used=False), "alpha is 0.5 whatever is given"),
    "alpha for each feature": (AlphaForEach, "one number for all features"),
}  # fmt: skip


def by_sigmoid(x, alpha=0.5, gamma=None, beta=None):
    return affine(2 * torch.sigmoid(2 * alpha * x.double()) - 1, gamma, beta).to(x.dtype)


DYT_RIGHT = {
    "by sigmoid": by_sigmoid,
    "the authors' class": DyT, "the authors' module": DyT(10, 0.8), "from pieces": dyt(),
    "alpha unnamed": Slope, "alpha unnamed, made": Slope(9),
    "in the input's precision": lambda x, alpha=0.5: torch.tanh(alpha * x),
}  # fmt: skip

derf = partial(squash, lambda x, a, s: torch.erf(a * x + s))
DERF_WRONG = {
    **vary(derf, affine=GAINS | SHIFTS), **slopes(torch.erf, "erf"),
    "shift before alpha": (squash(lambda x, a, s: torch.erf(a * (x + s))), "before alpha"),
    "inner shift ignored": (squash(lambda x, a, s: torch.erf(a * x)), "inner shift is ignored"),
    "inner shift outside": (squash(lambda x, a, s: torch.erf(a * x) + s), "outside the erf"),
    "inner shift subtracted": (squash(lambda x, a, s: torch.erf(a * x - s)),
                               "inner shift is subtracted"),
    "inner shift without gradient": (squash(lambda x, a, s: torch.erf(a * x + float(s))),
                                     "graph is cut"),
    "tanh": (squash(lambda x, a, s: torch.tanh(a * x + s)), "the squash is tanh"),
    "normal's integral": (squash(lambda x, a, s: torch.erf((a * x + s) / 2**0.5)),
                          "the squash is erf of u/√2"),
    "erfc": (squash(lambda x, a, s: torch.erfc(a * x + s)), "the squash is one minus erf"),
    "by erfc in float32": (squash(lambda x, a, s: 1 - torch.erfc(a * x + s)), "cancels near 0"),
}  # fmt: skip


def by_erfc(x, a, s):
    u = a * x.double() + s
    y = torch.where(u > 0, 1 - torch.erfc(u), torch.erfc(-u) - 1)
    # 1 − erfc loses the digits of small numbers.
    return torch.where(u.abs() < 0.5, torch.erf(u), y)


class Derf(nn.Module):
    def __init__(self, dim, alpha=0.5, shift=0.0):
        super().__init__()
        self.alpha, self.shift = (nn.Parameter(torch.tensor(start)) for start in (alpha, shift))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.weight * torch.erf(self.alpha * x + self.shift) + self.bias


DERF_RIGHT = {"by erfc": squash(by_erfc), "a class": Derf, "made": Derf(10, 0.3, 0.1),
              "from pieces": derf()}  # fmt: skip


# --- BHyT: y = gain · tanh(scale · u / bound), u = x/rms ---


def square(x):
    return x.square().mean(-1, keepdim=True)


def bounded(f=torch.tanh, moment=square, root=inside, inner=lambda u, s, k: s * u / k,
            outer=lambda y, s, k: y, affine=affine, widen=wide, scale=1.0, bound=10.0, eps=1e-6,
            ):  # fmt: skip
    def norm(x, scale=scale, weight=None, bound=bound, eps=eps):
        h = widen(x)
        y = f(inner(h / root(moment(h), eps), scale, bound))
        return affine(outer(y, scale, bound), weight, None).to(x.dtype)

    return norm


class S(nn.Module):
    """BHyT with another name for its scale."""

    def __init__(self, dim, start=1.0, used=True):
        super().__init__()
        self.s, self.used = nn.Parameter(torch.tensor(start)), used
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return bounded()(x, self.s if self.used else 1.0, self.weight)


BHYT_WRONG = {
    **vary(bounded, affine=GAINS, root=ROOTS, eps=DEFAULTS),
    **vary(
        bounded,
        widen={"half statistics": WIDTHS["half statistics"]},
        f={
            "no tanh": (lambda u: u, "the squash is nothing"),
        },
        inner={
            "bound ignored": (lambda u, s, k: s * u, "kappa is ignored"),
            "bound multiplies": (lambda u, s, k: s * u * k, "kappa multiplies"),
            "fixed bound": (lambda u, s, k: s * u / 10.0, "bound is 10 here"),
            "scale ignored": (lambda u, s, k: u / k, "lambda is ignored"),
            "scale divides": (lambda u, s, k: u / (k * s), "lambda divides"),
            "|scale|": (lambda u, s, k: abs(s) * u / k, "sign of lambda"),
            "scale without gradient": (lambda u, s, k: float(s) * u / k, "graph is cut"),
        },

        bound={"default bound 5": (5.0, "the default bound is 5")},
        scale={"default scale 2": (2.0, "by default")},
    ),
    "bound outside": (bounded(inner=lambda u, s, k: s * u, outer=lambda y, s, k: y / k),
                      "outside the tanh"),
    "scale outside": (bounded(inner=lambda u, s, k: u / k, outer=lambda y, s, k: s * y),
                      "outside the tanh"),
}  # fmt: skip


def rounds_twice(x, scale=1.0, weight=None, bound=10.0, eps=1e-6):
    """Round the normalized values to the input's dtype, as Llama does."""
    y = F.rms_norm(wide(x), x.shape[-1:], None, eps).to(x.dtype)
    return affine(torch.tanh(y * (scale / bound)), weight, None)


class BHyT(nn.Module):
    def __init__(self, dim, scale=1.0, bound=10.0, eps=1e-6):
        super().__init__()
        self.lambda_ = nn.Parameter(torch.tensor([scale]))
        self.weight, self.kappa, self.eps = nn.Parameter(torch.ones(dim)), bound, eps

    def forward(self, x):
        return bounded()(x, self.lambda_, self.weight, self.kappa, self.eps)


BHYT_RIGHT = {"in float64": bounded(widen=double), "rounds twice": rounds_twice, "a class": BHyT,
              "scale unnamed": S, "scale unnamed, made": S(12, 3.0),
              "made": BHyT(12, 2.0, 5.0), "from pieces": bounded()}  # fmt: skip


# --- nothing is done ---

IDENTITY_WRONG = {
    "twice": (lambda x: 2 * x, ""),
    "a hair more": (lambda x: x * (1 + 1e-6), ""), "cut": (lambda x: x.clamp(-50, 50), ""),
    "detached": (lambda x: x.detach(), ""),
    "dropout": (nn.Dropout(0.1), ""),
    "contiguous rows": (lambda x: torch.as_strided(x, x.shape, torch.empty(x.shape).stride()), ""),
    "overwritten": (lambda x: x.mul_(2) if not x.requires_grad else x, ""),
    "float32": (lambda x: x.float(), ""),
}  # fmt: skip
IDENTITY_RIGHT = {"torch's": nn.Identity, "itself": lambda x: x, "a clone": torch.clone,
                  "no dropout": nn.Dropout(0.0),
                  "contiguous": lambda x: x.contiguous()}  # fmt: skip
