"""Where the norm sits: recipes as wrappers of a sublayer f, their equations side by side.

    post    x ← N(x + f(x))                       no final norm
    pre     x ← x + f(N(x))                       one more norm before the output

`RECIPES` maps a name to its equation, wrapper and source. A wrapper gets a way to make a norm
and a sublayer, and is itself a module from stream to stream.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from labkit.placements.residual import PostNorm, PreNorm

__all__ = ["RECIPES", "PostNorm", "PreNorm", "Recipe", "recipe"]


@dataclass(frozen=True)
class Recipe:
    """One way to place norms: its equation, the wrapper that is it, and where it comes from."""

    equation: str
    wrap: Callable[[Callable[[], nn.Module], nn.Module], nn.Module]
    final_norm: bool
    source: str


RECIPES: dict[str, Recipe] = {
    "post": Recipe("x ← N(x + f(x))", PostNorm, False, "Vaswani et al. 2017, arXiv 1706.03762"),
    "pre": Recipe("x ← x + f(N(x))", PreNorm, True, "Xiong et al. 2020, arXiv 2002.04745"),
}
ALIASES = {"post-norm": "post", "pre-norm": "pre"}


def recipe(name: str) -> Recipe:
    """Look a recipe up by its name or alias."""
    if (found := RECIPES.get(ALIASES.get(name, name))) is None:
        raise ValueError(
            f"unknown recipe {name!r}; choose one of {', '.join([*RECIPES, *ALIASES])}"
        )
    return found
