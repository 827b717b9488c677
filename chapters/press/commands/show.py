"""`labkit show`: print a recipe, a norm, a stored run, or a benchmark of the kernels."""

import re
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option, Typer

from press.commands.runs import show_run

app = Typer()


@app.command("show")
def show_named(
    name: Annotated[
        str | None,
        Argument(help="pre, pre+layer, pre+my_norm.py, at:q,k, rms, a run's key, FILE.json"),
    ] = None,
    dim: int = 64,
    depth: int = 4,
    heads: int = 4,
    context: int = 64,
    norm: Annotated[
        str, Option(help="the norm, or a file with your norm, if the recipe does not fix it")
    ] = "rms",
    kind: Annotated[str, Option(help="decoder, encoder or encoder-decoder")] = "decoder",
) -> None:
    """Print a recipe, a norm, a stored run, or a benchmark; without a name, list the recipes.

    Of a recipe or a norm it prints equations, parameters, costs and source, at the sizes that the
    options name; of a run, named by the beginning of its key, its config, losses, probes and
    provenance. A benchmark of the kernels is a file of data/bench: its tables are printed, and
    written next to it with their figure.
    """
    if name is None:
        list_recipes()
    elif name.endswith(".json"):
        from labkit.plots.kernels import publish_report

        print(publish_report(Path(name)))
    elif re.fullmatch("[0-9a-fA-F]+", name):
        show_run(name)
    else:
        show_recipe(name, norm, dim=dim, depth=depth, heads=heads, context=context, kind=kind)


def show_recipe(named: str, norm: str, **sizes: Any) -> None:
    """Print a recipe or a norm, named as the leaderboard does: pre+layer, pre+my_norm.py."""
    from labkit.describe import describe_norm, describe_recipe  # needs torch
    from labkit.experiments.own import own_norm
    from labkit.leaderboard.entries import split_entry
    from labkit.model import ModelConfig
    from labkit.norms import NORMS
    from labkit.placements import ALIASES, RECIPES
    from labkit.placements.slots import AT
    from labkit.system.unknown import explain_unknown

    name, other = split_entry(named)
    built = [name] if name.startswith(AT) else []  # a block of one's own
    norm, recipes = other or norm, [*RECIPES, *ALIASES, *built]
    if name in recipes:
        key = own_norm(norm) if norm.endswith(".py") else norm
        print(describe_recipe(name, ModelConfig(name, key, **sizes)))
    elif other:
        raise ValueError(explain_unknown("recipe", name, recipes))
    elif name.endswith(".py"):
        print(describe_norm(own_norm(name), sizes["dim"], file=name))
    elif name in NORMS:
        print(describe_norm(name, sizes["dim"]))
    else:
        raise ValueError(explain_unknown("recipe or norm", name, [*recipes, *NORMS]))


def list_recipes() -> None:
    """Print every recipe on one line: its two equations and its source."""
    from labkit.placements import RECIPES

    wide = max(map(len, RECIPES))
    for name, found in RECIPES.items():
        first, second = found.equations
        print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
