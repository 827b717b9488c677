"""PRepBN: wrong modules with the cause to be named, and right ones."""

import torch
from torch import nn


class PRep(nn.Module):
    """From layer norm to RepBN; a subclass changes one decision."""

    counts_in_eval, mixes_in_eval, layer_in_eval, adds_eta, runs_rep = (
        False,
        False,
        False,
        True,
        True,
    )

    def __init__(self, dim, steps=300_000, warm=0):
        super().__init__()
        self.layer, self.bn = nn.LayerNorm(dim), nn.BatchNorm1d(dim)
        self.eta = nn.Parameter(torch.ones(1))
        self.steps, self.warm = steps, warm
        self.register_buffer("calls", torch.zeros(()))

    def rep(self, x):
        rows = x.reshape(-1, x.shape[-1])
        y = self.bn(rows).reshape(x.shape)
        return y + self.eta * x if self.adds_eta else y

    def share(self):
        return min(1.0, max(0.0, 1 - (float(self.calls) - self.warm) / self.steps))

    def forward(self, x, mask=None):
        if mask is not None:
            y = torch.zeros_like(x)
            y[mask] = self.forward(x[mask])
            return y
        share = self.share()
        if self.training or self.counts_in_eval:
            warming = float(self.calls) < self.warm
            self.calls += 1
        if not self.training:
            if self.layer_in_eval:
                return self.layer(x)
            return share * self.layer(x) + (1 - share) * self.rep(x) if self.mixes_in_eval else (
                self.rep(x))  # fmt: skip
        if warming or (not self.runs_rep and share == 1):
            return self.layer(x)
        return self.blend(share, self.layer(x), self.rep(x))

    def blend(self, share, layer, rep):
        return share * layer + (1 - share) * rep


def _prep(**changes):
    return type("PRep", (PRep,), changes)


class EtaForEach(PRep):
    def __init__(self, dim, steps=300_000, warm=0):
        super().__init__(dim, steps, warm)
        self.eta = nn.Parameter(torch.ones(dim))


class OneGain(PRep):
    def __init__(self, dim, steps=300_000, warm=0):
        super().__init__(dim, steps, warm)
        self.bn.weight, self.bn.bias = self.layer.weight, self.layer.bias


class BiasedRunning(nn.BatchNorm1d):
    def forward(self, input):
        if self.training:
            with torch.no_grad():
                self.running_mean.lerp_(input.mean(0), 0.1)
                self.running_var.lerp_(input.var(0, correction=0), 0.1)
            return nn.functional.batch_norm(input, None, None, self.weight, self.bias, True)
        return super().forward(input)


class BiasedPRep(PRep):
    def __init__(self, dim, steps=300_000, warm=0):
        super().__init__(dim, steps, warm)
        self.bn = BiasedRunning(dim)


def _detached(self, x):
    return PRep.rep(self, x.detach())


PREP_WRONG = {
    "λ reversed": (_prep(blend=lambda self, s, a, b: (1 - s) * a + s * b), "λ is reversed"),
    "λ constant": (_prep(share=lambda self: 1.0), "λ stays at 1"),
    "λ half": (_prep(share=lambda self: 0.5), "λ stays at ½"),
    "λ squared": (_prep(blend=lambda self, s, a, b: s * s * a + (1 - s * s) * b), "another curve"),
    "λ one call early": (_prep(share=lambda self: max(0.0, 1 - (float(self.calls) + 1 - self.warm)
                                                      / self.steps)), "counted down before"),
    "λ one call late": (_prep(share=lambda self: min(1.0, max(
        0.0, 1 - (float(self.calls) - 1 - self.warm) / self.steps))), "lags by one call"),
    "λ goes on": (_prep(share=lambda self: 1 - (float(self.calls) - self.warm) / self.steps), ""),
    "no eta": (_prep(adds_eta=False), "eta · x is missing"),
    "mixed in evaluation": (_prep(mixes_in_eval=True), "still mixes layer norm"),
    "layer norm in evaluation": (_prep(layer_in_eval=True), "evaluation is layer norm"),
    "counts in evaluation": (_prep(counts_in_eval=True), "counted or updated in evaluation"),
    "RepBN asleep at first": (_prep(runs_rep=False), ""),
    "weighted sum without complement": (_prep(blend=lambda self, s, a, b: s * a + b), ""),
    "eta for each channel": (EtaForEach, "one for each channel"),
    "one gain for both": (OneGain, ""),
    "biased running variance": (BiasedPRep, "biased variance is stored"),
    "RepBN detached": (_prep(rep=_detached), ""),
    "layer norm detached": (_prep(blend=lambda self, s, a, b: s * a.detach() + (1 - s) * b), ""),
    "mask ignored": (_prep(forward=lambda self, x, mask=None: PRep.forward(self, x)),
                     "mask is ignored"),
    "warm ignored": (_prep(share=lambda self: max(0.0, 1 - float(self.calls) / self.steps)), ""),
    "batch norm": (nn.BatchNorm1d(12), ""),
}  # fmt: skip


class LinearNorm(nn.Module):
    """As the authors have it: a counter that falls, channels last, eta called alpha."""

    def __init__(self, dim, warm=0, step=300_000, r0=1.0):
        super().__init__()
        self.register_buffer("warm", torch.tensor(warm))
        self.register_buffer("iter", torch.tensor(step))
        self.register_buffer("total_step", torch.tensor(step))
        self.r0, self.norm1, self.norm2 = r0, nn.LayerNorm(dim), Rep(dim)

    def forward(self, x):
        if not self.training:
            return self.norm2(x)
        if self.warm > 0:
            self.warm.copy_(self.warm - 1)
            return self.norm1(x)
        share = self.r0 * self.iter / self.total_step
        if self.iter > 0:
            self.iter.copy_(self.iter - 1)
        return share * self.norm1(x) + (1 - share) * self.norm2(x)


class Rep(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.alpha, self.bn = nn.Parameter(torch.ones(1)), nn.BatchNorm1d(channels)

    def forward(self, x):
        turned = x.transpose(1, 2)
        return (self.bn(turned) + self.alpha * turned).transpose(1, 2)


PREP_RIGHT = {
    "a class": PRep, "made": PRep(10, 20), "lerp": _prep(
        blend=lambda self, s, a, b: torch.lerp(b, a, s)),
    "as published": LinearNorm, "as published, made": LinearNorm(6, step=50),
}  # fmt: skip
