"""`labkit show`: print a recipe."""

from typing import Annotated

from typer import Argument, Option, Typer

app = Typer()


@app.command("show")
def show_recipe(
    recipe: Annotated[str | None, Argument(help="its name; without one, all are listed")] = None,
    dim: int = 64,
    depth: int = 4,
    heads: int = 4,
    context: int = 64,
    norm: Annotated[str, Option(help="the norm, where the recipe leaves it open")] = "rms",
    kind: Annotated[str, Option(help="decoder, encoder or encoder-decoder")] = "decoder",
) -> None:
    """Print a recipe: equations, parameters, costs, source."""
    from labkit.describe import describe  # needs torch
    from labkit.model import ModelConfig
    from labkit.placements import RECIPES

    if recipe is not None:
        config = ModelConfig(recipe, norm, dim, depth, heads, context=context, kind=kind)
        print(describe(recipe, config))
        return
    wide = max(map(len, RECIPES))
    for name, found in RECIPES.items():
        first, second = found.equations
        print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
