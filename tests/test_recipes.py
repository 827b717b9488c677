"""Every recipe against its equations in float64, and its printed equation against its code."""

from unicodedata import normalize

import pytest
import torch
from each import each
from recipe_equations import EQUATIONS
from recipe_reference import Reference
from torch import nn

from labkit.context import Context
from labkit.model import ModelConfig, Transformer
from labkit.norms.unit import unit
from labkit.placements import RECIPES, Place
from labkit.placements.slots import OutputPostNorm, PrePostNorm, SandwichPostNorm

TOKENS = torch.randint(11, (2, 6), generator=torch.Generator().manual_seed(7))
SOURCE = torch.randint(11, (2, 5), generator=torch.Generator().manual_seed(8))
# Decoders of 5 blocks and encoders of 8: Mix-LN begins with 1 and with 2 Post-Norm blocks.
KINDS = {
    "decoder": {"depth": 5, "kv_heads": 2},
    "encoder": {"depth": 8, "activation": "gelu", "norm": "layer"},
    "encoder-decoder": {"depth": 4, "encoder_depth": 5, "norm": "layer", "norm_eps": 1e-3},
}


def rough(model: nn.Module) -> nn.Module:
    """Perturb every gain, shift and factor; sharpen attention."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
            elif name.endswith(("q.weight", "k.weight")):
                parameter.mul_(3)
    return model


def make(recipe: str, kind: str = "decoder", **change) -> Transformer:
    wanted = {"recipe": recipe, "kind": kind, "dim": 16, "heads": 4, "vocab": 11, **KINDS[kind]}
    if RECIPES[recipe].sphere:
        wanted |= {"kv_heads": None, "activation": "swiglu"}
    if RECIPES[recipe].norm in ("dyt", "derf"):
        wanted |= {"norm_eps": None}
    return Transformer(ModelConfig(**{**wanted, **change}))


def test_every_recipe_has_an_equation():
    assert set(EQUATIONS) == set(RECIPES)


def kinds(name: str) -> list[str]:
    """List the stacks of a recipe; nGPT has one: tests/test_model_config.py sees it refuse two."""
    return [kind for kind in KINDS if not (RECIPES[name].sphere and "-" in kind)]


@pytest.mark.parametrize("name", RECIPES)
@each(kind=kinds)
def test_a_recipe_is_its_equations(name, kind):
    model = rough(make(name, kind).double())
    inputs = (TOKENS, SOURCE) if kind == "encoder-decoder" else (TOKENS,)
    actual, expected = model(*inputs), Reference(EQUATIONS[name], model).logits(*inputs)
    # float64; sums in another order, and up to sixteen sublayers that pass the rounding on
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9 * actual.abs().max().item())
    weights = torch.randn_like(actual)
    slopes = [
        torch.autograd.grad((weights * y).sum(), list(model.parameters()))
        for y in (actual, expected)
    ]
    for (parameter, _), mine, theirs in zip(model.named_parameters(), *slopes, strict=True):
        scale = theirs.abs().max().item()
        assert scale > 0, parameter
        torch.testing.assert_close(
            mine, theirs, rtol=1e-7, atol=1e-9 * scale, msg=lambda m, p=parameter: f"{p}: {m}"
        )


STEPS = sorted(
    {
        step
        for recipe in RECIPES.values()
        for placement in (recipe.block, recipe.first)
        if placement is not None
        for step in (placement.attention, placement.feed_forward)
    }
    | {PrePostNorm, OutputPostNorm, SandwichPostNorm},
    key=lambda step: step.__name__,
)


@each(kind=STEPS)
def test_the_equation_that_is_shown_is_the_one_that_runs(kind):
    place = Place("feed-forward", block=2, decoder=4, dim=8)
    step = rough(kind(lambda: nn.LayerNorm(8), nn.Linear(8, 8), place).double())
    x, entry = torch.randn(2, 3, 5, 8, dtype=torch.float64)
    letters = dict(zip("NML", (getattr(step, name) for name in step.norms), strict=False))
    # Python reads a name in its compatible form: ℓ is l
    letters |= {normalize("NFKC", s): getattr(step, name) for s, name in step.symbols.items()}
    letters |= {"x": x, "e": entry, "f": step.sublayer, "unit": unit, "relu": torch.relu}
    context = Context(entry=entry, total=entry)
    # sublayers take the context as their second argument; a linear map does not
    step.sublayer.forward = lambda x, context=None, f=step.sublayer: nn.functional.linear(
        x, f.weight, f.bias
    )
    # the same operations on the same numbers
    shown = eval(step.equation, letters)
    torch.testing.assert_close(step(x, context), shown, rtol=1e-12, atol=1e-12)
