"""`labkit show`: print a recipe or a norm."""

from typing import Annotated

from typer import Argument, Option, Typer

app = Typer()


@app.command("show")
def show_recipe(
    recipe: Annotated[
        str | None,
        Argument(help="its name, pre+layer, pre+my_norm.py, at:q,k; without one, all of them"),
    ] = None,
    dim: int = 64,
    depth: int = 4,
    heads: int = 4,
    context: int = 64,
    norm: Annotated[
        str, Option(help="the norm, or a file of your own, where the recipe leaves it open")
    ] = "rms",
    kind: Annotated[str, Option(help="decoder, encoder or encoder-decoder")] = "decoder",
) -> None:
    """Print a recipe or a norm: equations, parameters, costs, source."""
    from labkit.describe import describe_norm, describe_recipe  # needs torch
    from labkit.experiments.own import own_norm
    from labkit.model import ModelConfig
    from labkit.norms import NORMS
    from labkit.placements import ALIASES, RECIPES
    from labkit.placements.slots import AT
    from labkit.system.unknown import explain_unknown

    if recipe is None:
        list_recipes()
        return
    # As the leaderboard writes it: pre+layer, pre+my_norm.py, my_norm.py.
    name, _, other = recipe.partition("+")
    built = [name] if name.startswith(AT) else []  # a block of one's own
    norm, recipes = other or norm, [*RECIPES, *ALIASES, *built]
    if name in recipes:
        key = own_norm(norm) if norm.endswith(".py") else norm
        config = ModelConfig(name, key, dim, depth, heads, context=context, kind=kind)
        print(describe_recipe(name, config))
    elif other:
        raise ValueError(explain_unknown("recipe", name, recipes))
    elif name.endswith(".py"):
        print(describe_norm(own_norm(name), dim, file=name))
    elif name in NORMS:
        print(describe_norm(name, dim))
    else:
        raise ValueError(explain_unknown("recipe or norm", name, [*recipes, *NORMS]))


def list_recipes() -> None:
    """Print every recipe in a line: its two equations and its source."""
    from labkit.placements import RECIPES

    wide = max(map(len, RECIPES))
    for name, found in RECIPES.items():
        first, second = found.equations
        print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
