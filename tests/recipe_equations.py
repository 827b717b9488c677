"""Every recipe's equations, written independently: one row in `EQUATIONS` per key of RECIPES.

recipe_reference.py computes a whole model from a row. Nothing in the two files calls labkit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Map = Callable[[Tensor], Tensor]


@dataclass
class Site:
    """The variables of an equation: the sublayer f, its norms N and M, and its position."""

    f: Map
    N: Map
    M: Map
    learned: Callable[[str], Tensor]  # a parameter of the step itself
    kind: str
    block: int  # from 0
    blocks: int  # of its stack
    sublayers: int  # of its stack
    stack: str
    encoder: int  # blocks of both stacks
    decoder: int
    run: dict[str, Any]  # what one pass through the stack carries along


def deepnorm_alpha(s: Site) -> float:
    if s.encoder and s.decoder:
        if s.stack == "encoder":
            return 0.81 * (s.encoder**4 * s.decoder) ** 0.0625
        return (3 * s.decoder) ** 0.25
    return (2 * s.blocks) ** 0.25


def keel(x: Tensor, s: Site) -> Tensor:
    if s.block == 0:
        return s.M(x + s.f(s.N(x))) if s.kind == "feed_forward" else x + s.f(s.N(x))
    return s.M(s.sublayers * x + s.f(s.N(x)))


def resi_dual(x: Tensor, s: Site) -> Tensor:
    write = s.f(x)
    s.run["total"] = s.run["total"] + write
    return s.N(x + write)


def sphere(x: Tensor, s: Site) -> Tensor:
    # stored at 1/sqrt(d), used at 0.05
    share = (s.learned("alpha.weight") * 0.05 * x.shape[-1] ** 0.5).abs()
    moved = x + share * (unit(s.f(x)) - x)
    return unit(moved)


def highway(x: Tensor, s: Site) -> Tensor:
    T = torch.sigmoid(x @ s.learned("weight").T + s.learned("bias"))
    return s.f(x) * T + x * (1 - T)


def plain(x, s):
    return x + s.f(x)


def post(x, s):
    return s.N(x + s.f(x))


def pre(x, s):
    return x + s.f(s.N(x))


def write(x, s):
    return x + s.N(s.f(x))


def both(x, s):
    return x + s.M(s.f(s.N(x)))


def stream(x, s):
    return s.N(x) + s.f(s.N(x))


def scaled(x, s):
    return x + s.f(s.N(x) * (s.block + 1) ** -0.5)


@dataclass(frozen=True)
class Row:
    """One recipe: an equation for attention (and cross-attention), one for the feed-forward."""

    attention: Callable[[Tensor, Site], Tensor]
    feed_forward: Callable[[Tensor, Site], Tensor]
    heads: str = ""  # which of q, k, v, c are RMS-normed, one gain for all heads
    first: "Row | None" = None  # what the first blocks are
    first_blocks: Callable[[int], int] = lambda depth: 1
    final: bool = True
    more: frozenset[str] = field(default_factory=frozenset)
    norm: str | None = None
    cap: float = 0.0  # of attention's logits; 0: none
    output_cap: float = 0.0


def row(attention, feed_forward, heads="", *more, **kw) -> Row:
    return Row(attention, feed_forward, heads, more=frozenset(more), **kw)


EQUATIONS = {
    "none": row(plain, plain, final=False),
    "post": row(post, post, final=False),
    "pre": row(pre, pre),
    "output": row(write, write),
    "olmo2": row(write, write, "qk", "width"),
    "qk": row(pre, pre, "qk"),
    "sandwich": row(both, both),
    "peri": row(both, both, "", "embedding norm"),
    "gemma2": row(both, both, norm="rms-gemma", cap=50.0, output_cap=30.0),
    "gemma3": row(both, both, "qk", norm="rms-gemma"),
    "deepnorm": row(*[lambda x, s: s.N(deepnorm_alpha(s) * x + s.f(x))] * 2, final=False),
    "keel": row(keel, keel, final=False),
    "admin": row(*[lambda x, s: s.N(s.learned("omega") * x + s.f(x))] * 2, final=False),
    "b2t": row(post, lambda x, s: s.N(s.run["entry"] + x + s.f(x)), final=False),
    "resi-dual": row(resi_dual, resi_dual, "", "second stream"),
    "realformer": row(post, post, "", "chain", final=False),
    "sub-ln": row(pre, pre, "c", "width", "inner norm"),
    "normformer": row(
        both, lambda x, s: s.learned("scale") * x + s.f(s.N(x)), "", "inner norm", "head gain"
    ),
    "mix-ln": row(pre, pre, first=row(post, post), first_blocks=lambda depth: depth // 4),
    "lns": row(scaled, scaled),
    "hybrid": row(plain, stream, "qkv"),
    "hybrid*": row(plain, stream, "qkv", first=row(pre, pre, "qkv")),
    "first-qkv-pre": row(plain, stream, "qkv", first=row(plain, pre, "qkv")),
    "embed-norm": row(plain, stream, "qkv", "embedding norm"),
    "qkvc-post": row(plain, stream, "qkvc"),
    "qkc-post": row(plain, stream, "qkc"),
    "qk-post": row(plain, stream, "qk"),
    "kv-post": row(plain, stream, "kv"),
    "kc-post": row(plain, stream, "kc"),
    "pre-qkv-post": row(pre, stream, "qkv"),
    "pre-qkv-pre": row(pre, pre, "qkv"),
    "pre-qk-pre": row(pre, pre, "qk"),
    "qkv-pre": row(plain, pre, "qkv"),
    "post-pre": row(stream, pre),
    "pre-post": row(pre, stream),
    "overwritten": row(stream, stream),
    "ngpt": row(sphere, sphere, "", "sphere", final=False),
    "dyt": row(pre, pre, "", "embedding scale", norm="dyt"),
    "derf": row(pre, pre, "", "embedding scale", norm="derf"),
    "resnet-v1": row(*[lambda x, s: (x + s.N(s.f(x))).clamp(min=0)] * 2, final=False),
    "resnet-v2": row(*[lambda x, s: x + s.f(s.N(x).clamp(min=0))] * 2),
    "highway": row(highway, highway, final=False),
}


def unit(x: Tensor) -> Tensor:
    return x / (x * x).sum(-1, keepdim=True).sqrt()
