"""A placement without sublayers of its own: a step, a wrapper or a whole block of functions."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import torch
from torch import Tensor

from labkit.check.blocks import inside as calc
from labkit.check.blocks.call import parameters, plain, role_of
from labkit.check.blocks.design import Case, Design, Out, design_of, run_halves
from labkit.check.blocks.exam import same
from labkit.check.blocks.halves import SIDES, Bench, move, unit
from labkit.check.blocks.parts import Norm, Sublayer
from labkit.check.blocks.played import PartsCase, Played
from labkit.check.blocks.slopes import slopes
from labkit.check.case import Broken
from labkit.model.config import ModelConfig


class StepsExam(Played):
    """Hold a placement with random sublayers and norms."""

    def __init__(
        self,
        given: Callable[..., Any],
        form: str,
        recipe: str,
        config: ModelConfig,
        index: int | None,
        part: str | None,
        seed: int,
        tries: int = 3000,
    ):
        super().__init__(recipe, seed, tries)
        self.given, self.form, self.config = given, form, config
        self.index = config.depth - 1 if index is None else index
        self.dim, self.scale = 8, 1.0
        self.design = design_of(recipe, config, self.index)
        self.order: tuple[int, ...] = tuple(range(6))
        self.sides = SIDES if form == "whole" else self._side(part)
        different = self.design.attention != self.design.feed_forward
        self.free = part is None and form != "whole" and different
        self.takes_alpha = any(role_of(p.name, {"alpha"}) for p in parameters(given) or [])
        self.has_modes = form == "wrapper"
        self._settle()
        if self.free:
            half = self.design.sides[SIDES.index(self.sides[0])]
            self.notes.append(
                f"it was held against the {self.sides[0]} half, {half.text}; name the other "
                f"one with part={next(s for s in SIDES if s not in self.sides)!r}"
            )

    # --- what it is held against ---

    def _side(self, part: str | None) -> tuple[str, ...]:
        """Choose the half that a step is: as named, or by the norms and inputs that it takes."""
        if part is not None:
            return (part,)
        listed = [p.name for p in parameters(self.given) or []]
        takes_entry = any(role_of(name, {"entry", "place"}) for name in listed[1:])
        count = sum(bool(role_of(n, {"norm", "norm_out", "make_norm"})) for n in listed[1:])

        def fits(side: str) -> float:
            half = self.design.sides[SIDES.index(side)]
            known = {"omega": "ω", "lambda": "λ", "alpha": "α", "entry": "e"}
            said = {known[r] for n in listed[1:] if (r := role_of(n, set(known)))}
            text = half.text
            more = sum((letter in text.replace("relu", "")) == (letter in said) for letter in "ωλe")
            more += 2 * (bool(half.norms) == bool(count)) + (len(half.norms) == count)
            return more + (0.5 if side == "feed-forward" else 0.0)

        sides = [s for s in SIDES if takes_entry is False or s == "feed-forward"] or list(SIDES)
        sides = sides if "place" not in listed else list(SIDES)
        return (max(sides, key=fits),)

    def _settle(self) -> None:
        """Choose which of its norms is which, and how it stores a share of the way."""
        draw = self.generator("settle")
        case = self.case(draw, batch=1, time=4)
        try:
            self.run(case)
        except Broken as broken:
            self.refused = broken.message
            return
        sides = [self.sides]
        if self.form == "wrapper" and self.free:
            sides.append(tuple(s for s in SIDES if s not in self.sides))
        count = sum(len(h.norms) for h in self.design.sides) or 1
        root = self.dim**0.5
        first = self.sides
        for side in sides:
            self.sides = side
            actual = self.run(case)
            for order in permutations(range(max(count, 2))):
                for scale in (1.0, 0.05 * root) if "unit" in self.design.attention.text else (1.0,):
                    self.order, self.scale = (*order, *range(len(order), 6)), scale
                    if same(actual, self.truth(case)):
                        return
        self.sides = first
        self.order, self.scale = tuple(range(6)), 1.0

    # --- runs ---

    def case(
        self, draw: torch.Generator, about: str = "ordinary numbers", *, batch: int = 2,
        time: int = 5, scale: float = 1.0, silent: tuple[str, ...] = (), kind: str = "",
    ) -> PartsCase:  # fmt: skip
        """Draw an input, sublayers, norms and constants."""
        d = self.dim

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=draw, dtype=torch.float64)

        x = normal(batch, time, d) * (0.6 + normal(batch, time, 1).abs()) + 0.3
        sphere = self.design.inside.sphere
        x = unit(x) if sphere else x * scale
        kinds = [kind, kind] if kind else ["mixing and nonlinear", "nonlinear"]
        subs = [Sublayer(draw, d, k, s in silent) for k, s in zip(kinds, SIDES, strict=True)]
        norms = [Norm(draw, d, "layer" if self.seed % 2 else "rms") for _ in range(6)]
        vector = 0.5 + normal(d).abs()
        own = {"ω": vector, "λ": vector, "T": normal(d, d) / d**0.5, "T.bias": normal(d) * 0.5}
        own["a"] = 0.2 + 0.5 * torch.rand(d, generator=draw, dtype=torch.float64)
        e = normal(batch, time, d) * scale
        return PartsCase(
            x, f"{about}, the sublayer {kinds[0]}", normal(batch, time, d), None, silent,
            e, tuple(subs), tuple(norms), own,
        )  # fmt: skip

    def run(self, case: Case) -> Out:
        """Run the placement on a copy of the case."""
        with torch.no_grad():
            return self.run_on(case, case.x.clone())

    def run_in(self, case: Case, dtype: torch.dtype) -> Tensor:
        """Run it in another precision."""
        assert isinstance(case, PartsCase) and case.r is not None
        cast = {key: value.to(dtype) for key, value in case.own.items()}
        with torch.no_grad():
            other = replace(case, e=case.e.to(dtype), r=case.r.to(dtype), own=cast)
            return self.run_on(other, case.x.to(dtype)).stream

    # --- the reference ---

    def truth(self, case: Case, design: Design | None = None) -> Out:
        """Evaluate the equations with the same sublayers and norms."""
        return self._evaluate(case, design or self.design, self.order)

    def _evaluate(self, case: Case, design: Design, order: tuple[int, ...]) -> Out:
        assert isinstance(case, PartsCase)
        own, benches, used = case.own, [], 0
        for number, side in enumerate(SIDES):
            letters = self.design.sides[number].norms
            wrong = design.sides[number].norms
            if design.merged and number and self.form == "whole":
                used = 0
            norms = {
                letter: case.norms[order[used + "NM".index(letter) if len(letters + wrong) > 1
                                         else used]]
                for letter in "NM"
            }  # fmt: skip
            if len(letters) == 1 and len(set(letters + wrong)) == 1:
                norms = dict.fromkeys("NM", case.norms[order[used]])
            if self.form == "whole" or side in self.sides:
                used += len(letters)
            share = own["a"] * self.scale
            vectors = {
                "ω": own["ω"], "λ": own["λ"], "a": share.abs(), "raw": share,
                "linear": lambda t: calc.linear(t, own, "T"),
                "T": lambda t: torch.sigmoid(calc.linear(t, own, "T")),
            }  # fmt: skip
            benches.append(Bench(case.sublayers[number], norms, vectors))
        if self.form == "whole":
            return run_halves(design, case, benches[0], benches[1], [])
        number = SIDES.index(self.sides[0])
        e = case.x if number == 0 else case.e
        y, r = move(design.sides[number], benches[number], case.x, e, case.r)
        return Out(y, r if design.sides[number].second else None)

    def explanations(self, case: Case, design: Design) -> Iterator[Out]:
        """Evaluate a wrong design with the norms in every order."""
        for order in permutations(range(4 if self.form == "whole" else 2)):
            yield self._evaluate(case, design, (*order, *range(len(order), 6)))

    def gradients(self, case: Case) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Differentiate by x, by the sublayers' matrices and by the norms' gains."""
        assert isinstance(case, PartsCase)
        inner = {f"sublayer {n + 1}": s.matrix for n, s in enumerate(case.sublayers)}
        inner |= {f"norm {n + 1}": norm.weight for n, norm in enumerate(case.norms)}
        wanted = self.truth(case)

        def collect(run: Callable[[Case], Out]) -> dict[str, Tensor]:
            return slopes(run, case, wanted, inner, self.generator("slopes"), False)

        return collect(lambda one: self.run_on(one, one.x)), collect(self.truth)


def arguments(fn: Callable[..., Any]) -> set[str]:
    """List the roles of what a callable takes that say where a block stands."""
    places = {"depth", "sublayers", "index", "number", "sublayer_index", "place", "alpha", "config"}
    return {r for p in parameters(fn) or [] if plain(p) and (r := role_of(p.name, places))}
