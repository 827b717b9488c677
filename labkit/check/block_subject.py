"""What check.block runs: somebody's block or step, and labkit's own beside it on the same weights.

A subject holds the reference as labkit's two steps (attention, feed-forward). `truth` runs them;
with a `Change` it runs them with one thing in another way, which is what a mistake is.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from labkit.attention import rotary_angles
from labkit.check.case import Broken, Case
from labkit.context import Context
from labkit.model.config import ModelConfig
from labkit.model.feed_forward import FeedForward
from labkit.norms.unit import unit
from labkit.placements import Step, recipe

SIDES = ("attention", "feed-forward")
ALLOWED = 1e-4  # relative to the largest entry


def context_of(case: Case, angles: Tensor | None = None) -> Context:
    """Make the context of one pass, with what the case carries along."""
    given = case.given
    scores = {"attention": given["prev"]} if "prev" in given else {}
    entry = given.get("entry", case.x)
    return Context(angles, given.get("padding"), scores=scores, total=given.get("r"), entry=entry)


@dataclass(frozen=True)
class Out:
    """What comes: the stream and, where a recipe has them, second stream and scores."""

    stream: Tensor
    second: Tensor | None = None
    scores: Tensor | None = None

    def parts(self) -> tuple[tuple[str, Tensor | None], ...]:
        """List what there is, with its name."""
        return ("", self.stream), ("second stream", self.second), ("scores", self.scores)


def close(actual: Tensor, expected: Tensor, allowed: float = ALLOWED) -> bool:
    """Allow a share of the largest entry that was expected."""
    if actual.shape != expected.shape:
        return False
    largest = expected.abs().max().item() if expected.numel() else 0.0
    gap = (actual.detach().double() - expected.detach().double()).abs().max().item()
    return gap <= allowed * largest + 1e-12


def same(actual: Out, expected: Out, allowed: float) -> bool:
    """Return whether two outcomes agree in all that came."""
    pairs = zip(actual.parts(), expected.parts(), strict=True)
    return all(a is None or b is None or close(a, b, allowed) for (_, a), (_, b) in pairs)


# --- the reference with one thing changed ---


class Call(nn.Module):
    """A function where labkit wants a module."""

    def __init__(self, fn: Callable[[Tensor, Context], Tensor]):
        super().__init__()
        self.fn = fn

    def forward(self, x: Tensor, context: Any = None, **more: Any) -> Tensor:
        """Call the function."""
        return self.fn(x, context)


def altered(module: Any, **changes: Any) -> Any:
    """Return a shallow copy of a module, with the same parameters and other attributes."""
    twin = copy.copy(module)
    twin._modules, twin._parameters = dict(module._modules), dict(module._parameters)
    for name, value in changes.items():
        twin._modules.pop(name, None)
        twin._parameters.pop(name, None)
        setattr(twin, name, value)
    return twin


class Feed(FeedForward):
    """labkit's feed-forward with a free activation; `where` says where its inner norm stands."""

    act: Callable[[Tensor], Tensor]
    where = "after"  # before or after the activation, or at the end

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Compute down(act(gate x) · up x), or down(act(up x)), with the norm where it stands."""

        def normed(y: Tensor, where: str) -> Tensor:
            return self.inner_norm(y) if self.inner_norm and self.where == where else y

        bent = self.act(normed((self.gate or self.up)(x), "before"))
        hidden = bent if self.gate is None else bent * self.up(x)
        return normed(self.down(normed(hidden, "after")), "end")


def hand_out(norms: Sequence[nn.Module], counts: Sequence[int]) -> list[tuple[Call, Call]]:
    """Give each half its two places for norms: in their order, if there are as many as places.

    Else a place takes the next free norm when it is first used, and the last serves all that are
    left: a block that lacks a norm, or has one too many, still has its others in order.
    """
    free = [*norms] or [nn.Identity()]

    def place(norm: nn.Module | None) -> Call:
        mine = [] if norm is None else [norm]

        def use(x: Tensor, context: Context) -> Tensor:
            if not mine:
                mine.append(free[0] if len(free) == 1 else free.pop(0))
            return mine[0](x)

        return Call(use)

    fits = sum(counts) == len(norms)
    own = [[free[0] if len(free) == 1 else free.pop(0) for _ in range(n)] if fits else []
           for n in counts]  # fmt: skip
    padded = [[*mine, None, None] for mine in own]
    return [(place(mine[0]), place(mine[1])) for mine in padded]


@dataclass
class Site:
    """Where a slip is made: one step, what it gets, and what it would work with."""

    step: Any
    x: Tensor
    context: Context
    N: Any
    M: Any

    @property
    def e(self) -> Tensor:
        """Return the block's input."""
        return self.x if self.context.entry is None else self.context.entry

    def f(self, x: Tensor) -> Tensor:
        """Apply the sublayer."""
        return self.step.sublayer(x, context=self.context)

    def move(self, f: Any = None, N: Any = None, M: Any = None, **constants: Any) -> Tensor:
        """Run the recipe's step with another sublayer, other norms or other constants."""
        twin = altered(self.step, sublayer=Call(lambda x, _: (f or self.f)(x)), **constants)
        for name, norm in (("norm", N or self.N), ("norm_out", M or self.M)):
            twin._modules[name] = Call(lambda x, _, norm=norm: norm(x))
        return twin(self.x, self.context)


Slip = Callable[[Site], Tensor]


@dataclass
class Change:
    """One thing that a block has in another way, in words; what is None is as the recipe has it."""

    sentence: str
    kinds: Sequence[type[Step] | None] = (None, None)
    slips: Sequence[Slip | None] = (None, None)
    sublayers: Sequence[Any] = (None, None)
    norms: Sequence[nn.Module] | None = None
    merged: bool = False  # one norm serves both halves


RIGHT = Change("")


class BlockSubject:
    """What was handed in, and labkit's steps on the same weights."""

    sides: tuple[str, ...] = SIDES
    steps: list[Any]  # the recipe's, of the halves in `sides`, with their sublayers
    norms: Sequence[nn.Module]
    leaves: dict[str, Tensor]  # what the reference is differentiated by
    angles = False  # whether positions are turned
    causal = False

    def __init__(self, name: str, config: ModelConfig, index: int, seed: int):
        self.config, self.index, self.row = config, index, recipe(name)
        self.placement = self.row.placement(index, config.depth)
        self.notes: list[str] = []
        self.generator = torch.Generator().manual_seed(seed)

    # Each kind of subject says how it is run, what is left open, and how a half is silenced.
    run: Callable[..., Out]  # (case, x itself where it is given)
    choices: Callable[[], Iterator[None]]  # sets what is left open, the likeliest first
    silenced: Callable[[Sequence[str]], Any]  # a context in which sublayers write 0
    training: Any = None  # makes a context in which training mode is on; None: there is none
    in_dtype: Callable[[torch.dtype], "BlockSubject"]

    def gradients(self, came: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sort the gradients that came by the names of `leaves`."""
        return came

    def inner(self) -> dict[str, Tensor]:
        """Return what was handed in's own parameters."""
        return self.leaves

    def normal(self, *shape: int) -> Tensor:
        """Draw normal numbers in float64."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def case(self, about: str, *, batch: int = 2, time: int = 5, scale: float = 1.0) -> Case:
        """Draw tokens that differ in size and in mean; on the sphere, unit vectors.

        Besides, what a recipe carries along: ResiDual's second stream r, RealFormer's scores of the
        block before (prev), and the block's input where the feed-forward's step alone is run.
        """
        d = self.config.dim
        x = self.normal(batch, time, d) * (0.6 + self.normal(batch, time, 1).abs()) + 0.3
        x = unit(x) if self.row.sphere else x * scale
        r = self.normal(batch, time, d) if self.row.second_stream else None
        chain = getattr(self.steps[0].sublayer, "chain", None)
        prev = self.normal(batch, self.config.heads, time, time) if chain else None
        entry = self.normal(*x.shape) if self.sides == SIDES[1:] else None
        return Case(x, about).but(r=r, prev=prev, entry=entry)

    def truth(self, case: Case, change: Change = RIGHT) -> Out:
        """Evaluate labkit's steps, with one thing changed where a change is given."""
        kinds = [k or type(s) for k, s in zip(change.kinds, self.steps, strict=False)]
        norms = self.norms if change.norms is None else change.norms
        places = hand_out(norms, [len(kind.norms) for kind in kinds])
        places = [places[0]] * len(places) if change.merged else places
        width = getattr(self.steps[0].sublayer, "head_dim", 2)
        context = context_of(case, rotary_angles(case.x.shape[1], width) if self.angles else None)
        x, entry = case.x, context.entry
        for i, step in enumerate(self.steps):
            sublayer = change.sublayers[i] or step.sublayer
            same_kind = kinds[i] is type(step)
            placed = altered(step) if same_kind else kinds[i](nn.Identity, sublayer, step.place)
            (N, M), slip = places[i], change.slips[i]
            placed._modules |= {"sublayer": sublayer, "norm": N, "norm_out": M}
            context.entry = entry
            x = placed(x, context) if slip is None else slip(Site(placed, x, context, N, M))
        scores = context.scores.get("attention") if self.row.chain else None
        return Out(x, context.total if self.row.second_stream else None, self.seen(scores))

    def seen(self, scores: Tensor | None) -> Tensor | None:
        """Leave out the logits that the mask hides: they may be anything."""
        return scores.tril() if scores is not None and self.causal else scores

    def outcome(self, result: Any, case: Case, context: Context) -> Out:
        """Take the stream out of what came, and what else the recipe hands on."""
        first, *rest = result if isinstance(result, tuple | list) and result else (result,)
        stream = getattr(first, "last_hidden_state", first)
        if not isinstance(stream, Tensor):
            came = stream if stream is None or stream is ... else f"a {type(stream).__name__}"
            raise Broken(
                f"on {case} your code returned {came}, not the new stream: not answered yet?"
            )
        if stream.shape != case.x.shape:
            shape = tuple(stream.shape)
            raise Broken(f"on {case} the new stream has shape {shape}; a block keeps the shape")
        more = [t for t in rest if isinstance(t, Tensor)]
        second = scores = None
        if self.row.second_stream:
            moved = None if context.total is case.given.get("r") else context.total
            second = next((t for t in more if t.shape == stream.shape), moved)
        if self.row.chain:
            made = context.scores.get("attention")
            scores = next(
                (t for t in more if t.ndim == 4), None if made is case.given.get("prev") else made
            )
        return Out(stream, second, self.seen(scores))


def without_dropout(module: nn.Module) -> None:
    """Set every dropout of a copy to 0."""
    for one in module.modules():
        if isinstance(one, nn.modules.dropout._DropoutNd):
            one.p = 0.0
        for name, value in list(vars(one).items()):
            if "drop" in name and isinstance(value, float):
                setattr(one, name, 0.0)


@contextmanager
def set_meanwhile(holder: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value meanwhile."""
    kept = getattr(holder, name)
    setattr(holder, name, value)
    try:
        yield
    finally:
        setattr(holder, name, kept)
