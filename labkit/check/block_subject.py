"""Run a submitted block or step next to the recipe's own steps, on the same weights, in float64.

FunctionSubject is for steps and blocks of functions, ModuleSubject for modules that have the
parameters of labkit.model.Block.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from labkit.attention import rotary_angles
from labkit.check.case import Broken, Case, told
from labkit.context import Context
from labkit.model.block import Block
from labkit.model.config import ModelConfig
from labkit.norms.unit import unit
from labkit.placements import Place, recipe
from labkit.placements.sphere import normalize_weights

SIDES = ("attention", "feed-forward")
TAKES = (
    "check.block needs a step (x, f, norm), a block of functions (x, attention, feed_forward, "
    "norm), or a module with the parameter names of labkit.model.Block and its config"
)
Move = Callable[[Tensor, Context], Tensor]  # passes the stream through one sublayer
Parts = dict[str, Tensor]  # results: the stream, and ResiDual's second stream

# The arguments of functions, as text: a page of the site evaluates the same.
DIM = 4
SUBLAYERS = {
    "attention": "lambda x: x.flip(-2) + torch.tanh(2 * x)",
    "feed-forward": "lambda x: 2 * torch.tanh(x.flip(-1) - 0.5)",
}
GAINS = ([0.8, 1.3, 0.6, 1.7], [1.5, 0.7, 1.2, 0.4], [0.5, 1.1, 1.9, 0.9], [1.4, 0.3, 0.9, 1.6])
NORMS = [
    f"lambda x: torch.tensor({gain}) * x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()"
    for gain in GAINS
]


class Called(nn.Module):
    """A function of the stream as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, context: Context | None = None) -> Tensor:
        """Call the function."""
        return self.function(x)


def read_text(text: str) -> Called:
    """Make a module from a lambda's source."""
    return Called(eval(text, {"torch": torch}))


class Subject:
    """The submitted block, and the recipe's steps with the same weights."""

    sides: tuple[str, ...] = SIDES
    steps: list[Any]  # the recipe's, of the halves in `sides`, with their sublayers
    spare: list[Any]  # norms that a step may take, whether its recipe has them or not
    dim: int
    call: Callable[[Tensor, Context], Any]  # calls the submitted code
    silence: Callable[[int], "Subject"]  # a copy in which one sublayer outputs zeros

    def __init__(self, name: str, depth: int, index: int, seed: int):
        self.name, self.depth, self.index, self.row = name, depth, index, recipe(name)
        self.placement = self.row.placement(index, depth)
        self.generator = torch.Generator().manual_seed(seed)

    def draw_normal(self, *shape: int) -> Tensor:
        """Draw normal numbers in float64."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def draw_case(self, about: str, *, batch: int = 2, time: int = 5, scale: float = 1.0) -> Case:
        """Draw tokens with different sizes and means; on the sphere, unit vectors.

        The case also has ResiDual's second stream r, and the block's input if only the
        feed-forward's step is run.
        """
        x = self.draw_normal(batch, time, self.dim)
        x = x * (0.6 + self.draw_normal(batch, time, 1).abs()) + 0.3
        x = unit(x) if self.row.sphere else x * scale
        more = {"r": self.draw_normal(*x.shape)} if self.row.second_stream else {}
        if self.sides == SIDES[1:]:
            more["entry"] = self.draw_normal(*x.shape)
        return Case(x, about, more)

    def make_context(self, case: Case) -> Context:
        """Make the context of one pass from the values in the case."""
        return Context(total=case.given.get("r"), entry=case.given.get("entry", case.x))

    def find_truth(self, case: Case, steps: Sequence[Move] | None = None) -> Parts:
        """Return the results of the recipe's steps, or of others."""
        x, context = case.x, self.make_context(case)
        for step in steps or self.steps:
            x = step(x, context)
        return self._collect(x, context)

    def run(self, case: Case) -> Parts:
        """Run the submitted code; turn any error that it raises into Broken."""
        context = self.make_context(case)
        try:
            result = self.call(case.x, context)
        except Broken:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise Broken(f"on {case} your code raised {told(error)}") from error
        if self.row.second_stream and isinstance(result, tuple) and len(result) == 2:
            result, context.total = result
        if not isinstance(result, Tensor):
            came = result if result is None or result is ... else f"a {type(result).__name__}"
            raise Broken(
                f"on {case} your code returned {came}, not the new stream: not answered yet?"
            )
        if result.shape != case.x.shape:
            shape = tuple(result.shape)
            raise Broken(
                f"on {case} the new stream must keep the shape {tuple(case.x.shape)}, but has "
                f"{shape}"
            )
        return self._collect(result, context)

    def _collect(self, stream: Tensor, context: Context) -> Parts:
        second = context.total if self.row.second_stream else None
        return {"": stream} if second is None else {"": stream, ", second stream": second}


class FunctionSubject(Subject):
    """A step, or a block of functions; its sublayers and norms have source text."""

    dim = DIM

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
        self.given, self.sides = given, sides
        self.spare = [unit, unit] if self.row.sphere else [read_text(text) for text in NORMS]
        self.norms: list[Any] = []  # of the recipe, in the block's order
        self.steps = [self._make_step(side) for side in sides]

    def _make_norm(self) -> Any:
        self.norms.append(self.spare[len(self.norms)])
        return self.norms[-1]

    def _make_step(self, side: str) -> Any:
        half = SIDES.index(side)
        kind = (self.placement.attention, self.placement.feed_forward)[half]
        place = Place(side, "decoder", self.index, 0, self.depth, DIM)
        step = kind(self._make_norm, read_text(SUBLAYERS[side]), place)
        for p in step.parameters():  # the step's own factors
            p.data = (0.5 + self.draw_normal(*p.shape).abs()) * (0.4 if self.row.sphere else 1.0)
        return step

    def silence(self, half: int) -> "FunctionSubject":
        """Return a copy in which one sublayer outputs zeros."""
        other = copy.copy(self)
        other.steps = copy.deepcopy(self.steps)
        other.steps[half].sublayer = Called(torch.zeros_like)
        return other

    def call(self, x: Tensor, context: Context) -> Any:
        """Call the function with the named arguments that it accepts."""
        sublayers = [step.sublayer for step in self.steps]
        if len(sublayers) == 2:
            try:
                inspect.signature(self.given).bind(x, *sublayers, *self.norms)
            except TypeError as error:
                raise Broken(
                    f"a block of functions of {self.name!r} must take x, attention, feed_forward "
                    f"and {len(self.norms)} norms, in the block's order, but yours does not: "
                    f"{error}"
                ) from error
            return self.given(x, *sublayers, *self.norms)
        offered, named = self.offer_arguments(context), {}
        for p in [*inspect.signature(self.given).parameters.values()][2:]:
            if p.name in offered:
                named[p.name] = offered[p.name]
            elif p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise Broken(
                    f"after the stream and the sublayer, a step of {self.name!r} may take "
                    f"{', '.join(offered)}; yours takes {p.name!r}"
                )
        return self.given(x, *sublayers, **named)

    def offer_arguments(self, context: Context) -> dict[str, Any]:
        """Return the arguments that a step of this recipe may take after stream and sublayer."""
        step = self.steps[0]
        offered: dict[str, Any] = {
            "norm": self.spare[0],
            "norm_out": self.spare[1],
            "gate": getattr(step, "transform", None),
            "alpha": step.share if self.row.sphere else getattr(step, "alpha", None),
            "omega": getattr(step, "omega", None),
            "lam": getattr(step, "scale", None),
            "entry": context.entry,
            "r": context.total,
            "depth": self.depth,
            "sublayers": 2 * self.depth,
            "index": self.index,
            "number": self.index + 1,
        }
        return {name: value for name, value in offered.items() if value is not None}


class ModuleSubject(Subject):
    """A float64 copy of the module with random weights, and labkit's block with the same weights.

    `problems` lists the parameters that only the recipe or only the module has.
    """

    def __init__(self, given: nn.Module, name: str, config: ModelConfig, index: int, seed: int):
        super().__init__(name, config.depth, index, seed)
        self.dim, self.head_dim, self.heads = config.dim, config.dim // config.heads, config.heads
        self.module = copy.deepcopy(given).to("cpu", torch.float64).eval().requires_grad_(True)
        self.reference = Block(config, index).double().eval()
        self.steps = [self.reference.attention, self.reference.feed_forward]
        self.problems = [*self._share_weights()]

    @torch.no_grad()
    def _share_weights(self) -> Iterator[str]:
        """Draw the recipe's weights, copy them to the module, and yield the mismatches."""
        for name, p in self.reference.named_parameters():
            p.copy_(self._draw_values(name, p))
        if self.row.sphere:
            normalize_weights(self.reference)
        own, right = self.module.state_dict(), self.reference.state_dict()
        fit = {n: t for n, t in right.items() if n in own and own[n].shape == t.shape}
        self.module.load_state_dict(fit, strict=False)
        yield from (f"the recipe has no {name}" for name in own if name not in right)
        for name, t in right.items():
            if name not in fit:
                came = tuple(own[name].shape) if name in own else "none"
                said = f"{name} of shape {tuple(t.shape)} is required, but it has {came}"
                if "sublayer." in name and "norm" not in name and t.ndim == 2:
                    raise Broken(f"{TAKES}: {said}")
                yield said

    def _draw_values(self, name: str, p: Tensor) -> Tensor:
        """Draw values such that no two gains are equal and none is 1."""
        noise = self.draw_normal(*p.shape)
        if p.ndim == 2:
            return noise * 1.2 / p.shape[-1] ** 0.5
        values = 0.5 + torch.rand(p.shape, generator=self.generator, dtype=p.dtype)
        # Only the size of nGPT's α matters, not its sign.
        return values * noise.sign() if name.endswith("alpha.weight") else values

    def draw_case(self, about: str, *, batch: int = 2, time: int = 5, scale: float = 1.0) -> Case:
        """Draw tokens, and RealFormer's scores from the block before."""
        case = super().draw_case(about, batch=batch, time=time, scale=scale)
        chained = self.row.chain
        prev = self.draw_normal(batch, self.heads, time, time) if chained else None
        return case.but(prev=prev)

    def draw_padded(self) -> Case:
        """Draw a case in which one sequence starts with padding, which no causal mask hides."""
        case = self.draw_case("two tokens of the first sequence are padding")
        real = torch.ones(case.x.shape[:2], dtype=torch.bool)
        real[0, :2] = False
        return case.but(padding=real)

    def make_context(self, case: Case) -> Context:
        """Make the context of one pass, with rotary angles."""
        scores = {"attention": case.given["prev"]} if "prev" in case.given else {}
        angles = rotary_angles(case.x.shape[1], self.head_dim)
        padding = case.given.get("padding")
        return replace(super().make_context(case), angles=angles, scores=scores, padding=padding)

    def silence(self, half: int) -> "ModuleSubject":
        """Return a copy in which the output matrix of one sublayer is 0."""
        other = copy.copy(self)
        other.module, other.reference = copy.deepcopy((self.module, self.reference))
        other.steps = [other.reference.attention, other.reference.feed_forward]
        name = ("attention.sublayer.out", "feed_forward.sublayer.down")[half]
        for block in (other.module, other.reference):
            nn.init.zeros_(block.get_submodule(name).get_parameter("weight"))
        return other

    def call(self, x: Tensor, context: Context) -> Any:
        """Call the module as labkit's models call a block."""
        context.entry = None  # a block sets it
        return self.module(x, context)
