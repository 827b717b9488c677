"""Name the eleven slots, the positions for norms in a block, and build recipes from them.

    embedding                           the token's vector, before the first block
    attention-in     attention-out      the input and the output of attention
    q  k  v  c                          inside attention; c is its heads' outputs, concatenated
    middle                              the stream, between attention and feed-forward
    feed-forward-in  feed-forward-out   the input and the output of the feed-forward layer
    end                                 the stream, after the feed-forward layer

`at:` and a list of slots is the name of a recipe: at:attention-in,feed-forward-in is Pre-Norm,
at:q,k,v,middle is HybridNorm. Norms inside attention are RMS norms of each head. A final norm
follows the last block, unless the stream ends with a norm or the recipe has no norms.
"""

import ast
from collections.abc import Collection, Iterator
from functools import cache

from torch import Tensor

from labkit.attention import attention_norms
from labkit.placements.plan import Placement, Recipe
from labkit.placements.residual import (
    NoNorm,
    OutputNorm,
    PostNorm,
    PreNorm,
    SandwichNorm,
    StreamNorm,
)
from labkit.placements.step import Map, Step
from labkit.system.unknown import explain_unknown

AT = "at:"
SLOTS = (
    "embedding", "attention-in", "q", "k", "v", "c", "attention-out", "middle", "feed-forward-in",
    "feed-forward-out", "end",
)  # fmt: skip
NORMS = ("N", "M", "L")  # how an equation writes them
# Where a step's norms are, and which slot of the block that is.
_OF = {
    "attention": {"before": ("embedding", "end"), "in": ("attention-in",),
                  "out": ("attention-out",), "after": ("middle",)},
    "feed-forward": {"before": ("middle",), "in": ("feed-forward-in",),
                     "out": ("feed-forward-out",), "after": ("end",)},
}  # fmt: skip


class PrePostNorm(Step):
    """Normalize the branch's input and the sum: x ← M(x + f(N(x)))."""

    norms, equation = ("norm", "norm_out"), "M(x + f(N(x)))"

    def step(self, x: Tensor, f: Map, N: Map, M: Map) -> Tensor:
        """Read a normalized copy of the stream, then normalize the sum."""
        return M(x + f(N(x)))


class OutputPostNorm(Step):
    """Normalize the sublayer's output and the sum: x ← M(x + N(f(x)))."""

    norms, equation = ("norm", "norm_out"), "M(x + N(f(x)))"

    def step(self, x: Tensor, f: Map, N: Map, M: Map) -> Tensor:
        """Add a normalized write, then normalize the sum."""
        return M(x + N(f(x)))


class SandwichPostNorm(Step):
    """Normalize the branch's input, its output and the sum: x ← L(x + M(f(N(x))))."""

    norms, equation = ("norm", "norm_out", "norm_stream"), "L(x + M(f(N(x))))"

    def step(self, x: Tensor, f: Map, N: Map, M: Map, L: Map) -> Tensor:
        """Read a normalized copy, add a normalized output, and normalize the sum."""
        return L(x + M(f(N(x))))


# By the places of the norms: the sublayer's input, its output, after the addition.
_STEPS: dict[tuple[bool, bool, bool], type[Step]] = {
    (False, False, False): NoNorm,
    (True, False, False): PreNorm,
    (False, True, False): OutputNorm,
    (True, True, False): SandwichNorm,
    (False, False, True): PostNorm,
    (True, False, True): PrePostNorm,
    (False, True, True): OutputPostNorm,
    (True, True, True): SandwichPostNorm,
}


def read_slots(recipe: Recipe) -> tuple[str, ...]:
    """Return the slots that a recipe normalizes in all blocks but the first, from its equations."""
    found = {"embedding"} if recipe.embedding_norm else set[str]()
    for half, step in (
        ("attention", recipe.block.attention),
        ("feed-forward", recipe.block.feed_forward),
    ):
        found.update(slot for place in _read_places(step.equation) for slot in _OF[half][place])
    inside = attention_norms(recipe.block.heads and recipe.block.heads.format(norm="rms"))
    found.update(inside.tensors if inside else "")
    return tuple(slot for slot in SLOTS if slot in found)


def _read_places(equation: str) -> Iterator[str]:
    """Yield where an equation has norms relative to its sublayer f: before, in, out or after."""
    whole: ast.AST = ast.parse(equation, mode="eval").body
    if _called(whole) in NORMS:
        yield "after"
        _, whole = ast.iter_child_nodes(whole)  # the argument of the norm
    (branch,) = (node for node in ast.walk(whole) if _called(node) == "f")
    inside = {id(node) for node in ast.walk(branch)}
    norms = [node for node in ast.walk(whole) if _called(node) in NORMS]
    written = [norm for norm in norms if any(node is branch for node in ast.walk(norm))]
    skip = {_called(norm) for norm in norms if id(norm) not in inside and norm not in written}
    if skip:
        yield "before"
    if {_called(norm) for norm in norms if id(norm) in inside} - skip:  # not the skip's own copy
        yield "in"
    if written:
        yield "out"


def _called(node: ast.AST) -> str:
    """Return the name of the function that a node calls, or "" if it calls none."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def is_placement(recipe: Recipe) -> bool:
    """Return whether a recipe consists of norms in slots only: `build_recipe` makes its model."""
    return build_recipe(read_slots(recipe)).content() == recipe.content()


@cache
def parse_slots(name: str) -> Recipe:
    """Make the recipe for a name such as at:q,k,v,middle.

    Raises:
        ValueError: a part of the name is not a slot, or is repeated.
    """
    parts = [part.strip() for part in name.removeprefix(AT).split(",") if part.strip()]
    for part in parts:
        if part not in SLOTS:
            raise ValueError(explain_unknown("slot", part, SLOTS))
        if parts.count(part) > 1:
            raise ValueError(
                f"each slot may be named only once, but {name!r} has {part!r} twice; leave one out"
            )
    return build_recipe(parts)


def build_recipe(slots: Collection[str]) -> Recipe:
    """Make the recipe with norms in these slots.

    A norm on the stream after one sublayer is a norm before the next. Of two equations for the same
    function it takes the one in RECIPES, so that both share a run.
    """
    reads, writes = ({half: f"{half}-{side}" in slots for half in _OF} for side in ("in", "out"))
    middle, end, entry = ("middle" in slots, "end" in slots, "embedding" in slots)
    bare = {half: not (reads[half] or writes[half]) for half in _OF}
    # x ← N(x) + f(N(x)) before both sublayers, or only before attention.
    starts = entry and end and bare["attention"] and (bare["feed-forward"] or not middle)
    closes = end and not starts
    splits = middle and not closes and bare["feed-forward"]
    attention = (
        StreamNorm
        if starts
        else _STEPS[reads["attention"], writes["attention"], middle and not splits]
    )
    feed_forward = (
        StreamNorm if splits else _STEPS[reads["feed-forward"], writes["feed-forward"], closes]
    )
    heads = "".join(letter for letter in "qkvc" if letter in slots)
    return Recipe(
        Placement(attention, feed_forward, f"{heads} rms" if heads else None),
        "own: norms in slots",
        final_norm=bool(slots) and not closes,
        embedding_norm=entry and not starts,
    )
