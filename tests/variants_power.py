"""PowerNorm, as a function and as a module: wrong ones with their cause, and right ones."""

import torch
from torch import nn


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _square(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.square().mean(0)


def _pn(square=_square, spread=lambda v, e: (v + e).sqrt(), gain=lambda w: w, shift=lambda b: b,
        wide=_wide, centre=lambda x: x, eps=1e-5):  # fmt: skip
    def norm(x, weight=None, bias=None, eps=eps, mask=None):
        h = wide(x)
        y = centre(h) / spread(square(h, mask), eps)
        y = y if weight is None else y * gain(weight)
        return (y if bias is None else y + shift(bias)).to(x.dtype)

    return norm


def _all_positions(x, mask):
    if mask is None:
        return _square(x, None)
    return torch.where(mask[..., None], x, 0.0).reshape(-1, x.shape[-1]).square().mean(0)


def _variance(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.var(0, correction=0)


def _unbiased(x, mask):
    rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
    return rows.square().sum(0) / max(1, len(rows) - 1)


POWER_WRONG = {
    "each token": (_pn(lambda x, m: x.square().mean(-1, True)), "over the last axis"),
    "whole tensor": (_pn(lambda x, m: x.square().mean()), "over the whole tensor"),
    "each sample": (_pn(lambda x, m: x.square().mean(tuple(range(1, x.ndim - 1)), True)), ""),
    "first axis only": (_pn(lambda x, m: x.square().mean(0)), "over the first axis"),
    "mask ignored": (_pn(lambda x, m: _square(x, None)), "mask is ignored"),
    "mask inverted": (_pn(lambda x, m: _square(x, m if m is None or bool(m.all()) else ~m)),
                      "mask is inverted"),
    "padding counted": (_pn(_all_positions), "their divisor counts it"),
    "variance": (_pn(_variance), "standard deviation divides"),
    "n − 1": (_pn(_unbiased), "divides by n − 1"),
    "sum": (_pn(lambda x, m: _square(x, m) * (x.numel() / x.shape[-1] if m is None else m.sum())),
            "sum of squares"),
    "centred": (_pn(centre=lambda x: x - x.mean(-1, True)), ""),
    "eps outside": (_pn(spread=lambda v, e: v.sqrt() + e), "eps is added outside"),
    "eps not used": (_pn(spread=lambda v, e: v.sqrt()), "eps is not used"),
    "no root": (_pn(spread=lambda v, e: v + e), "root is missing"),
    "other default": (_pn(eps=1e-6), "the default eps is 1e-06"),
    "gain ignored": (_pn(gain=lambda w: 1), "gain is ignored"),
    "1 + gain": (_pn(gain=lambda w: 1 + w), "1 + gain"),
    "shift ignored": (_pn(shift=lambda b: 0), "shift is ignored"),
    "detached": (_pn(lambda x, m: _square(x.detach(), m)), "detached"),
    "half": (_pn(wide=lambda x: x), "half precision"),
}  # fmt: skip


def pn_where(x, weight=None, bias=None, eps=1e-5, mask=None):
    wide = x.double()
    real = torch.ones(x.shape[:-1]).bool() if mask is None else mask
    total = torch.where(real[..., None], wide, 0.0).square().flatten(0, -2).sum(0)
    y = wide * torch.rsqrt(total / real.sum() + eps)
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


def pn_no_mask(x, weight=None, bias=None, eps=1e-5):
    rows = _wide(x).reshape(-1, x.shape[-1])
    square = torch.einsum("td,td->d", rows, rows) / len(rows)
    y = _wide(x) / (square + eps) ** 0.5
    return (y * (1 if weight is None else weight) + (0 if bias is None else bias)).to(x.dtype)


POWER_RIGHT = {"by where": pn_where, "without a mask": pn_no_mask, "from pieces": _pn()}


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, s, weight, bias, root, batch_root, module):
        z = s / root
        ctx.save_for_backward(z, weight, root, batch_root)
        ctx.module = module
        return z * weight + bias

    @staticmethod
    def backward(ctx, *tops):
        z, weight, root, batch_root = ctx.saved_tensors
        module, axes = ctx.module, tuple(range(z.ndim - 1))
        g = weight * tops[0]
        if module.correct:
            g = g - module.share * module.error.to(g.dtype) * z
            if module.keep:
                module.error.add_((g * z).mean(axes).to(module.error.dtype))
        divisor = root if module.back_by_forward else batch_root
        return (g / divisor, (tops[0] * z).sum(axes), tops[0].sum(axes), *[None] * 3)


class Power(nn.Module):
    """Follow the authors' code; a subclass changes one decision."""

    scaled, correct, keep, share, back_by_forward = True, True, True, 0.1, False
    first, both, reverse, batch_always, batch_in_eval, phi_after = (
        0,
        True,
        False,
        False,
        False,
        False,
    )

    def __init__(self, dim, groups=1, warmup=10_000, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))
        self.register_buffer("running_phi", torch.ones(dim))
        self.register_buffer("error", torch.zeros(dim))
        self.register_buffer("calls", torch.zeros(()))
        self.groups, self.warmup, self.eps = groups, warmup, eps

    def scale(self, x):
        if not self.scaled:
            return x
        parts = x.unflatten(-1, (self.groups, -1))
        return (parts / (parts.square().mean(-1, True) + self.eps).sqrt()).flatten(-2)

    def square(self, s, mask):
        return _square(s, mask)

    def forward(self, x, mask=None):
        s = self.scale(_wide(x))
        phi = self.running_phi.to(s.dtype, copy=True)
        weight, bias = self.weight.to(s.dtype), self.bias.to(s.dtype)
        v = self.square(s, mask).detach()
        if not self.training:
            used = v if self.batch_in_eval else phi
            return (weight * s / (used + self.eps).sqrt() + bias).to(x.dtype)
        self.calls += 1
        t, batch_root = int(self.calls), (v + self.eps).sqrt()
        warm = t <= self.warmup + self.first
        new = self.track(phi, v, t)
        used = v if warm or self.batch_always else new if self.phi_after else phi
        self.running_phi.copy_(new)
        root = (used + self.eps).sqrt()
        return _Step.apply(s, weight, bias, root, batch_root, self).to(x.dtype)

    def track(self, phi, v, t):
        if t < self.warmup and self.both:
            phi = phi * (t - 1) / t + v / t
        old = 0.1 if self.reverse else 0.9
        return old * phi + (1 - old) * v


def _but(**changes):
    return type("Power", (Power,), changes)


class ByAutograd(Power):
    def forward(self, x, mask=None):
        if not self.training:
            return super().forward(x, mask)
        s = self.scale(_wide(x))
        v = self.square(s, mask)
        self.calls += 1
        t, phi = int(self.calls), self.running_phi.clone()
        self.running_phi.copy_(self.track(phi, v.detach(), t))
        used = v if t <= self.warmup else phi
        return (self.weight * s / (used + self.eps).sqrt() + self.bias).to(x.dtype)


POWER_MODULE_WRONG = {
    "not scaled": (_but(scaled=False), "not divided by their groups'"),
    "groups ignored": (_but(scale=lambda self, x: torch.rms_norm(
        x, x.shape[-1:], None, self.eps)), "groups are ignored"),
    "no correction": (_but(correct=False), "leaves out the correction"),
    "error not kept": (_but(keep=False), "leaves out the correction"),
    "correction reversed": (_but(share=0.9), "weighed by 0.9 instead of 0.1"),
    "correction whole": (_but(share=1.0), "not weighed by 1 − 0.9"),
    "backward by φ": (_but(back_by_forward=True), "divides by what the forward pass"),
    "exact backward": (ByAutograd, "exact one"),
    "warm-up too short": (_but(first=-1), "one call too early"),
    "warm-up too long": (_but(first=1), "one call too late"),
    "one update": (_but(both=False), "not averaged during the warm-up"),
    "decay reversed": (_but(reverse=True), "the other way round"),
    "batch always": (_but(batch_always=True), "not the running φ"),
    "batch in evaluation": (_but(batch_in_eval=True), "not φ"),
    "φ after": (_but(phi_after=True), "the one from before"),
    "mask ignored": (_but(square=lambda self, s, mask: _square(s, None)), "mask is ignored"),
    "mask inverted": (_but(square=lambda self, s, m: _square(s, m if m is None else ~m)),
                      "mask is inverted"),
    "φ not updated": (_but(track=lambda self, phi, v, t: phi), "φ is not updated"),
    "variance": (_but(square=lambda self, s, mask: _variance(s, mask)), ""),
    "layer norm": (nn.LayerNorm, ""),
}  # fmt: skip
POWER_MODULE_RIGHT = {
    "a class": Power, "made": Power(8, groups=2, warmup=5),
    "where": _but(square=lambda self, s, mask: (
        _square(s, None) if mask is None
        else torch.where(mask[..., None], s, 0.0).flatten(0, -2).square().sum(0) / mask.sum())),
    "lerp": _but(track=lambda self, phi, v, t: (
        torch.lerp(phi, v, 1 / t) if t < self.warmup else phi).lerp(v, 0.1)),
}  # fmt: skip
