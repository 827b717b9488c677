"""What check.block holds against each other: somebody's block or step, and labkit's own beside it.

A subject has the recipe's steps (attention, feed-forward) in float64, on the same weights as what
was handed in. `truth` runs them; with a `Change` it runs them with one thing in another way, which
is what a mistake is. FunctionSubject is for steps and blocks of functions, ModuleSubject for
modules that have the parameters of labkit.model.Block.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.attention import rotary_angles
from labkit.check.case import Broken, Case, told
from labkit.context import Context
from labkit.model.block import Block
from labkit.model.config import ModelConfig
from labkit.norms.unit import unit
from labkit.placements import Place, recipe
from labkit.placements.sphere import SphereStep, normalize_weights

SIDES = ("attention", "feed-forward")
TAKES = (
    "check.block takes a step (x, f, norm), a block of functions (x, attention, feed_forward, "
    "norm), or a module under the parameter names of labkit.model.Block with its config"
)
# What a step may ask for by name, after the stream and the sublayer.
OFFERED = (
    "norm",
    "norm_out",
    "gate",
    "alpha",
    "omega",
    "lam",
    "entry",
    "r",
    "depth",
    "sublayers",
    "index",
    "number",
)
ALLOWED = 1e-4  # relative to the largest entry
DIM, HEADS = 8, 2  # of the stream that functions get: sizes do not matter to a placement


# --- what comes ---


@dataclass(frozen=True)
class Outcome:
    """What comes: the stream and, where a recipe has them, second stream and scores."""

    stream: Tensor
    second: Tensor | None = None
    scores: Tensor | None = None

    def list_parts(self) -> tuple[tuple[str, Tensor | None], ...]:
        """List what there is, with its name."""
        return ("", self.stream), ("second stream", self.second), ("scores", self.scores)


def is_close(actual: Tensor, expected: Tensor, allowed: float = ALLOWED) -> bool:
    """Allow a share of the largest entry that was expected."""
    if actual.shape != expected.shape:
        return False
    largest = expected.abs().max().item() if expected.numel() else 0.0
    gap = (actual.detach().double() - expected.detach().double()).abs().max().item()
    return gap <= allowed * largest + 1e-12


def agree(actual: Outcome, expected: Outcome) -> bool:
    """Return whether two outcomes are close in all that came."""
    pairs = zip(actual.list_parts(), expected.list_parts(), strict=True)
    return all(a is None or b is None or is_close(a, b) for (_, a), (_, b) in pairs)


# --- the reference with one thing changed ---


class Called(nn.Module):
    """A function of the stream where labkit wants a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Call the function."""
        return self.function(x)


@dataclass
class Site:
    """Where a slip is made: one step of the recipe, and what it gets."""

    step: Any
    x: Tensor
    context: Context

    @property
    def entry(self) -> Tensor:
        """Return the block's input."""
        return self.x if self.context.entry is None else self.context.entry

    def f(self, x: Tensor) -> Tensor:
        """Apply the sublayer."""
        return self.step.sublayer(x, context=self.context)

    def norm(self, x: Tensor) -> Tensor:
        """Apply the step's first norm, or its only one."""
        return self.step.norm(x)

    def norm_out(self, x: Tensor) -> Tensor:
        """Apply the step's second norm."""
        return self.step.norm_out(x)

    def move(self, f: Any = None, norm: Any = None, norm_out: Any = None, **constants: Any):
        """Run the recipe's step with another sublayer, other norms or other constants."""
        named = {"norm": norm or self.norm, "norm_out": norm_out or self.norm_out}
        norms = [named[name] for name in self.step.norms]
        moved = remake_step(self.step, type(self.step), f or self.f, norms)
        for name, value in constants.items():
            delattr(moved, name)  # a learned factor takes no plain number
            setattr(moved, name, value)
        return moved(self.x, self.context)


def remake_step(step: Any, kind: Any, f: Any, norms: Sequence[Callable[[Tensor], Tensor]]) -> Any:
    """Make a step of some kind in the place of another, with its factors, sublayer and norms."""
    left = iter(norms)
    made = kind(lambda: Called(next(left)), Called(f), step.place)
    if kind is type(step):
        for name, factor in step.named_parameters(recurse=False):
            setattr(made, name, factor)
        if isinstance(step, SphereStep):
            made.alpha = step.alpha
    return made


Slip = Callable[[Site], Tensor]


@dataclass(frozen=True)
class Change:
    """One thing that a block has in another way, in words: a slip in a half, or other steps."""

    sentence: str
    slips: tuple[Slip | None, ...] = (None, None)
    steps: Sequence[Any] | None = None


RIGHT = Change("")


class BlockSubject:
    """What was handed in, and labkit's steps on the same weights."""

    sides: tuple[str, ...] = SIDES
    steps: list[Any]  # the recipe's, of the halves in `sides`, with their sublayers
    leaves: Mapping[str, Tensor]  # what the reference is differentiated by
    inner: Mapping[str, Tensor]  # the same names, of what was handed in
    dim, heads = DIM, HEADS
    angles = False  # whether positions are turned

    # Each kind of subject says how it is run, how a half is silenced, and how it is narrowed.
    run: Callable[..., Outcome]  # (case, x itself where it is given)
    silence: Callable[[Sequence[str]], Any]  # a context in which sublayers write 0
    narrow: Callable[[torch.dtype], "BlockSubject"]

    def __init__(self, name: str, depth: int, index: int, seed: int):
        self.name, self.depth, self.index, self.row = name, depth, index, recipe(name)
        self.placement = self.row.placement(index, depth)
        self.generator = torch.Generator().manual_seed(seed)

    def draw_normal(self, *shape: int) -> Tensor:
        """Draw normal numbers in float64."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def draw_case(self, about: str, *, batch: int = 2, time: int = 5, scale: float = 1.0) -> Case:
        """Draw tokens that differ in size and in mean; on the sphere, unit vectors.

        Besides, what a recipe carries along: ResiDual's second stream r, RealFormer's scores of the
        block before (prev), and the block's input where the feed-forward's step alone is run.
        """
        x = self.draw_normal(batch, time, self.dim)
        x = x * (0.6 + self.draw_normal(batch, time, 1).abs()) + 0.3
        x = unit(x) if self.row.sphere else x * scale
        more = {}
        if self.row.second_stream:
            more["r"] = self.draw_normal(*x.shape)
        if getattr(self.steps[0].sublayer, "chain", None):
            more["prev"] = self.draw_normal(batch, self.heads, time, time)
        if self.sides == SIDES[1:]:
            more["entry"] = self.draw_normal(*x.shape)
        return Case(x, about, more)

    def make_context(self, case: Case) -> Context:
        """Make the context of one pass, with what the case carries along."""
        given = case.given
        angles = rotary_angles(case.x.shape[1], self.dim // self.heads) if self.angles else None
        return Context(
            angles,
            given.get("padding"),
            scores={"attention": given["prev"]} if "prev" in given else {},
            total=given.get("r"),
            entry=given.get("entry", case.x),
        )

    def find_truth(self, case: Case, change: Change = RIGHT) -> Outcome:
        """Run labkit's steps, with one thing changed where a change is given."""
        x, context = case.x, self.make_context(case)
        for step, slip in zip(change.steps or self.steps, change.slips, strict=False):
            x = step(x, context) if slip is None else slip(Site(step, x, context))
        return self.collect(x, context)

    def collect(self, stream: Tensor, context: Context) -> Outcome:
        """Collect what a pass leaves; scores that the causal mask hides may be anything."""
        scores = context.scores.get("attention") if self.row.chain else None
        if scores is not None and getattr(self.steps[0].sublayer, "causal", False):
            scores = scores.tril()
        return Outcome(stream, context.total if self.row.second_stream else None, scores)


def read_stream(result: Any, case: Case) -> Tensor:
    """Return the stream that came; raise Broken where none came."""
    if not isinstance(result, Tensor):
        came = result if result is None or result is ... else f"a {type(result).__name__}"
        raise Broken(f"on {case} your code returned {came}, not the new stream: not answered yet?")
    if result.shape != case.x.shape:
        shape = tuple(result.shape)
        raise Broken(f"on {case} the new stream has shape {shape}; a block keeps the shape")
    return result


# --- functions ---


class DrawnSublayer(nn.Module):
    """A random map of the stream in which, for attention, tokens see what came before them."""

    def __init__(self, subject: BlockSubject, mixing: bool):
        super().__init__()
        self.matrix = nn.Parameter(subject.draw_normal(DIM, DIM) * 1.3 / DIM**0.5)
        self.past = subject.draw_normal(64, 64).abs().tril() if mixing else None
        self.silent = False

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Map the stream."""
        if self.silent:
            return x * 0
        if self.past is not None:
            past = self.past[: x.shape[-2], : x.shape[-2]].to(x.dtype)
            x = past / past.sum(-1, keepdim=True) @ x
        return 2 * torch.tanh(x @ self.matrix.to(x.dtype))


class DrawnNorm(nn.Module):
    """An RMS norm with a random gain."""

    def __init__(self, subject: BlockSubject):
        super().__init__()
        self.weight = nn.Parameter(0.5 + subject.draw_normal(DIM).abs())

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector in at least float32."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (F.rms_norm(wide, (DIM,), None, 1e-6) * self.weight).to(x.dtype)


class FunctionSubject(BlockSubject):
    """A step, or a block of functions, on sublayers, norms and factors drawn at random."""

    def __init__(
        self,
        given: Callable[..., Any],
        sides: tuple[str, ...],
        name: str,
        depth: int,
        index: int,
        seed: int,
    ):
        super().__init__(name, depth, index, seed)
        self.given, self.sides, self.dtype = given, sides, torch.float64
        self.sublayers = [DrawnSublayer(self, mixing=side == SIDES[0]) for side in sides]
        self.steps, self.norms = [], []
        for side, sublayer in zip(sides, self.sublayers, strict=True):
            self.steps.append(self._make_step(side, sublayer))
        self.leaves = {
            f"sublayer of {side}": sublayer.matrix
            for side, sublayer in zip(sides, self.sublayers, strict=True)
        }
        self.leaves |= {f"norm {i + 1}": norm.weight for i, norm in enumerate(self.norms)}
        self.inner = self.leaves
        # A step may ask for norms that its recipe has not: that is a mistake to be named.
        self.spare = [*self.norms, DrawnNorm(self), DrawnNorm(self)]

    def _make_norm(self) -> nn.Module:
        self.norms.append(DrawnNorm(self))
        return self.norms[-1]

    def _make_step(self, side: str, sublayer: nn.Module) -> Any:
        half = SIDES.index(side)
        kind = (self.placement.attention, self.placement.feed_forward)[half]
        place = Place(side, "decoder", self.index, 2 * self.index + half, 0, self.depth, DIM)
        step = kind(self._make_norm, sublayer, place)
        for name, p in step.named_parameters():
            if not name.startswith(("sublayer", "norm")):  # the step's own factors
                factor = 0.5 + self.draw_normal(*p.shape).abs()
                p.data = factor * (0.4 if self.row.sphere else 1.0)
        return step

    @contextmanager
    def silence(self, sides: Sequence[str]) -> Iterator[None]:
        """Let these sublayers write 0 meanwhile."""
        for sublayer, side in zip(self.sublayers, self.sides, strict=True):
            sublayer.silent = side in sides
        try:
            yield
        finally:
            for sublayer in self.sublayers:
                sublayer.silent = False

    def narrow(self, dtype: torch.dtype) -> "FunctionSubject":
        """Return a copy that hands its factors on in another precision."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def run(self, case: Case, x: Tensor | None = None) -> Outcome:
        """Call the function with what it asks for by name."""
        x, context = case.x.clone() if x is None else x, self.make_context(case)
        run = self._run_step if len(self.sides) == 1 else self._run_block
        try:
            result = run(x, context)
        except Broken:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {told(error)}") from error
        if self.row.second_stream and isinstance(result, tuple) and len(result) == 2:
            result, context.total = result
        return self.collect(read_stream(result, case), context)

    def _run_step(self, x: Tensor, context: Context) -> Any:
        offered, named = self.offer_arguments(context), {}
        for p in [*inspect.signature(self.given).parameters.values()][2:]:
            if p.name in offered:
                named[p.name] = offered[p.name]
            elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                known = ", ".join(name for name in OFFERED if name in offered)
                raise Broken(
                    f"your step asks for {p.name!r}; after the stream and the sublayer, a step of "
                    f"{self.name!r} may ask for {known}"
                )
        return self.given(x, self.steps[0].sublayer, **named)

    def offer_arguments(self, context: Context) -> dict[str, Any]:
        """List what a step of this recipe may ask for."""
        step = self.steps[0]
        spare = [unit, unit] if self.row.sphere else self.spare
        offered: dict[str, Any] = {
            "norm": spare[0],
            "norm_out": spare[1],
            "entry": context.entry,
            "depth": self.depth,
            "sublayers": 2 * self.depth,
            "index": self.index,
            "number": self.index + 1,
        }
        alpha = step.share if self.row.sphere else getattr(step, "alpha", None)
        factors = {"alpha": alpha, "omega": getattr(step, "omega", None)}
        factors |= {"lam": getattr(step, "scale", None), "r": context.total}
        for name, value in factors.items():
            if value is not None:
                offered[name] = value.to(self.dtype) if isinstance(value, Tensor) else value
        if (gate := getattr(step, "transform", None)) is not None:
            offered["gate"] = lambda x: gate(x.double()).to(x.dtype)
        return offered

    def _run_block(self, x: Tensor, context: Context) -> Any:
        return self.given(x, *self.sublayers, *self.norms)


# --- modules ---


class ModuleSubject(BlockSubject):
    """A copy of the module in float64 with weights drawn at random, and labkit's block with them.

    `problems` says which parameters the recipe has and the module has not, or the other way round.
    """

    angles = True

    def __init__(self, given: nn.Module, name: str, config: ModelConfig, index: int, seed: int):
        super().__init__(name, config.depth, index, seed)
        self.dim, self.heads = config.dim, config.heads
        self.module = copy.deepcopy(given).to("cpu", torch.float64).eval().requires_grad_(True)
        self.reference = Block(config, index).double().eval()
        self.steps = [self.reference.attention, self.reference.feed_forward]
        own, right = dict(self.module.named_parameters()), dict(self.reference.named_parameters())
        self._refuse_strangers(own, right)
        self._draw_parameters(own, right)
        common = [key for key in right if key in own and own[key].shape == right[key].shape]
        self.leaves, self.inner = {k: right[k] for k in common}, {k: own[k] for k in common}
        self.problems = [f"it has no {key}" for key in right if key not in own]
        self.problems += [f"the recipe has no {key}" for key in own if key not in right]
        self.problems += [
            f"{key} has the shape {tuple(own[key].shape)}, not {tuple(p.shape)}"
            for key, p in right.items()
            if key in own and own[key].shape != p.shape
        ]

    def _refuse_strangers(self, own: dict[str, nn.Parameter], right: dict[str, nn.Parameter]):
        """Want every matrix of labkit's block, under its name and of its shape."""
        for name, p in right.items():
            is_matrix = "sublayer." in name and "norm" not in name and p.ndim == 2
            if is_matrix and (name not in own or own[name].shape != p.shape):
                came = f"{tuple(own[name].shape)}" if name in own else "none"
                raise Broken(
                    f"{TAKES}: {name} of shape {tuple(p.shape)} is wanted, and "
                    f"{type(self.module).__name__} has {came}"
                )

    @torch.no_grad()
    def _draw_parameters(
        self, own: dict[str, nn.Parameter], right: dict[str, nn.Parameter]
    ) -> None:
        """Draw the module's parameters, and give the reference those that it has too."""
        for name, p in own.items():
            p.copy_(self._draw_values(name, p))
        for name, p in right.items():
            taken = name in own and own[name].shape == p.shape
            # What the module lacks is random, so that it is missed.
            p.copy_(own[name] if taken else self._draw_values(name, p))
        if self.row.sphere:
            normalize_weights(self.module)
            normalize_weights(self.reference)

    def _draw_values(self, name: str, p: Tensor) -> Tensor:
        """Draw values among which no two gains are alike and none is 1."""
        noise = self.draw_normal(*p.shape)
        if p.ndim == 2:
            return noise * 1.2 / p.shape[-1] ** 0.5
        if name.endswith("bias"):
            return noise * 0.3
        values = 0.5 + torch.rand(p.shape, generator=self.generator, dtype=p.dtype)
        return values * noise.sign() if name.endswith("alpha.weight") else values  # |α| counts

    def narrow(self, dtype: torch.dtype) -> "ModuleSubject":
        """Return a copy in another precision."""
        other = copy.copy(self)
        other.module = copy.deepcopy(self.module).to(dtype)
        return other

    @contextmanager
    def silence(self, sides: Sequence[str]) -> Iterator[None]:
        """Set the matrices that the sublayers write with to 0 meanwhile."""
        writers = {
            "attention": "attention.sublayer.out",
            "feed-forward": "feed_forward.sublayer.down",
        }
        names = [f"{writers[side]}.weight" for side in sides]
        tensors = [values[name] for name in names for values in (self.leaves, self.inner)]
        with torch.no_grad():
            kept = [t.clone() for t in tensors]
            for t in tensors:
                t.zero_()
            try:
                yield
            finally:
                for t, before in zip(tensors, kept, strict=True):
                    t.copy_(before)

    def run(self, case: Case, x: Tensor | None = None) -> Outcome:
        """Call the module as labkit's models call a block: (x, context)."""
        context = self.make_context(case)
        context.entry = None  # a block sets it
        try:
            result = self.module(case.x.clone() if x is None else x, context)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {told(error)}") from error
        return self.collect(read_stream(result, case), context)
