"""Blocks that users and a red team handed in: axes, modes, gradients, masks, block numbers."""

import torch
import torch.nn.functional as F
from blocks_by_hand import config, hand, steps
from blocks_parts import PRE, LateScores, dual, labkit_block
from torch import nn

from labkit.model import Block

AXIS = "attention runs over the first axis"


class Torch(nn.Module):
    """Pre-Norm around torch's own attention."""

    def __init__(self, dim, heads, hidden, batch_first=True, p=0.0):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=batch_first, dropout=p)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.axis, self.drop = 1 if batch_first else 0, nn.Dropout(p)

    def forward(self, x):
        time = x.shape[self.axis]
        mask = torch.ones(time, time, dtype=torch.bool).triu(1)
        y = self.norm1(x)
        x = x + self.drop(self.attn(y, y, y, attn_mask=mask, need_weights=False)[0])
        return x + self.drop(self.mlp(self.norm2(x)))


class TimeFirst(Torch):
    def __init__(self, dim, heads, hidden):
        super().__init__(dim, heads, hidden, batch_first=False)


class Dropping(Torch):
    def __init__(self, dim, heads, hidden):
        super().__init__(dim, heads, hidden, p=0.1)


class Flat(nn.Module):
    """Post-Norm with everything on one level, no mask, time before batch inside."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.h, self.qkv, self.o = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.w1, self.w2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        return self.timed(x.transpose(0, 1)).transpose(0, 1)

    def timed(self, x):
        time, batch, _ = x.shape
        q, k, v = (
            t.reshape(time, batch * self.h, -1).transpose(0, 1) for t in self.qkv(x).chunk(3, -1)
        )
        y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v
        x = self.n1(x + self.o(y.transpose(0, 1).reshape(x.shape)))
        return self.n2(x + self.w2(F.gelu(self.w1(x))))


class FlatTimeFirst(Flat):
    def forward(self, x):
        return self.timed(x)


def exchanged(b, x):
    over = lambda t: b.a(t.transpose(0, 1)).transpose(0, 1)  # noqa: E731
    return (lambda y: y + b.f(b.n2(y)))(x + over(b.n1(x)))


class Wrapper(nn.Module):
    def __init__(self, make_norm, sublayer):
        super().__init__()
        self.norm, self.sublayer, self.drop = make_norm(), sublayer, nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.sublayer(self.norm(x)))


class Functional(Wrapper):
    def forward(self, x):
        return x + F.dropout(self.sublayer(self.norm(x)), 0.1, self.training)


class TwoModes(Wrapper):
    def forward(self, x):
        if self.training:
            return x + self.sublayer(self.norm(x))
        return self.norm(x + self.sublayer(x))


class OtherModes(Wrapper):
    def forward(self, x):
        if self.training:
            return self.norm(x + self.sublayer(x))
        return x + self.sublayer(self.norm(x))


class ModalBlock(steps(PRE)):
    def forward(self, x):
        return super().forward(x) * (2 if self.training else 1)


class DetachedScores(LateScores):
    def forward(self, x, prev=None):
        y, made = super().forward(x, prev)
        return y, made.detach()


class DetachedPrev(LateScores):
    def forward(self, x, prev=None):
        return super().forward(x, None if prev is None else prev.detach())


def masked(change):
    """Make a Pre-Norm block whose mask is put on in another way."""

    def attend(self, x, prev=None):
        batch, time, _ = x.shape
        q, k, v = (t.view(batch, time, 2, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        weights = change(q @ k.mT / q.shape[-1] ** 0.5, torch.ones(time, time))
        return self.out_proj((weights @ v).transpose(1, 2).reshape(x.shape))

    made = steps(PRE)

    class Masked(made):
        def __init__(self, dim, heads, hidden):
            super().__init__(dim, heads, hidden)
            kind = type(self.attn)
            self.attn.__class__ = type("Attention", (kind,), {"forward": attend})

    return Masked


def late(logits, ones):
    return logits.softmax(-1) * ones.tril()


def zeroed(logits, ones):
    return (logits * ones.tril()).softmax(-1)


def next_too(logits, ones):
    return logits.masked_fill(ones.triu(2).bool(), -torch.inf).softmax(-1)


def not_self(logits, ones):
    return logits.masked_fill(ones.tril(-1) == 0, -torch.inf).softmax(-1)


def not_self_finite(logits, ones):
    return logits.masked_fill(ones.tril(-1) == 0, -1e9).softmax(-1)


def right_mask(logits, ones):
    return (logits + (ones.triu(1) * -1e30).to(logits.dtype)).softmax(-1)


def windowed(logits, ones):
    return logits.masked_fill((ones.tril() * ones.triu(-15)) == 0, -1e9).softmax(-1)


def detached_r(x, r, f, norm):
    y = f(x)
    return norm(x + y), r.detach() + y


def detached_write(x, r, f, norm):
    y = f(x)
    return norm(x + y), r + y.detach()


def long_only(x, f, norm):
    return norm(x + f(x)) if x.shape[1] <= 32 else x + f(norm(x))


def wide_only(x, f, norm):
    return norm(x + f(x)) if x.shape[0] <= 4 else x + f(norm(x))


class NoNumber(nn.Module):
    """A class for a recipe with other first blocks that does not know its block."""

    def __init__(self, dim, heads, hidden):
        super().__init__()
        made = steps(lambda x, f, n, b: n(x + f(x)))(dim, heads, hidden)
        self.attn, self.mlp, self.norm1, self.norm2 = made.attn, made.mlp, made.norm1, made.norm2

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


NUMBER = "must take the block's number"
KEEL = {"index": 0, "part": "attention"}
WRONG_USERS = {
    "users": {
        "pre: torch without batch_first": (TimeFirst, "pre", AXIS, {}),
        "pre: torch, an instance": (TimeFirst(16, 4, 24), "pre", AXIS, {}),
        "pre: torch's layer, time first": (
            nn.TransformerEncoderLayer(16, 4, 24, dropout=0.0, norm_first=True),
            "pre",
            "hand it in with batch_first=True",
            {},
        ),
        "post: flat, time first": (FlatTimeFirst, "post", AXIS, {}),
        "pre: transposed by hand": (hand(exchanged), "pre", AXIS, {}),
        "post: pre in training mode": (TwoModes, "post", "training mode", {}),
        "pre: post in training mode": (OtherModes, "pre", "training mode", {}),
        "pre: block twice in training": (ModalBlock, "pre", "training mode", {}),
        "pre: wrapper is post in evaluation": (TwoModes, "pre", "after the addition", {}),
        "resi-dual: r is detached": (detached_r, "resi-dual", "cut off", {}),
        "resi-dual: write is detached": (detached_write, "resi-dual", "cut off", {}),
        "resi-dual: block detaches r": (
            dual(lambda x, r, f, n: detached_r(x, r, f, n)),
            "resi-dual",
            "cut off",
            {},
        ),
        "realformer: scores are detached": (DetachedScores, "realformer", "cut off", {}),
        "realformer: prev is detached": (DetachedPrev, "realformer", "cut off", {}),
        "b2t: entry is detached": (
            lambda x, f, norm, entry: norm(entry.detach() + x + f(x)),
            "b2t",
            "cut off",
            {},
        ),
        "lns: by the depth": (
            lambda x, f, norm, depth: x + f(norm(x) / depth**0.5),
            "lns",
            "",
            {},
        ),
        "lns: by a number": (lambda x, f, norm: x + f(norm(x) / 6**0.5), "lns", "", {}),
        "mix-ln: post throughout": (NoNumber, "mix-ln", NUMBER, {}),
        "hybrid*: pre throughout": (labkit_block("pre-qkv-pre"), "hybrid*", NUMBER, {}),
        "deepnorm: negative exponent": (
            lambda x, f, norm, depth: norm((2 * depth) ** -0.25 * x + f(x)),
            "deepnorm",
            "exponent's sign",
            {},
        ),
        "post: halved": (lambda x, f, norm: norm(x + 0.5 * f(x)), "post", "branch is halved", {}),
        "pre: triu(2)": (masked(next_too), "pre", "off by one", {}),
        "pre: tril(-1)": (masked(not_self), "pre", "does not see itself", {}),
        "pre: tril(-1), -1e9": (masked(not_self_finite), "pre", "off by one", {}),
        "pre: mask after softmax": (masked(late), "pre", "after the softmax", {}),
        "pre: mask with 0": (masked(zeroed), "pre", "fills with 0", {}),
        "pre: a window of 16": (masked(windowed), "pre", "", {}),
        "post: pre for long sequences": (long_only, "post", "", {}),
        "post: pre for large batches": (wide_only, "post", "", {}),
        "keel: alpha in the first attention": (
            lambda x, f, norm, norm_out, alpha: norm_out(alpha * x + f(norm(x))),
            "keel",
            "",
            KEEL,
        ),
        "pre: other sizes": (steps(PRE)(32, 2, 20), "pre", "sizes", {"config": config("pre")}),
    }
}
RIGHT_USERS = {
    "users": {
        "post: flat": (Flat, "post", {}),
        "pre: torch": (Torch, "pre", {}),
        "pre: torch with dropout": (Dropping, "pre", {}),
        "pre: wrapper with dropout": (Wrapper, "pre", {}),
        "pre: wrapper, functional": (Functional, "pre", {}),
        "pre: another mask": (masked(right_mask), "pre", {}),
        "keel: first attention": (lambda x, f, norm, alpha: x + f(norm(x)), "keel", KEEL),
        "mix-ln: an instance": (Block(config("mix-ln"), 5), "mix-ln", {}),
        "mix-ln: post, named": (NoNumber, "mix-ln", {"index": 0}),
        "lns: named": (lambda x, f, norm: x + f(norm(x) / 3**0.5), "lns", {"index": 2}),
        "pre: config of another": (Block, "pre", {"config": config("post")}),
    }
}
