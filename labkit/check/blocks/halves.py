"""What each recipe does with one sublayer f, as an equation in terms that can be changed singly.

    x′ = outer(gain · skip + extra + weight · write(f(read)))

`HALVES` has the recipes' steps, written from their papers and apart from labkit.placements. A term
is a line of Python over x (the stream), e (the block's input), r (a second stream), f, the norms N
and M, and the recipe's constants; empty means that there is none.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from types import CodeType
from typing import Any

import torch
from torch import Tensor

SIDES = ("attention", "feed-forward")


@dataclass(frozen=True)
class Half:
    """One step of the stream."""

    read: str = "x"  # what the sublayer gets
    write: str = ""  # the norm on what it writes
    weight: str = ""  # a factor of that
    skip: str = "x"  # what is carried past the sublayer
    gain: str = ""  # a factor of that
    extra: str = ""  # what is added besides
    outer: str = ""  # what is applied to the sum
    second: str = ""  # the second stream, where there is one
    odd: str = ""  # the whole right side, where it is not of this form
    alpha: float = field(default=1.0, compare=False)  # α, where it is a number
    number: int = field(default=1, compare=False)  # ℓ, the block from 1

    @property
    def branch(self) -> str:
        """Write what comes from the sublayer."""
        inside = f"f({self.read})"
        inside = f"{self.write}({inside})" if self.write else inside
        return f"{self.weight} * {inside}" if self.weight else inside

    @property
    def text(self) -> str:
        """Write the step as one line of Python, which is also what `move` evaluates."""
        if self.odd:
            return self.odd
        skip = self.skip if not self.gain or not self.skip else f"{self.gain} * {self.skip}"
        total = " + ".join(term for term in (self.extra, skip, self.branch) if term)
        return f"{self.outer}({total})" if self.outer else total

    @property
    def norms(self) -> str:
        """List the norms that take part: N, M, both or none."""
        said = self.text + self.second
        return "".join(letter for letter in "NM" if letter in said)


@dataclass
class Bench:
    """What a half works with: its sublayer, its norms and its constants."""

    f: Callable[[Tensor], Tensor]
    norms: Mapping[str, Callable[[Tensor], Tensor]]
    vectors: Mapping[str, Any] = field(default_factory=dict)  # ω, λ, a, T


def unit(x: Tensor) -> Tensor:
    """Divide by the Euclidean length."""
    return x / x.square().sum(-1, keepdim=True).sqrt()


@cache
def _compiled(text: str) -> CodeType:
    return compile(text, "<equation>", "eval")


def move(
    half: Half, bench: Bench, x: Tensor, e: Tensor, r: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Evaluate a step: the new stream and the new second stream."""
    # Python reads the letter ℓ as l.
    known: list[tuple[Tensor, Tensor]] = []

    def f(read: Tensor) -> Tensor:  # a sublayer that appears twice runs once
        for before, made in known:
            if before is read:
                return made
        known.append((read, bench.f(read)))
        return known[-1][1]

    names = {
        "x": x, "e": e, "r": x if r is None else r, "f": f, "unit": unit, "relu": torch.relu,
        "α": half.alpha, "l": half.number, **bench.norms, **bench.vectors,
    }  # fmt: skip
    stream = eval(_compiled(half.text), {"__builtins__": {}}, names)
    if not half.second:
        return stream, r
    names["new"] = stream
    return stream, eval(_compiled(half.second), {"__builtins__": {}}, names)


NO, POST, PRE = Half(), Half(outer="N"), Half(read="N(x)")
OUTPUT, SANDWICH = Half(write="N"), Half(read="N(x)", write="M")
STREAM = Half(read="N(x)", skip="N(x)")
DEEP, ADMIN = Half(gain="α", outer="N"), Half(gain="ω", outer="N")
KEEL = Half(gain="α", read="N(x)", outer="M")
SCALED = Half(read="N(x) / ℓ**0.5")
LOUD = Half(gain="λ", read="N(x)")
UP = Half(extra="e", outer="N")
DUAL = Half(outer="N", second="r + f(x)")
SPHERE = Half(gain="(1 - a)", weight="a", write="unit", outer="unit")
V1, V2 = Half(write="N", outer="relu"), Half(read="relu(N(x))")
HIGHWAY = Half(gain="(1 - T(x))", weight="T(x)")

_TABLE_4 = ("hybrid", "embed-norm", "qkvc-post", "qkc-post", "qk-post", "kv-post", "kc-post")
HALVES: dict[str, tuple[Half, Half]] = {
    "none": (NO, NO),
    "post": (POST, POST),
    "pre": (PRE, PRE),
    "output": (OUTPUT, OUTPUT),
    "olmo2": (OUTPUT, OUTPUT),
    "qk": (PRE, PRE),
    "sandwich": (SANDWICH, SANDWICH),
    "peri": (SANDWICH, SANDWICH),
    "gemma2": (SANDWICH, SANDWICH),
    "gemma3": (SANDWICH, SANDWICH),
    "deepnorm": (DEEP, DEEP),
    "keel": (KEEL, KEEL),
    "admin": (ADMIN, ADMIN),
    "b2t": (POST, UP),
    "resi-dual": (DUAL, DUAL),
    "realformer": (POST, POST),
    "sub-ln": (PRE, PRE),
    "normformer": (SANDWICH, LOUD),
    "mix-ln": (PRE, PRE),
    "lns": (SCALED, SCALED),
    **{name: (NO, STREAM) for name in _TABLE_4},
    "hybrid*": (NO, STREAM),
    "first-qkv-pre": (NO, STREAM),
    "pre-qkv-post": (PRE, STREAM),
    "pre-qkv-pre": (PRE, PRE),
    "pre-qk-pre": (PRE, PRE),
    "qkv-pre": (NO, PRE),
    "post-pre": (STREAM, PRE),
    "pre-post": (PRE, STREAM),
    "overwritten": (STREAM, STREAM),
    "ngpt": (SPHERE, SPHERE),
    "dyt": (PRE, PRE),
    "derf": (PRE, PRE),
    "resnet-v1": (V1, V1),
    "resnet-v2": (V2, V2),
    "highway": (HIGHWAY, HIGHWAY),
}
# The first blocks: how many, or which share of the depth, and what they do.
FIRST: dict[str, tuple[float, tuple[Half, Half]]] = {
    "keel": (1, (PRE, KEEL)),
    "mix-ln": (0.25, (POST, POST)),
    "hybrid*": (1, (PRE, PRE)),
    "first-qkv-pre": (1, (NO, PRE)),
}
# Which of q, k, v, c have norms of their own.
INSIDE = {
    "qk": "qk", "olmo2": "qk", "gemma3": "qk", "sub-ln": "c", "hybrid": "qkv", "hybrid*": "qkv",
    "first-qkv-pre": "qkv", "embed-norm": "qkv", "qkvc-post": "qkvc", "qkc-post": "qkc",
    "qk-post": "qk", "kv-post": "kv", "kc-post": "kc", "pre-qkv-post": "qkv",
    "pre-qkv-pre": "qkv", "pre-qk-pre": "qk", "qkv-pre": "qkv",
}  # fmt: skip


def is_first(recipe: str, index: int, depth: int) -> bool:
    """Return whether a block, from 0, is one of the first that the recipe treats in another way."""
    count = FIRST.get(recipe, (0, None))[0]
    return index < (count if count >= 1 else math.floor(count * depth))


def halves(recipe: str, index: int, depth: int, encoder: bool = False) -> tuple[Half, Half]:
    """Return both steps of the block with that number, from 0, in a stack of `depth` blocks."""
    pair = FIRST[recipe][1] if is_first(recipe, index, depth) else HALVES[recipe]
    made = []
    for side, half in zip(SIDES, pair, strict=True):
        alpha = 1.0
        if recipe == "deepnorm":
            alpha = (2 * depth) ** 0.25
        elif recipe == "keel" and not (index == 0 and side == "feed-forward"):
            alpha = 2.0 * depth
        made.append(replace(half, alpha=alpha, number=index + 1))
    return made[0], made[1]
