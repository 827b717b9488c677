"""Blocks written by hand for labkit.check.block: attention and feed-forward as plain as can be."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig


class RMS(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def turned(x):
    time, half = x.shape[-2], x.shape[-1] // 2
    rate = 10_000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
    angle = torch.arange(time, dtype=x.dtype)[:, None] * rate
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1)


class Attention(nn.Module):
    """One fused matrix; `norms` names the tensors with an RMS norm, by head or by width."""

    def __init__(self, dim, heads, inside="", wide=False, after=False, **change):
        super().__init__()
        self.heads, self.norms, self.wide, self.after = heads, inside, wide, after
        self.change = change
        self.qkv, self.out_proj = (
            nn.Linear(dim, 3 * dim, bias=False),
            nn.Linear(dim, dim, bias=False),
        )
        size = dim if wide or change.get("c_last") else dim // heads
        for name in inside:
            setattr(self, f"{name}_norm", change.get("head_kind", RMS)(size))
        if change.get("head_gain"):
            self.head_gain = nn.Parameter(torch.ones(heads))

    def normed(self, name, x):
        if name not in self.norms:
            return x
        norm = getattr(self, f"{name}_norm")
        if not self.wide:
            return norm(x)
        flat = norm(x.transpose(1, 2).flatten(-2))
        return flat.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, prev=None):
        change = self.change
        batch, time, dim = x.shape
        q, k, v = (
            t.view(batch, time, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        if change.get("skip_norm"):
            q, k, v = change["skip_norm"](self, q, k, v)
        elif self.after:
            q, k, v = self.normed("q", turned(q)), self.normed("k", turned(k)), self.normed("v", v)
        else:
            q, k = turned(self.normed("q", q)), turned(self.normed("k", k))
            v = self.normed("v", v)
        scale = change.get("scale", lambda h: 1 / math.sqrt(h))(q.shape[-1])
        logits = q @ k.transpose(-2, -1) * scale
        if prev is not None and change.get("chain", "sum") == "sum":
            logits = logits + prev
        self.scores = logits
        if cap := change.get("cap"):
            logits = cap(logits)
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        if change.get("causal", True):
            logits = logits.masked_fill(hidden, change.get("blocked", -math.inf))
        weights = logits.softmax(change.get("over", -1))
        if prev is not None and change.get("chain") == "after":
            weights = weights + prev.masked_fill(hidden, 0)
        mixed = self.normed("c", weights @ v) if not change.get("c_last") else weights @ v
        if change.get("head_gain") == "before":
            mixed = mixed * self.head_gain[:, None, None]
        y = self.out_proj(mixed.transpose(1, 2).reshape(batch, time, dim))
        if change.get("head_gain") == "after":
            y = (y.unflatten(-1, (self.heads, -1)) * self.head_gain[:, None]).flatten(-2)
        return self.c_norm(y) if change.get("c_last") else y


class FeedForward(nn.Module):
    def __init__(self, dim, hidden, inner=""):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.inner = inner
        if inner:
            self.ffn_ln = RMS(dim if inner == "last" else hidden)

    def forward(self, x):
        y = self.fc1(x)
        y = F.gelu(self.ffn_ln(y)) if self.inner == "before" else F.gelu(y)
        y = self.ffn_ln(y) if self.inner == "after" else y
        return self.ffn_ln(self.fc2(y)) if self.inner == "last" else self.fc2(y)


def hand(flow, norms=2, kind=RMS, inner="", vectors=(), **attention):
    """Make a class of blocks; `flow(b, x)` moves the stream with b.a, b.f, b.n1, b.n2 …"""

    class Hand(nn.Module):
        def __init__(self, dim, heads, hidden, depth=6, index=3):
            super().__init__()
            self.depth, self.index = depth, index
            self.attn = Attention(dim, heads, **attention)
            self.mlp = FeedForward(dim, hidden, inner)
            for i in range(norms):
                setattr(self, f"norm{i + 1}", kind(dim))
            for name, start in vectors:
                setattr(self, name, nn.Parameter(torch.full((dim,), start)))

        def forward(self, x):
            return flow(Parts(self), x)

    return Hand


class Parts:
    def __init__(self, block):
        self.block, self.a, self.f = block, block.attn, block.mlp
        self.depth, self.index = block.depth, block.index

    def __getattr__(self, name):
        if name[0] == "n" and name[1:].isdigit():
            return getattr(self.block, f"norm{name[1:]}")
        return getattr(self.block, name)


def steps(one, two=None, **options):
    """Make a class from a step for each half: (x, f, norms of the half …, the block)."""
    two = one if two is None else two
    count = options.pop("each", 1)

    def flow(b, x):
        norms = [getattr(b, f"n{i + 1}") for i in range(options.get("norms", 2 * count))]
        y = one(x, b.a, *norms[:count], b)
        return two(y, b.f, *norms[len(norms) - count :], b)

    return hand(flow, **{"norms": 2 * count, **options})


class Sphere(nn.Module):
    """nGPT by hand; `change` names what is done in another way."""

    def __init__(self, dim, heads, hidden, **change):
        super().__init__()
        self.heads, self.change = heads, change
        for name in "qkvo":
            setattr(self, f"w{name}", nn.Linear(dim, dim, bias=False))
        self.gate = nn.Linear(dim, hidden, bias=False)
        self.up, self.down = nn.Linear(dim, hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.attn_alpha = nn.Parameter(torch.full((dim,), dim**-0.5))
        self.mlp_alpha = nn.Parameter(torch.full((dim,), dim**-0.5))
        self.sqk = nn.Parameter(torch.full((dim,), dim**-0.5))
        self.su, self.sv = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))

    def attention(self, x):
        batch, time, dim = x.shape
        q, k, v = (
            w(x).view(batch, time, self.heads, -1).transpose(1, 2)
            for w in (self.wq, self.wk, self.wv)
        )
        s = (self.sqk * (1 if self.change.get("plain") else dim**0.5)).view(self.heads, 1, -1)
        if self.change.get("early"):
            q, k = turned(s * F.normalize(q, dim=-1)), turned(s * F.normalize(k, dim=-1))
        else:
            q = s * F.normalize(turned(q), dim=-1)
            k = F.normalize(turned(k), dim=-1) * (1 if self.change.get("q only") else s)
        power = -0.5 if self.change.get("root") else 0.5
        logits = q @ k.transpose(-2, -1) * q.shape[-1] ** power
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        mixed = logits.masked_fill(hidden, -math.inf).softmax(-1) @ v
        return self.wo(mixed.transpose(1, 2).reshape(x.shape))

    def mlp(self, x):
        root = 1 if self.change.get("no root") else x.shape[-1] ** 0.5
        return self.down(self.su * self.up(x) * F.silu(self.sv * root * self.gate(x)))

    def forward(self, h):
        unit = lambda t: t / t.norm(dim=-1, keepdim=True)  # noqa: E731
        size = (lambda a: a) if self.change.get("sign") else torch.abs
        if (move := self.change.get("move")) is None:
            move = lambda h, y, a: unit(h + a * (unit(y) - h))  # noqa: E731
        for f, alpha in ((self.attention, self.attn_alpha), (self.mlp, self.mlp_alpha)):
            stored = 1 if self.change.get("plain") else 0.05 * h.shape[-1] ** 0.5
            h = move(h, f(h), size(alpha * stored))
        return h


def sphere(**change):
    class Changed(Sphere):
        def __init__(self, dim, heads, hidden):
            super().__init__(dim, heads, hidden, **change)

    return Changed


def config(recipe, **changes):
    """Say the dimensions of blocks made by hand; a decoder, RMS norms, GELU."""
    usual = {"norm": "rms", "dim": 16, "heads": 2, "hidden": 20, "depth": 6, "activation": "gelu"}
    return ModelConfig(**{"recipe": recipe, **usual, **changes})
