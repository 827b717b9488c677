"""What takes part in the leaderboard: a recipe, and perhaps another norm in it.

    pre               a key of RECIPES, with the contest's norm
    pre+layer         the recipe with a key of NORMS
    pre+my_norm.py    the recipe with a reader's own norm, from a file
    my_norm.py        the same, in Pre-Norm

A recipe brings what its paper gives it: its initialization, and a warm-up of its own where that is
part of the method.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.experiments.own import own_norm, strip_hash
from labkit.norms import NORMS
from labkit.placements import ALIASES, recipe
from labkit.unknown import explain_unknown

WARMUP = 0.1  # share of the steps
# Warm-up is part of these methods: Post-Norm lives by it (chapter 02), nGPT has none (chapter 08).
WARMUPS = {"post": 0.3, "ngpt": 0.0}


@dataclass(frozen=True)
class Entry:
    """One row: a name to show, and the fields of the model that it sets."""

    name: str
    model: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = WARMUP


def entry(text: str) -> Entry:
    """Read RECIPE, RECIPE+NORM, or a norm's file.

    Raises:
        ValueError: an unknown recipe or norm, or a file that holds no norm; the message lists
            what there is.
    """
    first, _, norm = text.strip().partition("+")
    if first.endswith(".py"):
        first, norm = "pre", text.strip()
    base_recipe = recipe(first)
    name, model = ALIASES.get(first, first), {"recipe": ALIASES.get(first, first)}
    if norm:
        if base_recipe.norm is not None:
            raise ValueError(
                f"a norm goes with a recipe that leaves it open, but {first!r} is made for "
                f"{base_recipe.norm!r}; put {norm!r} into another, such as pre+{norm}"
            )
        key = own_norm(norm) if norm.endswith(".py") else norm
        if key not in NORMS:
            raise ValueError(
                f"{explain_unknown('norm', norm, NORMS)}, or, as in pre+my_norm.py, a file of your "
                "own"
            )
        name, model = f"{name}+{strip_hash(key)}", {**model, "norm": key}
    return Entry(name, model, WARMUPS.get(ALIASES.get(first, first), WARMUP))


def entries(texts: list[str] | tuple[str, ...]) -> list[Entry]:
    """Read several; ValueError where two have one name."""
    parsed = [entry(text) for text in texts]
    names = [each.name for each in parsed]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"every entry has a name of its own, but {twice[0]!r} comes twice; leave one out, or "
            "give your norm another name"
        )
    return parsed
