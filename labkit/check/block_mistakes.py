"""Known mistakes in a block: a wrong equation, or another recipe's step, each with a description.

A mistake is a wrong equation of a step s, its stream x, its sublayer f and its norms. Mistakes only
explain a failure: a mistake is reported only if it produces the actual results.
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import product
from typing import Any

from torch import Tensor, relu

from labkit.check.block_subject import (
    FunctionSubject,
    ModuleSubject,
    Move,
    Subject,
)
from labkit.context import Context
from labkit.norms.unit import unit
from labkit.placements import (
    RECIPES,
    DeepNorm,
    NoNorm,
    OutputNorm,
    PostNorm,
    PreNorm,
    ResNetV2,
    SandwichNorm,
    SphereStep,
    Step,
    StreamNorm,
)

Equation = Callable[..., Tensor]  # of a step, the stream, the sublayer, and its norms
Change = tuple[str, list[Move]]  # a mistake in words, and the block that has it

KINDS: dict[type[Step], str] = {
    PostNorm: "this is Post-Norm: the norm is on the stream, after the addition",
    PreNorm: "this is Pre-Norm: the norm is before the sublayer",
    OutputNorm: "the norm is on the branch, on the sublayer's output",
    SandwichNorm: "this is the sandwich: norms before the sublayer and on its output",
    StreamNorm: "the skip is taken from the normalized copy N(x) instead of the stream x",
    NoNorm: "the norm is missing: there is none",
}


# --- mistakes of one step ---


def _lose_skip(s: Any, x: Tensor, f: Any, *norms: Any) -> Tensor:
    skip = norms[0](x) if isinstance(s, StreamNorm) else getattr(s, "alpha", 1.0) * x
    return s.step(x, lambda z: f(z) - skip, *norms)


ANY_STEP: dict[str, Equation] = {
    "the residual is missing: the skip is not added": _lose_skip,
    "the norm before the sublayer is missing: it reads the raw stream": (
        lambda s, x, f, *norms: s.step(x, lambda z: f(x), *norms)
    ),
    "the norm is missing": lambda s, x, f, *norms: s.step(x, f, *norms[:-1], lambda z: z),
    "there is a norm too many on the sublayer's output": (
        lambda s, x, f, *norms: s.step(x, lambda z: norms[0](f(z)), *norms)
    ),
    "there is a norm too many on the stream, after the addition": (
        lambda s, x, f, *norms: norms[-1](s.step(x, f, *norms))
    ),
}
ONE_STEP: dict[type[Step], dict[str, Equation]] = {
    StreamNorm: {
        "the skip carries the raw stream x instead of its normalized copy": (
            lambda s, x, f, N: x + f(N(x))
        )
    },
    DeepNorm: {
        "α multiplies the branch f instead of the skip (or its exponent's sign is wrong: the norm "
        "cannot tell)": lambda s, x, f, N: N(x + s.alpha * f(x)),
        "α is missing: it multiplies nothing": lambda s, x, f, N: N(x + f(x)),
        "α multiplies the whole sum": lambda s, x, f, N: N(s.alpha * (x + f(x))),
    },
    SphereStep: {
        "the stream is not renormalized after the step": (
            lambda s, x, f: x + s.share * (unit(f(x)) - x)
        ),
        "the sublayer's output is not normalized before the step": (
            lambda s, x, f: unit(x + s.share * (f(x) - x))
        ),
        "α weighs the old stream, not the step towards the branch": (
            lambda s, x, f: unit(s.share * x + (1 - s.share) * unit(f(x)))
        ),
    },
    ResNetV2: {
        "the ReLU is missing": lambda s, x, f, N: x + f(N(x)),
        "the ReLU is applied before the norm": lambda s, x, f, N: x + f(N(relu(x))),
        "the skip is taken after the ReLU": lambda s, x, f, N: relu(N(x)) + f(relu(N(x))),
    },
}


def _list_constants(n: int) -> list[tuple[float, str]]:
    """List common wrong values of DeepNorm's α, given the number of blocks n."""
    return [
        ((4 * n) ** 0.25, "it is (2N)^(1/4), where N counts blocks, not sublayers"),
        ((2 * n) ** 0.5, "it is the fourth root of 2N, not the square root"),
        ((8 * n) ** 0.25, "it is (2N)^(1/4); 8 belongs to β = (8N)^(−1/4)"),
        (64**0.25, "it is hard-coded for 32 blocks"),
        (2.0 * n, "it is (2N)^(1/4), and the root is missing"),
        (n**0.25, "it is (2N)^(1/4), and the factor 2 is missing"),
        ((3 * n) ** 0.25, "this is the decoder's of an encoder-decoder"),
        (0.81 * n ** (5 / 16), "this is the encoder's of an encoder-decoder"),
    ]


def list_mistakes(step: Step) -> dict[str, Equation]:
    """List the known mistakes in a step, starting with those specific to its kind."""
    own = dict(ONE_STEP.get(type(step), {}))
    if isinstance(step, DeepNorm):
        for number, why in _list_constants(step.place.blocks):
            told = f"α is {number:.4g} instead of {step.alpha:.4g}: {why}"
            own[told] = lambda s, x, f, N, number=number: N(number * x + f(x))
    return own | (ANY_STEP if step.norms else {})


def move_by(equation: Equation, step: Any, norms: list[Any] | None = None) -> Move:
    """Replace a step's equation, keeping its sublayer and its norms (or using others)."""
    used = [getattr(step, name) for name in step.norms] if norms is None else norms

    def move(x: Tensor, context: Context) -> Tensor:
        return equation(step, x, partial(step.sublayer, context=context), *used)

    return move


# --- other blocks ---


def list_changes(subject: Subject) -> Iterator[Change]:
    """Yield possible mistakes, the most likely first: mistakes in steps, then other recipes."""
    steps = subject.steps
    if isinstance(subject, ModuleSubject):
        yield from _turn_rotation(subject)
    mistakes = [list_mistakes(step) for step in steps]
    if len(steps) == 2 and type(steps[0]) is type(steps[1]):
        for (why, one), other in zip(mistakes[0].items(), mistakes[1].values(), strict=True):
            told = f"{why} (both sublayers: the recipe has {steps[0].equation})"
            yield told, [move_by(one, steps[0]), move_by(other, steps[1])]
    for i, step in enumerate(steps):
        for why, equation in mistakes[i].items():
            told = f"{why} ({subject.sides[i]}: the recipe has {step.equation})"
            yield told, [*steps[:i], move_by(equation, step), *steps[i + 1 :]]
    yield from _list_parallel(subject)
    yield from _list_other_steps(subject)
    if isinstance(subject, FunctionSubject):
        yield from _list_other_recipes(subject)


def _turn_rotation(subject: ModuleSubject) -> Iterator[Change]:
    """Yield the block whose q and k are normalized on the other side of the rotation."""
    steps: list[Any] = copy.deepcopy(subject.steps)
    sublayer = steps[0].sublayer
    if (norms := getattr(sublayer, "norms", None)) is not None and norms.tensors.startswith("qk"):
        came, wanted = ("before", "after") if norms.after_rope else ("after", "before")
        sublayer.norms = replace(norms, after_rope=not norms.after_rope)
        yield f"q and k are normalized {came} the rotation instead of {wanted}", steps


def _list_parallel(subject: Subject) -> Iterator[Change]:
    """Yield the block whose sublayers read the same stream, with separate norms or a shared one."""
    steps = subject.steps
    if len(steps) != 2:
        return
    for norms in (None, [getattr(steps[0], name) for name in steps[0].norms]):
        if norms is None or len(norms) == len(steps[1].norms):
            other = move_by(type(steps[1]).step, steps[1], norms)

            def move(x: Tensor, context: Context, other: Move = other) -> Tensor:
                return steps[0](x, context) + other(x, context) - x

            yield "the sublayers are parallel: the feed-forward reads the block's input", [move]


@cache
def _find_other_steps() -> dict[type[Step], str]:
    """Map each kind of step without constants or own weights to a recipe that uses it."""
    kinds = {
        kind: name
        for name, row in reversed(RECIPES.items())
        for placed in filter(None, (row.first, row.block))
        for kind in (placed.feed_forward, placed.attention)
    }
    return {kind: name for kind, name in kinds.items() if not kind.symbols and "step" in vars(kind)}


def _list_other_steps(subject: Subject) -> Iterator[Change]:
    """Yield blocks in which another recipe's step replaces one step."""
    steps = subject.steps
    for i, step in enumerate(steps):
        own = [getattr(step, name) for name in step.norms] if len(steps) == 2 else subject.spare
        for kind, name in _find_other_steps().items():
            if len(kind.norms) <= len(own) and kind.equation != step.equation:
                why = KINDS.get(kind, f"this is the step of the recipe {name!r}")
                told = f"{why} ({subject.sides[i]}: {kind.equation} instead of {step.equation})"
                move = move_by(kind.step, step, own[: len(kind.norms)])
                yield told, [*steps[:i], move, *steps[i + 1 :]]


def _list_other_recipes(subject: FunctionSubject) -> Iterator[Change]:
    """Yield blocks with both steps of other recipes."""
    if len(subject.steps) < 2:
        return
    first, second = subject.steps
    recipes = {
        (placed.attention, placed.feed_forward): name
        for name, row in reversed(RECIPES.items())
        for placed in filter(None, (row.first, row.block))
    }
    for one, two in product(KINDS, KINDS):
        if len(one.norms) + len(two.norms) != len(subject.norms):
            continue
        if one is two:
            why = f"{KINDS[one]}, in both sublayers"
        elif (one, two) in recipes:
            why = f"this is the placement of {recipes[one, two]!r}"
        else:
            why = "the norms are in other places"
        told = f"{why} (attention: {one.equation} instead of {first.equation}; "
        told += f"feed-forward: {two.equation} instead of {second.equation})"
        left, right = subject.norms[: len(one.norms)], subject.norms[len(one.norms) :]
        yield told, [move_by(one.step, first, left), move_by(two.step, second, right)]


# --- settings of a module's parts ---


def list_declared(subject: Subject) -> Iterator[str]:
    """Yield the settings in which the parts of a module differ from the recipe's."""
    if not isinstance(subject, ModuleSubject):
        return
    own = dict(subject.module.named_modules())
    for path, part in subject.reference.named_modules():
        came = own.get(path)
        if isinstance(part, Step) and isinstance(came, Step) and came.equation != part.equation:
            yield f"the step {path} is {came.equation} instead of {part.equation}"
        elif type(came) is not type(part):
            kind = f"{type(came).__name__}, not {type(part).__name__}"
            yield f"{path} is {'missing' if came is None else kind}"
        else:
            yield from _list_settings(path, vars(came), vars(part))


def _list_settings(path: str, came: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    for name, right in wanted.items():
        value = came.get(name)
        if name.startswith("_") or name == "place" or isinstance(right, Tensor):
            continue
        if is_dataclass(right) and is_dataclass(value):
            both = ({f.name: getattr(one, f.name) for f in fields(one)} for one in (value, right))
            yield from _list_settings(f"{path}.{name}", *both)
        elif value != right:
            shown = [getattr(one, "__name__", one) for one in (value, right)]
            yield f"{path}.{name} is {shown[0]}, not {shown[1]}"
