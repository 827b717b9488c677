"""A placement without sublayers of its own: a step, a wrapper, or a whole block of functions."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from labkit.check.block_call import arguments, call, roles
from labkit.check.block_subject import (
    SIDES,
    BlockSubject,
    Out,
    context_of,
    set_meanwhile,
    without_dropout,
)
from labkit.check.case import Broken, Case, told
from labkit.context import Context
from labkit.model.config import ModelConfig
from labkit.norms.unit import unit
from labkit.placements import Place
from labkit.placements.sphere import SphereStep

DIM = 8  # sizes do not matter to a placement


class DrawnSublayer(nn.Module):
    """A random map of the stream in which, for attention, tokens see what came before them."""

    def __init__(self, subject: BlockSubject, mixing: bool):
        super().__init__()
        self.matrix = nn.Parameter(subject.normal(DIM, DIM) * 1.3 / DIM**0.5)
        self.past = subject.normal(64, 64).abs().tril() if mixing else None
        self.silent = False

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
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
        self.weight = nn.Parameter(0.5 + subject.normal(DIM).abs())

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Normalize each vector in at least float32."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (F.rms_norm(wide, (DIM,), None, 1e-6) * self.weight).to(x.dtype)


class PartsSubject(BlockSubject):
    """A placement whose sublayers, norms and learned factors are drawn at random."""

    def __init__(
        self, given: Callable[..., Any], form: str, name: str, config: ModelConfig,
        index: int | None, part: str | None, seed: int,
    ):  # fmt: skip
        place = config.depth - 1 if index is None else index
        super().__init__(name, replace(config, dim=DIM, heads=2, kv_heads=None), place, seed)
        self.given, self.form, self.mode, self.dtype = given, form, False, torch.float64
        self.subs = [DrawnSublayer(self, mixing=True), DrawnSublayer(self, mixing=False)]
        self.drawn = self.norms = [DrawnNorm(self) for _ in range(6)]
        kinds = (self.placement.attention, self.placement.feed_forward)
        self.both = [self._step(kind, i) for i, kind in enumerate(kinds)]
        self.free = part is None and form != "whole" and kinds[0] is not kinds[1]
        self._take(SIDES if form == "whole" else (part or self._likely_side(),))
        if form == "wrapper":
            self.training = lambda: set_meanwhile(self, "mode", True)

    def _step(self, kind: Any, i: int) -> Any:
        depth = self.config.depth
        place = Place(SIDES[i], "decoder", self.index, 2 * self.index + i, 0, depth, DIM)
        step = kind(nn.Identity, self.subs[i], place)
        for name, p in step.named_parameters():
            if not name.startswith("sublayer"):
                p.data = (0.5 + self.normal(*p.shape).abs()) * (0.4 if self.row.sphere else 1.0)
        return step

    def _likely_side(self) -> str:
        """Choose the half that has as many norms as the step takes; feed-forward, where both do."""
        taken = roles(self.given, {"norm", "norm_out", "make_norm", "entry", "sublayer"})
        count = sum(role in ("norm", "norm_out", "make_norm") for role in taken)
        off = [abs(len(step.norms) - count) for step in self.both]
        return SIDES[0] if off[0] < off[1] and "entry" not in taken else SIDES[1]

    def _take(self, sides: tuple[str, ...]) -> None:
        self.sides, self.steps = sides, [self.both[SIDES.index(side)] for side in sides]
        self.leaves = {f"sublayer of {s}": self.subs[SIDES.index(s)].matrix for s in sides}
        self.leaves |= {f"norm {i + 1}": norm.weight for i, norm in enumerate(self.drawn)}

    def choices(self) -> Iterator[None]:
        """Take the norms in any order, and one step of two different halves for either."""
        first = self.sides
        either = self.free and "entry" not in roles(self.given, {"entry"})
        for sides in (first, *((side,) for side in SIDES if either and (side,) != first)):
            self._take(sides)
            count = max(sum(len(step.norms) for step in self.steps), 1)
            for order in permutations(range(count)):
                self.norms = [self.drawn[i] for i in order] + self.drawn[count:]
                self.norms = self.norms[: max(count, 2)] if count > 1 else self.norms[:1]
                yield None
        self._take(first)

    @contextmanager
    def silenced(self, sides: Sequence[str]) -> Iterator[None]:
        """Let these sublayers write 0 meanwhile."""
        for sub, side in zip(self.subs, SIDES, strict=True):
            sub.silent = side in sides
        try:
            yield
        finally:
            self.subs[0].silent = self.subs[1].silent = False

    def in_dtype(self, dtype: torch.dtype) -> "PartsSubject":
        """Return a copy that hands its constants on in another precision."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def _known(self, case: Case, x: Tensor) -> dict[str, Any]:
        """Offer everything that a placement might want, by role."""
        step: Any = self.steps[0]
        depth = self.config.depth
        known: dict[str, Any] = {
            "x": x, "depth": depth, "sublayers": 2 * depth, "index": self.index, "dim": DIM,
            "number": self.index + 1, "place": step.place, "sublayer_index": step.place.sublayer,
            "dropout": 0.0, "second": case.given.get("r"), "omega": getattr(step, "omega", None),
            "lambda": getattr(step, "scale", None), "alpha": getattr(step, "alpha", None),
        }  # fmt: skip
        if isinstance(step, SphereStep):
            known |= {"alpha": step.share, "unit": unit}
        elif self.row.first is not None and "norm_out" in self.row.block.attention.norms:
            known["alpha"] = 2.0 * depth  # Keel's, which its first attention does not use
        if (gate := getattr(step, "transform", None)) is not None:
            known["gate"] = lambda t: gate(t.double()).to(t.dtype)
        if self.form != "whole":
            known["entry"] = case.given.get("entry", x)
        known = {role: value for role, value in known.items() if value is not None}
        for role in ("alpha", "omega", "lambda"):
            if isinstance(known.get(role), Tensor):
                known[role] = known[role].to(self.dtype)
        return known

    def run(self, case: Case, x: Tensor | None = None) -> Out:
        """Hand sublayers, norms and constants in by name."""
        known = self._known(case, case.x.clone() if x is None else x)
        context = context_of(case)
        context.entry = known.get("entry", context.entry)
        try:
            result = getattr(self, f"_run_{self.form}")(known, context)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, Broken):
                raise
            raise Broken(f"on {case} your code raised {told(error)}") from error
        return self.outcome(result, case, context)

    def _run_step(self, known: dict[str, Any], context: Context) -> Any:
        norms = [unit, unit] if self.row.sphere else self.drawn
        known |= {"sublayer": self.steps[0].sublayer, "norm": norms[0], "norm_out": norms[1]}
        return call(self.given, known, ("x", "sublayer", "norm", "norm_out"), fill=self.drawn[2])

    def _run_whole(self, known: dict[str, Any], context: Context) -> Any:
        count = sum(len(step.norms) for step in self.steps)
        if not arguments(self.given, starred=True):
            count = max(count, len(arguments(self.given)) - 3)
        norms = {f"n{i}": norm for i, norm in enumerate(self.drawn[:count])}
        known |= {"attention": self.subs[0], "feed_forward": self.subs[1], **norms}
        return call(self.given, known, ("x", "attention", "feed_forward", *norms))

    def _run_wrapper(self, known: dict[str, Any], context: Context) -> Any:
        made = iter(self.drawn)
        learned = {"x", "entry", "second", "gate", "omega", "lambda"}
        building = {k: v for k, v in known.items() if k not in learned | {"alpha"} or
                    (k == "alpha" and isinstance(v, float))}  # fmt: skip
        building |= {"make_norm": lambda *_, **__: next(made), "sublayer": self.steps[0].sublayer,
                     "norm": self.drawn[0], "norm_out": self.drawn[1]}  # fmt: skip
        with torch.random.fork_rng(devices=[]):  # what it draws itself, it draws alike each time
            torch.manual_seed(0)
            wrapped = call(self.given, building, ("make_norm", "sublayer"), fill=self.drawn[2])
        if not callable(wrapped):
            raise Broken(f"it made a {type(wrapped).__name__}, where a module is wanted")
        if isinstance(wrapped, nn.Module):
            self._adopt(wrapped.train(self.mode))
            without_dropout(wrapped)
        calling = {k: known[k] for k in ("x", "entry", "second") if k in known}
        target = wrapped.forward if isinstance(wrapped, nn.Module) else wrapped
        return call(target, {**calling, "context": context}, ("x",))

    @torch.no_grad()
    def _adopt(self, wrapped: nn.Module) -> None:
        """Give a wrapper's own factors and gates the values of the reference's."""
        foreign = {id(p) for m in (*self.subs, *self.drawn) for p in m.parameters()}
        right = [p for p in self.steps[0].parameters() if id(p) not in foreign]
        for p in wrapped.parameters():
            p.data = p.data if id(p) in foreign else p.data.to(self.dtype)
            fits = [i for i, value in enumerate(right) if value.numel() == p.numel()]
            if id(p) not in foreign and fits:
                p.copy_(right.pop(fits[0]).view(p.shape))
