"""Check the block of a recipe, or one of its steps, against labkit's own.

    report = check.block(lambda x, f, norm: x + f(norm(x)), "pre")
    report = check.block(Block(config), "qk", config)

The reference is the recipe's steps in float64 on the same weights; tests/recipe_equations.py has
its equations again, from the papers. block_subject.py runs the submitted code next to them,
block_mistakes.py lists known mistakes. This file has the check itself, and the laws.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import nn

from labkit.check.block_mistakes import list_changes, list_declared
from labkit.check.block_subject import (
    SIDES,
    TAKES,
    FunctionSubject,
    ModuleSubject,
    Move,
    Parts,
    Subject,
)
from labkit.check.case import Broken, Case, Untested, describe, told
from labkit.check.report import Law, Report
from labkit.check.run import Implementation, refuse_nothing, try_all, try_law
from labkit.check.tasks import make_block_task
from labkit.model.config import ModelConfig
from labkit.norms import facts
from labkit.placements import ALIASES
from labkit.placements import recipe as look_up

ALLOWED = 1e-4  # relative to the largest entry
CUT = "part of the way is cut off (detach, no_grad, .data) or scaled"
CONSTANT = "a constant does not follow the depth or the block's number"
FUNCTIONS = ("step", "functions")  # forms that are not modules
DEPTH = 6  # blocks, if there is no config
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
      a Block is, (x, context): for example, a Block with one part replaced. The class is also
      accepted, or a function of (config) or (config, block). A module's config must be given.

    `config` sets the depth and, for a module, all other sizes; without it a stack has 6 blocks.
    `index` is the block's number from 0; the default is a module's own position, else the last
    block. `part` says whether a step is for attention or feed-forward, if the recipe's two differ.
    `seed` selects the random inputs and weights. Modules are checked in evaluation mode;
    cross-attention is not checked.

    Raises ValueError or TypeError for an invalid recipe, config, index or part. The submitted code
    never makes it raise.
    """
    row = look_up(recipe)
    recipe = ALIASES.get(recipe, recipe)
    _refuse_config(config, recipe)
    form = find_form(given)
    depth = DEPTH if config is None else config.depth
    if index is not None and not 0 <= index < depth:
        raise ValueError(f"index must be from 0 to {depth - 1}, got {index}")
    if part not in (None, *SIDES):
        raise ValueError(f"part must be 'attention' or 'feed-forward', got {part!r}")
    if form == "step" and part is None:
        placed = row.placement(depth - 1 if index is None else index, depth)
        if placed.attention is not placed.feed_forward:
            raise ValueError(
                f"part= is needed where a recipe's two sublayers differ, as in {recipe!r}: "
                f"attention is {placed.attention.equation}, feed-forward "
                f"{placed.feed_forward.equation}"
            )
    title = f"check.block {recipe}"
    if refused := refuse_nothing(given, "a step, a block of functions or a module"):
        return Report(title, (refused,))
    asked = Asked(given, form, recipe, config, index, part, seed)

    def attempt(name: str, law: Callable[..., None], trial: Trial) -> Law | None:
        return try_law(name, law, trial) if trial.came or name == "runs" else None

    report = try_all(title, lambda: Trial(asked, asked.make_subject()), LAWS, _list_notes, attempt)
    return replace(report, ask=asked.make_task)


def _refuse_config(config: ModelConfig | None, recipe: str) -> None:
    if config is None:
        return
    if not isinstance(config, ModelConfig):
        raise TypeError(f"config must be a labkit.ModelConfig, got {type(config).__name__}")
    if config.kind == "encoder-decoder":
        raise ValueError(
            "only a block of a single stack can be checked, got a config of kind "
            "'encoder-decoder'; use kind 'decoder' or 'encoder'"
        )
    if ALIASES.get(config.recipe, config.recipe) != recipe:
        raise ValueError(
            f"the config and the check must be for the same recipe, got {config.recipe!r} and "
            f"{recipe!r}; change one of them"
        )


def find_form(given: Any) -> str:
    """Return the form of the submitted code: module, maker, step or functions; "" for none."""
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


@dataclass(frozen=True)
class Asked:
    """The submitted block, its form, and the position in the stack for which it is checked."""

    given: Any
    form: str
    recipe: str
    config: ModelConfig | None
    index: int | None
    part: str | None
    seed: int
    depth: int = 0  # 0: the config's, or DEPTH

    def make_subject(self) -> Subject:
        """Combine the submitted code with the recipe's steps; raise Broken if they do not fit."""
        if not self.form:
            raise Broken(f"{TAKES}; got {getattr(self.given, '__name__', repr(self.given))}")
        depth = self.depth or (DEPTH if self.config is None else self.config.depth)
        if self.form in FUNCTIONS:
            sides = SIDES if self.form == "functions" else (self.part or SIDES[1],)
            place = depth - 1 if self.index is None else self.index
            return FunctionSubject(self.given, sides, self.recipe, depth, place, self.seed)
        config = self.config or ModelConfig(self.recipe, **SMALL)
        if config.experts is not None:
            raise Broken(
                "a block to check must have no experts, but its config has; leave config.experts "
                "out"
            )
        if facts(config.norm_name).scope != "token":
            raise Broken(
                "a block to check must have a norm that acts on each vector separately, got "
                f"{config.norm_name!r}; check that norm on its own, with the check named after it "
                "or with check.any_norm"
            )
        module, place = self.given, self.index
        if self.form == "maker":
            place = 0 if place is None and self._takes("block", "index") else place
            module = self._make_module(config, place)
        elif self.config is None:
            raise Broken(f"{TAKES}; pass the config that it was made from as config=")
        if place is None:
            own = getattr(getattr(module, "attention", None), "place", None)
            place = getattr(own, "block", depth - 1)
        return ModuleSubject(module, self.recipe, config, place, self.seed)

    def _make_module(self, config: ModelConfig, place: int | None) -> nn.Module:
        numbered = self._takes("block", "index")
        try:
            made = self.given(config, place) if numbered else self.given(config)
        except Exception as error:
            raise Broken(
                f"your code must make the block without an error, but raised {told(error)}"
            ) from error
        if not isinstance(made, nn.Module):
            raise Broken(f"your code must make an nn.Module, but made a {type(made).__name__}")
        return made

    def _takes(self, *names: str) -> bool:
        return any(name in names for name in inspect.signature(self.given).parameters)

    def list_other_places(self, subject: Subject) -> Iterator["Asked"]:
        """Yield further depths and blocks for which the same code must be right."""
        by_depth = self.form == "step" and self._takes("depth", "sublayers", "alpha")
        numbered = self.form != "module" and self._takes("index", "number", "block")
        # A step of this recipe that takes no number is right for one block only.
        numbered = numbered or (self.recipe == "lns" and self.form == "step")
        numbered = numbered and self.index is None
        if not (by_depth or numbered):
            return
        for depth in (3, 12) if by_depth else (subject.depth,):
            for index in (0, 1, depth - 1) if numbered else (min(subject.index, depth - 1),):
                # A step is one equation; a block may have a different one for each number.
                same = look_up(self.recipe).placement(index, depth) == subject.placement
                if (self.form == "maker" or same) and index < depth:
                    yield replace(self, index=index, depth=depth)

    def make_task(self) -> dict[str, Any] | None:
        """Return the task for a page; None for a module, or if a page could not run the task."""
        if self.form not in FUNCTIONS:
            return None
        subject = self.make_subject()
        subjects = [subject, *(other.make_subject() for other in self.list_other_places(subject))]
        places = {(one.depth, one.index): one for one in subjects}
        functions = [one for one in places.values() if isinstance(one, FunctionSubject)]
        return make_block_task(self.given, functions)


@dataclass
class Trial:
    """One check: the subject, and its results on two cases, which identify its mistake."""

    asked: Asked
    subject: Subject
    cases: list[Case] = field(default_factory=list)
    came: list[Parts] = field(default_factory=list)

    def begin(self) -> None:
        """Run the code for the first time; raise Broken if there is no usable result."""
        self.cases = [self.subject.draw_case("ordinary numbers", batch=1, time=t) for t in (4, 3)]
        self.came = [_run(self.subject, case) for case in self.cases]

    @torch.no_grad()
    def fits(self, steps: Sequence[Move] | None = None) -> bool:
        """Return whether the recipe's steps, or the given ones, produce the actual results."""
        truths = [self.subject.find_truth(case, steps) for case in self.cases]
        return all(_find_gap(*pair) is None for pair in zip(self.came, truths, strict=True))

    @cached_property
    def cause(self) -> str:
        """Return the first mistake that explains the results, or a module's own settings, or ""."""
        if self.fits():
            return ""
        for sentence, steps in list_changes(self.subject):
            try:
                if self.fits(steps):
                    return sentence
            except (RuntimeError, ValueError, ArithmeticError, TypeError, AttributeError):
                continue  # shapes that do not fit: it is a different mistake
        return "; ".join(list_declared(self.subject))

    def compare(self, subject: Subject, case: Case) -> None:
        """Compare all outputs for a case with the recipe's."""
        with torch.no_grad():
            came, wanted = _run(subject, case), subject.find_truth(case)
        if (name := _find_gap(came, wanted)) is not None:
            raise Broken(describe(case, came[name], wanted[name], name), self.cause)


def _run(subject: Subject, case: Case) -> Parts:
    """Run the submitted code on a copy of the case."""
    with torch.no_grad():
        return subject.run(case.map(lambda _, t: t.clone()))


def _find_gap(came: Parts, wanted: Parts, allowed: float = ALLOWED) -> str | None:
    """Return the first part whose error exceeds a fraction of its largest entry; None for none."""
    for name in came.keys() & wanted.keys():
        gap = (came[name].detach().double() - wanted[name].detach().double()).abs().max().item()
        if not gap <= allowed * wanted[name].abs().max().item() + 1e-12:
            return name
    return None


# --- laws: each takes a Trial, and raises Broken if it does not hold ---


def hold_parameters(trial: Trial) -> None:
    """Require the parameters of labkit's block, and no others."""
    if not isinstance(trial.subject, ModuleSubject):
        raise Untested()
    if trial.subject.problems:
        usual = "a norm or a matrix is missing, or two places share one"
        raise Broken("; ".join(trial.subject.problems), trial.cause or usual)


def hold_value(trial: Trial) -> None:
    """Require the recipe's results in float64: for few and many tokens, small and large streams."""
    subject = trial.subject
    sizes = () if subject.row.sphere else (("a small stream", 0.3), ("a large stream", 100.0))
    cases = [
        subject.draw_case("ordinary numbers"),
        subject.draw_case("many long sequences", batch=6, time=40),
        subject.draw_case("one token", batch=1, time=1),
        *(subject.draw_case(about, scale=scale) for about, scale in sizes),
        *([subject.draw_padded()] if isinstance(subject, ModuleSubject) else []),
    ]
    for case in cases:
        trial.compare(subject, case)


def make_half_law(half: int) -> Callable[[Trial], None]:
    """Make the law of one sublayer, while the other one outputs zeros."""
    silent = SIDES[1 - half]

    def law(trial: Trial) -> None:
        if trial.subject.row.sphere or trial.subject.sides != SIDES:
            raise Untested()
        case = trial.subject.draw_case(f"the {silent} writes nothing")
        trial.compare(trial.subject.silence(1 - half), case)

    law.__doc__ = f"Require the recipe's result when the {silent} outputs zeros."
    return law


def hold_gradient(trial: Trial) -> None:
    """Require the gradients of x, and of every other input, to be the recipe's."""
    case = trial.subject.draw_case("ordinary numbers", batch=1, time=4)
    weight = trial.subject.draw_normal(*case.x.shape)

    def differentiate(run: Callable[[Case], Parts]) -> Parts:
        leaves = case.map(lambda _, t: t.clone().requires_grad_())
        parts = run(leaves.map(lambda _, t: t * 1)).values()
        total = torch.stack([(part * weight).sum() for part in parts]).sum()
        if not total.requires_grad:
            raise Broken(f"the new stream must have a gradient, but on {case} it has none", CUT)
        places = leaves.tensors()
        grads = torch.autograd.grad(total, [*places.values()], materialize_grads=True)
        return dict(zip(places, grads, strict=True))

    came, wanted = differentiate(trial.subject.run), differentiate(trial.subject.find_truth)
    if (name := _find_gap(came, wanted, 1e-3)) is not None:
        cause = CUT if trial.fits() else trial.cause
        raise Broken(describe(case, came[name], wanted[name], f", gradient of {name}"), cause)


def hold_inputs_kept(trial: Trial) -> None:
    """Require that x is not modified."""
    case = trial.subject.draw_case("ordinary numbers")
    x = case.x.clone()
    with torch.no_grad():
        trial.subject.run(replace(case, x=x))
    if not torch.equal(x, case.x):
        cause = "an in-place operation (+=, add_, mul_) on the stream or a view of it"
        raise Broken(f"a block must not change x, but on {case} x was overwritten", cause)


def hold_constants(trial: Trial) -> None:
    """Require the recipe's results for other depths and other blocks of the stack."""
    others = [*trial.asked.list_other_places(trial.subject)]
    if not others:
        raise Untested()
    for asked in others:
        other = Trial(asked, asked.make_subject())
        other.begin()
        about = f"depth {other.subject.depth}, block {other.subject.index} from 0"
        try:
            other.compare(other.subject, other.subject.draw_case(about))
        except Broken as broken:
            raise Broken(broken.message, CONSTANT if trial.fits() else trial.cause) from None


LAWS: dict[str, Callable[[Trial], None]] = {
    "runs": Trial.begin,
    "parameters": hold_parameters,
    "value": hold_value,
    "attention half": make_half_law(0),
    "feed-forward half": make_half_law(1),
    "gradient of x": hold_gradient,
    "inputs kept": hold_inputs_kept,
    "constants": hold_constants,
}


def _list_notes(trial: Trial) -> tuple[str, ...]:
    """Return notes on the comparison: the chosen block, or that no known cause fits."""
    notes, asked, subject = [], trial.asked, trial.subject
    if subject.row.first is not None and asked.index is None and asked.form in FUNCTIONS:
        equations = "; ".join(step.equation for step in subject.steps)
        notes.append(
            "the recipe treats the first block(s) in another way: this was held against block "
            f"{subject.index} (from 0), {equations}; name another one with index="
        )
    if trial.came and not trial.fits() and not trial.cause:
        notes.append("no cause that labkit knows fits the result")
    return tuple(notes)
