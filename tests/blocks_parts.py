"""Parts of blocks for labkit.check.block to hold: steps, norms and first weights, mostly wrong."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from blocks_by_hand import hand, sphere
from torch import nn

from labkit.model import Block


def unit(x):
    return F.normalize(x, dim=-1)


def labkit_block(recipe):
    """Hand in labkit's block of another recipe."""
    return lambda config: Block(replace(config, recipe=recipe))


class Detached(nn.Module):
    def __init__(self, make_norm, sublayer):
        super().__init__()
        self.norm, self.sublayer = make_norm(), sublayer

    def forward(self, x):
        return x.detach() + self.sublayer(self.norm(x))


class InPlace(Detached):
    def forward(self, x):
        x += self.sublayer(self.norm(x))
        return x


class OverTokens(Detached):
    def forward(self, x):
        return x + self.sublayer((x - x.mean(1, keepdim=True)) / (x.std(1, keepdim=True) + 1e-6))


def keel_without_exception(config, block):
    made = Block(config, block)
    made.feed_forward.alpha = 2.0 * config.depth
    return made


class LateScores(nn.Module):
    """RealFormer's block, whose `change` says what is wrong with the scores."""

    def __init__(self, dim, heads, hidden, **change):
        super().__init__()
        made = hand(lambda b, x: x, **change)(dim, heads, hidden)
        self.attn, self.mlp, self.norm1, self.norm2 = made.attn, made.mlp, made.norm1, made.norm2

    def forward(self, x, prev=None):
        x = self.norm1(x + self.attn(x, prev))
        return self.norm2(x + self.mlp(x)), self.attn.scores


def scores(lost=False, base=LateScores, **change):
    class Changed(base):
        def __init__(self, dim, heads, hidden):
            super().__init__(dim, heads, hidden, **change)

        def forward(self, x, prev=None):
            y, made = super().forward(x, prev)
            return (y, made - prev) if lost and prev is not None else (y, made)

    return Changed


def dual(step):
    """Make ResiDual's block from a step (x, r, f, norm)."""

    class Dual(nn.Module):
        def __init__(self, dim, heads, hidden):
            super().__init__()
            made = hand(lambda b, x: x)(dim, heads, hidden)
            self.attn, self.mlp, self.norm1, self.norm2 = (
                made.attn,
                made.mlp,
                made.norm1,
                made.norm2,
            )

        def forward(self, x, r):
            x, r = step(x, r, self.attn, self.norm1)
            return step(x, r, self.mlp, self.norm2)

    return Dual


def normformer(flow=None, inner="after", **options):
    usual = {"norms": 3, "inner": inner, "vectors": (("lam", 1.0),), "head_gain": "before"}
    usual |= options
    return hand(flow or normformer_flow, **usual)


def normformer_flow(b, x):
    y = x + b.n2(b.a(b.n1(x)))
    return b.lam * y + b.f(b.n3(y))


def sub_ln_flow(b, x):
    y = x + b.a(b.n1(x))
    return y + b.f(b.n2(y))


def hybrid_flow(b, x):
    z = b.n1(x + b.a(x))
    return z + b.f(z)


ONE = {"norms": 1, "inside": "qkv"}


class WrongDyT(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor([0.5]))
        self.weight, self.bias = nn.Parameter(torch.ones(dim)), nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return self.weight * self.inside(x) + self.bias

    def inside(self, x):
        return torch.tanh(self.alpha * x)


class Outside(WrongDyT):
    def inside(self, x):
        return self.alpha * torch.tanh(x)


class Normed(WrongDyT):
    def inside(self, x):
        return torch.tanh(self.alpha * F.layer_norm(x, x.shape[-1:]))


class Sigmoid(WrongDyT):
    def inside(self, x):
        return torch.sigmoid(self.alpha * x)


class Erf(WrongDyT):
    def inside(self, x):
        return torch.erf(self.alpha * x)


PRE = lambda x, f, n, b: x + f(n(x))  # noqa: E731


class OwnWeights(nn.Module):
    """DeepNorm that draws its own weights, by a rule that is wrong."""

    def __init__(self, config):
        super().__init__()
        made = Block(config)
        self.attention, self.feed_forward = made.attention, made.feed_forward
        self.draw(config.depth)

    def draw(self, depth):
        for name, p in self.named_parameters():
            if p.ndim == 2:
                nn.init.xavier_normal_(p, gain=self.gain(name.split(".")[-2], depth))

    def gain(self, name, depth):
        return 1.0 if name in ("q", "k") else (8 * depth) ** 0.25

    def forward(self, x, context):
        return self.feed_forward(self.attention(x, context), context)


class EverywhereBeta(OwnWeights):
    def gain(self, name, depth):
        return (8 * depth) ** -0.25


class BetaWithoutValue(OwnWeights):
    def gain(self, name, depth):
        return 1.0 if name in "qkv" else (8 * depth) ** -0.25


class MagnetoEverywhere(OwnWeights):
    def gain(self, name, depth):
        return torch.tensor(2.0 * depth).log().sqrt().item()


class WrongHook(sphere()):
    def normalize(self):
        for w in self.parameters():
            if w.ndim == 2:
                w.data.copy_(unit(w.data))


class LazyHook(sphere()):
    def after_step(self):
        for name, w in self.named_parameters():
            if w.ndim == 2 and not name.startswith(("wo", "down")):
                w.data.copy_(unit(w.data))


class HalfGain(nn.LayerNorm):
    def reset_parameters(self):
        nn.init.constant_(self.weight, 0.5)
        nn.init.zeros_(self.bias)
