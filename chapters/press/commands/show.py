"""`labkit show`: print a recipe or a norm."""

from typing import Annotated

from typer import Argument, Option, Typer

app = Typer()


@app.command("show")
def show_recipe(
    recipe: Annotated[
        str | None,
        Argument(help="its name, pre+layer, or at:q,k; without one, all are listed"),
    ] = None,
    dim: int = 64,
    depth: int = 4,
    heads: int = 4,
    context: int = 64,
    norm: Annotated[str, Option(help="the norm, where the recipe leaves it open")] = "rms",
    kind: Annotated[str, Option(help="decoder, encoder or encoder-decoder")] = "decoder",
) -> None:
    """Print a recipe or a norm: equations, parameters, costs, source."""
    from labkit.describe import describe_norm, describe_recipe  # needs torch
    from labkit.model import ModelConfig
    from labkit.norms import NORMS
    from labkit.placements import ALIASES, RECIPES
    from labkit.placements.slots import AT
    from labkit.system.unknown import explain_unknown

    if recipe is not None:
        recipe, _, other = recipe.partition("+")  # as the leaderboard writes it: pre+layer
        norm = other or norm
        recipes = [*RECIPES, *ALIASES, *([recipe] if recipe.startswith(AT) else [])]
        if recipe not in recipes and other:
            raise ValueError(explain_unknown("recipe", recipe, recipes))
        if recipe not in recipes and recipe in NORMS:
            print(describe_norm(recipe, dim))
            return
        if recipe not in recipes:
            raise ValueError(explain_unknown("recipe or norm", recipe, [*recipes, *NORMS]))
        config = ModelConfig(recipe, norm, dim, depth, heads, context=context, kind=kind)
        print(describe_recipe(recipe, config))
        return
    wide = max(map(len, RECIPES))
    for name, found in RECIPES.items():
        first, second = found.equations
        print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
