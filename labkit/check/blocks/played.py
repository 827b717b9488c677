"""Call a placement that brings no sublayers: a step, a wrapper, or a whole block of functions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.blocks import inside as calc
from labkit.check.blocks.call import bind, parameters, plain
from labkit.check.blocks.design import Case, Out
from labkit.check.blocks.exam import Exam, guarded, stream_of
from labkit.check.blocks.halves import SIDES, unit
from labkit.check.blocks.modes import without_dropout
from labkit.check.blocks.parts import Norm, Sublayer
from labkit.check.case import Broken
from labkit.context import Context
from labkit.model.config import ModelConfig
from labkit.placements import Place


@dataclass(frozen=True)
class PartsCase(Case):
    """A case with the sublayers, norms and constants that go with it."""

    e: Tensor = field(default_factory=lambda: torch.zeros(0))
    sublayers: tuple[Sublayer, ...] = ()
    norms: tuple[Norm, ...] = ()
    own: Mapping[str, Tensor] = field(default_factory=dict)  # ω, λ, a, T, T.bias


class Played(Exam):
    """Run a placement with the parts of a case."""

    given: Callable[..., Any]
    config: ModelConfig
    index: int
    dim: int
    training = False  # how a wrapper is run

    @contextmanager
    def in_training(self) -> Iterator[None]:
        """Run a wrapper in training mode meanwhile, without its dropout."""
        self.training = True
        try:
            yield
        finally:
            self.training = False

    def known(self, case: PartsCase, x: Tensor) -> dict[str, Any]:
        """Offer everything that a placement might want."""
        one = self.sides[0]
        half = self.design.sides[SIDES.index(one)]
        place = Place(
            one, "decoder", self.index, 2 * self.index + SIDES.index(one), 0, self.config.depth,
            self.dim,
        )  # fmt: skip
        known: dict[str, Any] = {
            "x": x, "depth": self.config.depth, "sublayers": 2 * self.config.depth,
            "index": self.index, "number": self.index + 1, "place": place, "dim": self.dim,
            "sublayer_index": place.sublayer, "dropout": 0.0,
        }  # fmt: skip
        if "α" in half.gain or self.recipe in ("deepnorm", "keel"):
            known["alpha"] = half.alpha
        if "unit" in half.text:
            known |= {"alpha": case.own["a"], "unit": unit}
        known |= {"omega": case.own["ω"]} if "ω" in half.gain else {}
        known |= {"lambda": case.own["λ"]} if "λ" in half.gain else {}
        if "T(" in half.weight:
            known["gate"] = lambda t: torch.sigmoid(calc.linear(t, case.own, "T"))
        if self.form != "whole":
            known["entry"] = x if one == "attention" else case.e.to(x.dtype)
        if half.second:
            known["second"] = case.r
        return known

    def run_on(self, case: Case, x: Tensor) -> Out:
        """Run the placement on this very tensor."""
        assert isinstance(case, PartsCase)
        half = self.design.sides[SIDES.index(self.sides[0])]
        known, context = self.known(case, x), Context(entry=case.e.to(x.dtype), total=case.r)
        about = str(case)
        try:
            if self.form == "whole":
                result = self._whole(case, known)
            elif self.form == "wrapper":
                result = self._wrapped(case, known, context)
            else:
                f = case.sublayers[SIDES.index(self.sides[0])]
                known |= {"sublayer": f, "norm": case.norms[0], "norm_out": case.norms[1]}
                if "unit" in half.text:
                    known |= {"norm": unit, "norm_out": unit}
                args, kwargs, _ = bind(
                    self.given, known, ("x", "sublayer", "norm", "norm_out"), fill=case.norms[2]
                )
                result = self.given(*args, **kwargs)
        except Broken:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            raise guarded(about, error) from error
        stream = stream_of(result, x.shape, about)
        more = result[1:] if isinstance(result, tuple | list) else ()
        more = more if half.second else ()
        second = next((t for t in more if isinstance(t, Tensor) and t.shape == x.shape), None)
        if second is None and context.total is not case.r:
            second = context.total
        return Out(stream, second)

    def _whole(self, case: PartsCase, known: dict[str, Any]) -> Any:
        listed = parameters(self.given) or []
        count = sum(len(h.norms) for h in self.design.sides)
        open_end = any(p.kind is p.VAR_POSITIONAL for p in listed)
        named = [p for p in listed if plain(p)]
        wanted = count if open_end else max(count, len(named) - 3)
        norms = {f"n{i}": case.norms[i] for i in range(min(wanted, 6))}
        given = {
            **known,
            "attention": case.sublayers[0],
            "feed_forward": case.sublayers[1],
            **norms,
        }
        order = ("x", "attention", "feed_forward", *norms)
        args, kwargs, _ = bind(self.given, given, order)
        return self.given(*args, **kwargs)

    def _wrapped(self, case: PartsCase, known: dict[str, Any], context: Context) -> Any:
        made: list[Norm] = []

        def make_norm(*args: Any, **kwargs: Any) -> nn.Module:
            made.append(case.norms[min(len(made), 5)])
            return made[-1]

        f = case.sublayers[SIDES.index(self.sides[0])]
        building = {k: v for k, v in known.items() if k not in ("x", "entry", "second", "gate")}
        building |= {
            "make_norm": make_norm, "sublayer": f, "norm": case.norms[0], "norm_out": case.norms[1],
        }  # fmt: skip
        building.pop("omega", None)
        building.pop("lambda", None)
        if "unit" in self.design.sides[0].text:
            building.pop("alpha", None)
        args, kwargs, _ = bind(self.given, building, ("make_norm", "sublayer"), fill=case.norms[2])
        wrapped = self.given(*args, **kwargs)
        if not callable(wrapped):
            raise Broken(f"it made a {type(wrapped).__name__}, where a module is wanted")
        if isinstance(wrapped, nn.Module):
            self._set_own(wrapped, case)
            wrapped.train(self.training)
            if self.training:
                without_dropout(wrapped)
        x, half = known["x"], self.design.sides[SIDES.index(self.sides[0])]
        calling: dict[str, Any] = {"x": x, "entry": known["entry"], "context": context}
        calling |= {"second": case.r} if half.second else {}
        target = wrapped.forward if isinstance(wrapped, nn.Module) else wrapped
        args, kwargs, _ = bind(target, calling, ("x",))
        return wrapped(*args, **kwargs)

    @torch.no_grad()
    def _set_own(self, wrapped: nn.Module, case: PartsCase) -> None:
        """Set the wrapper's own factors and gates to the case's."""
        foreign = {id(p) for m in (*case.sublayers, *case.norms) for p in m.parameters()}
        text, d = self.design.sides[SIDES.index(self.sides[0])].text, self.dim
        wrapped.to(case.own["a"].dtype)
        for p in wrapped.parameters():
            if id(p) in foreign:
                continue
            if p.ndim == 2 and tuple(p.shape) == (d, d):
                p.copy_(case.own["T"])
            elif p.numel() == d:
                letter = next((n for n in ("ω", "λ") if n in text), "a")
                p.copy_(case.own["T.bias" if "T(" in text else letter].view(p.shape))
