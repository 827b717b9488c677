"""`labkit show`: print a recipe."""

import argparse


def add(commands) -> None:
    """Describe the command."""
    show = commands.add_parser("show", help="print a recipe: equations, parameters, costs, source")
    show.add_argument("recipe", nargs="?", help="its name; without one, all are listed")
    for name, value in (("dim", 64), ("depth", 4), ("heads", 4), ("context", 64)):
        show.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    show.add_argument("--norm", default="rms", help="the norm, where the recipe leaves it open")
    show.add_argument("--kind", default="decoder", help="decoder, encoder or encoder-decoder")
    show.set_defaults(run=_show)


def _show(args: argparse.Namespace) -> int:
    from labkit.describe import describe  # needs torch
    from labkit.model import ModelConfig
    from labkit.placements import RECIPES

    if args.recipe is None:
        wide = max(map(len, RECIPES))
        for name, found in RECIPES.items():
            first, second = found.equations
            print(f"{name:<{wide}}  {first:<32}  {second:<32}  {found.source}")
        return 0
    config = ModelConfig(
        args.recipe,
        args.norm,
        args.dim,
        args.depth,
        args.heads,
        context=args.context,
        kind=args.kind,
    )
    print(describe(args.recipe, config))
    return 0
