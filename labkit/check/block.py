"""Check the block of a recipe, or one step of it, against labkit's own.

    report = check.block(lambda x, f, norm: x + f(norm(x)), "pre")
    report = check.block(Block(config), "qk", config)

The reference is labkit's block in float64 on the same weights; tests/recipe_equations.py has its
equations once more, from the papers. This file has what is asked and the search for a cause;
block_laws.py has the laws, block_subject.py runs what was handed in beside labkit's own,
block_mistakes.py knows what may be wrong in a step and block_parts.py in a labkit Block.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from labkit.check.block_laws import LAWS, RANDOM
from labkit.check.block_mistakes import list_changes
from labkit.check.block_subject import (
    RIGHT,
    SIDES,
    TAKES,
    BlockSubject,
    Change,
    FunctionSubject,
    ModuleSubject,
    Outcome,
    agree,
    is_close,
)
from labkit.check.case import Broken, Case, describe, told
from labkit.check.report import Law, Report
from labkit.check.run import Implementation, refuse_nothing, try_all, try_law
from labkit.check.tasks import make_block_task
from labkit.model.config import ModelConfig
from labkit.norms import facts
from labkit.placements import ALIASES
from labkit.placements import recipe as look_up

DEPTH = 6  # blocks, where no config says it
SMALL: dict[str, Any] = {"dim": 16, "heads": 2, "hidden": 20, "depth": DEPTH, "context": 16}


def block(
    given: Implementation,
    recipe: str,
    config: ModelConfig | None = None,
    *,
    index: int | None = None,
    part: str | None = None,
    seed: int = 0,
) -> Report:
    """Check a block, or the step of one sublayer, against the equations of a recipe.

    `given` is one of these:

    - a step: a function (x, f, norm), (x, f, norm, norm_out) or (x, f), of the stream and the
      sublayer. Further arguments go by name: gate, alpha, omega, lam, entry (the block's input), r
      (ResiDual's second stream; it returns (x, r)), depth (blocks), sublayers, index (the block,
      from 0), number (from 1).
    - a block of functions: (x, attention, feed_forward, *norms), norms in the block's order.
    - a module that has the parameters of labkit.model.Block, under their names, and is called as
      a Block is, (x, context): a Block with a part exchanged, say. Or what makes one: the class,
      or a function of (config) or (config, block). A module's config must be given.

    `config` says depth, and of a module all the rest; without it a stack has 6 blocks. `index` is
    the block's number from 0; without it a module's own place, else the last block. `part` names
    the half, attention or feed-forward, that a step is, where a recipe's two differ. `seed` draws
    other inputs and weights. Modules are checked in evaluation mode; cross-attention is not.

    Raises ValueError or TypeError where recipe, config, index or part cannot be; what was handed
    in never makes it raise.
    """
    row = look_up(recipe)
    recipe = ALIASES.get(recipe, recipe)
    _refuse_config(config, recipe)
    form = find_form(given)
    depth = DEPTH if config is None else config.depth
    if index is not None and not 0 <= index < depth:
        raise ValueError(f"index must be from 0 to {depth - 1}, got {index}")
    if part not in (None, *SIDES):
        raise ValueError(f"part must be attention or feed-forward, got {part!r}")
    if form == "step" and part is None:
        placed = row.placement(depth - 1 if index is None else index, depth)
        if placed.attention is not placed.feed_forward:
            raise ValueError(
                f"the halves of {recipe!r} differ: attention is {placed.attention.equation}, "
                f"feed-forward {placed.feed_forward.equation}; name one with part="
            )
    title = f"check.block {recipe}"
    if refused := refuse_nothing(given, "a step, a block of functions or a module"):
        return Report(title, (refused,))
    exam = BlockExam(given, form, recipe, config, index, part, seed)

    def attempt(name: str, law: Callable[..., None], exam: BlockExam) -> Law | None:
        return try_law(name, law, exam) if exam.settled or name == "runs" else None

    report = try_all(title, exam.prepare, LAWS, BlockExam.list_notes, attempt)
    return replace(report, ask=exam.make_task)


def _refuse_config(config: ModelConfig | None, recipe: str) -> None:
    if config is None:
        return
    if not isinstance(config, ModelConfig):
        raise TypeError(f"config must be a labkit.ModelConfig, got {type(config).__name__}")
    if config.kind == "encoder-decoder":
        raise ValueError("a block of one stack is checked; use a config of kind decoder or encoder")
    if ALIASES.get(config.recipe, config.recipe) != recipe:
        raise ValueError(
            f"the config is for {config.recipe!r}, and the block is checked as {recipe!r}; make "
            "them the same"
        )


def find_form(given: Any) -> str:
    """Name the form of what was handed in: module, maker, step or functions; "" for none."""
    if isinstance(given, nn.Module):
        return "module"
    try:
        listed = [*inspect.signature(given).parameters.values()]
    except (TypeError, ValueError):
        return ""
    names = [p.name for p in listed]
    if names[:1] == ["config"]:
        return "maker"
    if names[1:3] == ["attention", "feed_forward"]:
        return "functions"
    positional = [p for p in listed[:2] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return "step" if len(positional) == 2 and not isinstance(given, type) else ""


@dataclass
class BlockExam:
    """One check: what was handed in, the subject made of it, and one explanation for all laws."""

    given: Any
    form: str
    recipe: str
    config: ModelConfig | None
    index: int | None
    part: str | None
    seed: int
    settled = False  # it runs
    off = False  # a value came out wrong; what follows proves little
    subject: BlockSubject = field(init=False)
    _cause: str | None = None

    # --- what is held against what ---

    def prepare(self) -> "BlockExam":
        """Make the subject."""
        if not self.form:
            raise Broken(f"{TAKES}; got {getattr(self.given, '__name__', repr(self.given))}")
        self.depth = DEPTH if self.config is None else self.config.depth
        self.subject = self.make_subject()
        return self

    def make_subject(self) -> BlockSubject:
        """Make the subject, for the depth and the block that were named."""
        if self.form in ("step", "functions"):
            sides = SIDES if self.form == "functions" else (self.part or SIDES[1],)
            place = self.depth - 1 if self.index is None else self.index
            return FunctionSubject(self.given, sides, self.recipe, self.depth, place, self.seed)
        config = self.config or ModelConfig(self.recipe, **SMALL)
        if config.experts is not None:
            raise Broken("a block with experts cannot be checked; leave config.experts out")
        if facts(config.norm_name).scope != "token":
            raise Broken(
                f"a block is checked with a norm of one vector, got {config.norm_name!r}; check "
                "that norm by itself, by the check of its name or by check.any_norm"
            )
        module, place = self.given, self.index
        if self.form == "maker":
            place = 0 if place is None and self.takes("block", "index") else place
            module = self._make_module(config, place)
        elif self.config is None:
            raise Broken(f"{TAKES}; pass the config that it was made from as config=")
        if place is None:
            own = getattr(getattr(module, "attention", None), "place", None)
            place = getattr(own, "block", self.depth - 1)
        return ModuleSubject(module, self.recipe, config, place, self.seed)

    def _make_module(self, config: ModelConfig, place: int | None) -> nn.Module:
        numbered = self.takes("block", "index")
        try:
            made = self.given(config, place) if numbered else self.given(config)
        except Exception as error:
            raise Broken(f"making the block raised {told(error)}") from error
        if not isinstance(made, nn.Module):
            raise Broken(f"it made a {type(made).__name__}, where an nn.Module is wanted")
        return made

    def takes(self, *names: str) -> bool:
        """Return whether what was handed in takes an argument of one of these names."""
        return any(name in names for name in inspect.signature(self.given).parameters)

    def list_other_places(self) -> Iterator[tuple[int, int]]:
        """List the depths and blocks for which the same code must hold too."""
        by_depth = self.takes_depth() and self.form == "step"
        numbered = self.form != "module" and self.takes("index", "number", "block")
        if self.recipe == "lns" and self.form == "step":
            numbered = True  # a step that takes no number holds for one block only
        numbered = numbered and self.index is None
        if not (by_depth or numbered):
            return
        kinds = (self.subject.placement.attention, self.subject.placement.feed_forward)
        for depth in (3, 12) if by_depth else (self.depth,):
            for index in (0, 1, depth - 1) if numbered else (min(self.subject.index, depth - 1),):
                placed = look_up(self.recipe).placement(index, depth)
                # A step is one equation; a block may be another one for each number.
                same = (placed.attention, placed.feed_forward) == kinds
                if (self.form == "maker" or same) and index < depth:
                    yield depth, index

    def takes_depth(self) -> bool:
        """Return whether a constant that depends on depth is left to what was handed in."""
        return self.form != "module" and self.takes("depth", "sublayers", "alpha")

    def move_to(self, depth: int, index: int) -> "BlockExam":
        """Return the exam of the same code at another depth and block."""
        config = None if self.config is None else replace(self.config, depth=depth)
        other = replace(self, config=config, index=index)
        other.depth = depth
        other.subject = other.make_subject()
        return other

    def settle(self) -> None:
        """Run it on two cases, on which causes are looked for."""
        self.cases = [self.subject.draw_case("ordinary numbers", batch=1, time=t) for t in (4, 3)]
        self.actual = [self.run(case) for case in self.cases]
        self.settled = True

    def run(self, case: Case) -> Outcome:
        """Run what was handed in."""
        with torch.no_grad():
            return self.subject.run(case)

    def compare(self, case: Case) -> None:
        """Hold all that comes on a case against the reference."""
        with torch.no_grad():
            actual, expected = self.run(case), self.subject.find_truth(case)
        for (name, came), (_, wanted) in zip(
            actual.list_parts(), expected.list_parts(), strict=True
        ):
            if came is not None and wanted is not None and not is_close(came, wanted):
                self.off = True
                what = f", {name}" if name else ""
                raise Broken(describe(case, came, wanted, what), self.find_cause())

    def make_task(self) -> dict[str, Any] | None:
        """Make what a page asks; None of a module, or of what asks for more than a page has."""
        if self.form not in ("step", "functions"):
            return None
        places = [(self.subject.depth, self.subject.index), *self.list_other_places()]
        exams = [self.move_to(*place) for place in dict.fromkeys(places)]
        subjects = [one.subject for one in exams if isinstance(one.subject, FunctionSubject)]
        return make_block_task(self.given, subjects)

    # --- why ---

    def find_cause(self, usual: str = "") -> str:
        """Return the mistake that gives what came, looked for once; else a usual one.

        A usual mistake explains no wrong value, so it is not told once a value was wrong.
        """
        if self._cause is None:
            self._cause = "" if self._fits_all(RIGHT) else self._explain_difference()
        return self._cause or ("" if self.off else usual)

    def _explain_difference(self) -> str:
        first: Tensor = self.actual[0].stream
        if not is_close(self.run(self.cases[0]).stream, first, 1e-9) and first.isfinite().all():
            return RANDOM
        for change in list_changes(self.subject):
            try:
                if self._fits_all(change):
                    return change.sentence
            except (RuntimeError, ValueError, ArithmeticError, TypeError, AttributeError):
                continue  # shapes that do not fit: it is another mistake
        return ""

    @torch.no_grad()
    def _fits_all(self, change: Change) -> bool:
        pairs = zip(self.cases, self.actual, strict=True)
        return all(agree(actual, self.subject.find_truth(c, change)) for c, actual in pairs)

    def list_notes(self) -> tuple[str, ...]:
        """Tell what the reader did not ask for in so many words."""
        notes = []
        row = look_up(self.recipe)
        if row.first is not None and self.index is None and self.form in ("step", "functions"):
            equations = "; ".join(step.equation for step in self.subject.steps)
            notes.append(
                "the recipe treats the first block(s) in another way: this was held against block "
                f"{self.subject.index} (from 0), {equations}; name another one with index="
            )
        if self.off and not self._cause:
            notes.append("no cause that labkit knows fits what came")
        return tuple(notes)
