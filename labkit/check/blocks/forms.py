"""Recognize what was handed in, and make what is held against the laws."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from labkit.check.blocks.call import bind, parameters, plain, role_of
from labkit.check.blocks.exam import Exam
from labkit.check.blocks.module import ModuleExam
from labkit.check.blocks.neutral import default_config
from labkit.check.blocks.steps import StepsExam, arguments
from labkit.check.case import Broken, told
from labkit.model.config import ModelConfig

_PLACES = {"depth", "sublayers", "index", "number", "sublayer_index", "place"}


@dataclass(frozen=True)
class Forms:
    """What was handed in, and how it is to be checked."""

    given: Any
    recipe: str
    config: ModelConfig | None
    index: int | None
    part: str | None
    seed: int

    @property
    def settled(self) -> ModelConfig:
        """Return the config, or the small one that stands for it."""
        return default_config(self.recipe) if self.config is None else self._named(self.config)

    def _named(self, config: ModelConfig) -> ModelConfig:
        return config if config.recipe == self.recipe else replace(config, recipe=self.recipe)

    @property
    def form(self) -> str:
        """Name its form: module, class (or maker), step, wrapper, whole."""
        if isinstance(self.given, nn.Module):
            return "module"
        listed = [p for p in parameters(self.given) or [] if plain(p)]
        names = [p.name for p in listed]
        roles = [role_of(n, {"make_norm", "config", "attention", "feed_forward", "sublayer",
                             "norm", "norm_out"}) for n in names]  # fmt: skip
        if isinstance(self.given, type):
            return "wrapper" if {"make_norm", "sublayer"} & set(roles) else "class"
        required = [p for p in listed if p.default is p.empty]
        if ("config" in roles[:1] and names[0] not in ("c", "h")) or len(required) <= 1:
            return "class"
        if roles[:1] == ["make_norm"]:
            return "wrapper"
        if "attention" in roles[1:] and "feed_forward" in roles[1:]:
            return "whole"
        if roles[1] == "sublayer" or (len(roles) > 2 and roles[2] in ("norm", "norm_out")):
            return "step"
        if roles[0] is None and role_of(names[0], {"dim"}) and role_of(names[1], {"heads"}):
            return "class"
        return self._guess(len(required))

    def _guess(self, count: int) -> str:
        """Distinguish a step from a wrapper by calling it, and from a whole block by counting."""
        if count == 2:
            try:
                made = self.given(lambda *a, **k: nn.Identity(), nn.Identity())
            except Exception:
                return "step"
            return "wrapper" if isinstance(made, nn.Module) or callable(made) else "step"
        from labkit.check.blocks.halves import HALVES

        norms = [len(half.norms) for half in HALVES[self.recipe]]
        return (
            "whole" if count == 3 + sum(norms) and count not in (2 + n for n in norms) else "step"
        )


def make(forms: Forms, config: ModelConfig, index: int | None) -> nn.Module:
    """Make a module from a class or a maker, from a config or from sizes by name."""
    place = 0 if index is None else index
    known: dict[str, Any] = {
        "config": config, "dim": config.dim, "heads": config.heads, "hidden": config.hidden_dim,
        "kv_heads": config.kv_heads or config.heads, "depth": config.depth, "dropout": 0.0,
        "head_dim": config.dim // config.heads, "sublayers": 2 * config.depth,
        "index": place, "number": place + 1, "causal": config.kind != "encoder",
    }  # fmt: skip
    try:
        args, kwargs, _ = bind(forms.given, known, ("config", "dim", "heads", "hidden"))
        listed = [p for p in parameters(forms.given) or [] if plain(p)]
        if listed and not any(role_of(p.name, known) for p in listed):
            made = forms.given(config)
        else:
            made = forms.given(*args, **kwargs)
    except Exception as error:
        raise Broken(f"making the block raised {told(error)}") from error
    if not isinstance(made, nn.Module):
        raise Broken(f"it made a {type(made).__name__}, where an nn.Module is wanted")
    return made


def exams(
    forms: Forms, config: ModelConfig | None = None, index: int | None = None, tries: int = 3000
) -> Exam:
    """Make the exam, for the config and block that were named or for others."""
    form = forms.form
    index = forms.index if index is None else index
    if form == "module":
        named = None if forms.config is None else forms.settled
        return ModuleExam(forms.given, forms.recipe, config or named, index, forms.seed, tries)
    settled = forms.settled if config is None else config
    if form == "class":
        takes = arguments(forms.given) & {"index", "number"}
        place = index if index is not None else 0 if takes else None
        module = make(forms, settled, place)
        named = settled if forms.config is not None or "config" in arguments(forms.given) else None
        exam = ModuleExam(module, forms.recipe, named, place, forms.seed, tries, settled.depth)
        exam.is_class = True
        return exam
    if config is None and forms.config is None:
        settled = replace(settled, depth=6)
    return StepsExam(forms.given, form, forms.recipe, settled, index, forms.part, forms.seed, tries)


def takes_place(given: Callable[..., Any]) -> set[str]:
    """Return which of depth, index … a callable takes."""
    return arguments(given) & (_PLACES | {"config", "alpha"})
