"""Initial values of learned parameters; constants that a forward pass measures."""

import itertools
import math

import pytest
import torch
from each import each
from recipe_equations import EQUATIONS
from recipe_reference import Reference
from torch import Tensor

from labkit.context import Context
from labkit.model import ModelConfig, Transformer
from labkit.placements import RECIPES
from labkit.placements.scaled import Admin
from labkit.training import TrainConfig, train

TOKENS = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(7))
SOURCE = torch.randint(11, (3, 5), generator=torch.Generator().manual_seed(8))
DIM, DEPTH = 16, 4


def make(recipe: str, kind: str = "decoder", **change) -> Transformer:
    wanted = {"dim": DIM, "heads": 2, "vocab": 11, "depth": DEPTH, "hidden": 24}
    return Transformer(ModelConfig(recipe=recipe, kind=kind, **{**wanted, **change}))


# Where a vector starts, by the end of its name: the first that fits. test_recipes.py sees that each
# recipe has those of its equations and no other.
STARTS = {
    "attention.alpha.weight": DIM**-0.5,  # nGPT stores 0.05 and 1 at the size 1/sqrt(d)
    "feed_forward.alpha.weight": DIM**-0.5,
    "s_qk.weight": DIM**-0.5,
    "s_z.weight": DIM**-0.5,
    "s_uv.weight": 1.0,
    "attention.bias": -2.0,  # the gates of a highway
    "feed_forward.bias": -2.0,
    "embedding_scale": DIM**0.5,
    "feed_forward.scale": 1.0,
    ".omega": 1.0,
    ".head_gain": 1.0,
    ".alpha": 1.0,  # DyT's and Derf's, below
    ".shift": 0.0,
    ".bias": 0.0,
    ".weight": 1.0,
}


@each(name=RECIPES)
def test_every_vector_of_a_recipe_starts_where_it_should(name):
    for path, parameter in make(name).named_parameters():
        if parameter.ndim < 2:
            start = next(start for end, start in STARTS.items() if path.endswith(end))
            if RECIPES[name].norm == "rms-gemma":  # its gain is 1 + weight
                start = 0.0
            # one float32 value, from the same formula
            assert parameter.flatten().tolist() == pytest.approx([start] * parameter.numel()), path


@each(
    made=[
        ("dyt", 64, (1.0, 1.0)),
        ("dyt", 1024, (1.0, 1.0)),
        ("dyt", 2048, (1.0, 0.5)),
        ("dyt", 4096, (0.8, 0.2)),
        ("dyt", 8192, (0.2, 0.05)),
        ("derf", 64, (1.0, 1.0)),
        ("derf", 4096, (1.0, 1.0)),
    ]
)
def test_the_slopes_start_by_width_and_apart_for_attention(made):
    recipe, dim, first = made
    assert ModelConfig(recipe=recipe, dim=dim).alphas == first


@pytest.mark.parametrize("recipe", ["dyt", "derf"])
def test_each_squash_has_a_slope_of_its_own(recipe):
    model = make(recipe, "encoder-decoder", depth=2, alpha=(0.3, 0.7))
    slopes = {n: p.item() for n, p in model.named_parameters() if n.endswith(".alpha")}
    # attention, cross-attention and feed-forward of two blocks, two blocks, two ends
    assert len(slopes) == 2 * 3 + 2 * 2 + 2
    for path, slope in slopes.items():
        assert slope == pytest.approx(0.3 if "attention" in path else 0.7), path
    shifts = [p for n, p in model.named_parameters() if n.endswith((".shift", ".bias"))]
    assert not any(shift.any() for shift in shifts)


def test_gemma_2_bounds_attention_and_output():
    model = make("gemma2").double()
    with torch.no_grad():
        model.output.weight.mul_(1e3)
        for name, parameter in model.named_parameters():
            if name.endswith((".q.weight", ".k.weight")):
                parameter.mul_(30)  # logits of several hundred, far above the bound of 50
    logits, expected = model(TOKENS), Reference(EQUATIONS["gemma2"], model).logits(TOKENS)
    torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    assert 29 < logits.abs().max() <= 30


def writes(model: Transformer, *inputs: Tensor) -> dict[str, list[float]]:
    """Measure Var f of every sublayer in one pass with ω = 1, step by step, by the equation."""
    found: dict[str, list[float]] = {}
    memory = None
    for stack, tokens in zip(("encoder", "blocks")[-len(inputs) :], inputs[::-1], strict=True):
        x = model.embedding.weight[tokens] * DIM**0.5
        context = Context(model.get_buffer("angles")[: tokens.shape[1]], memory=memory)
        for step in (m for m in model.get_submodule(stack).modules() if isinstance(m, Admin)):
            f = step.sublayer(x, context)
            found.setdefault(stack, []).append(((f - f.mean()) ** 2).mean().item())
            x = step.norm(x + f)
        memory = x
    return found


@pytest.mark.parametrize("kind", ["decoder", "encoder", "encoder-decoder"])
def test_admin_weighs_the_skip_by_what_earlier_sublayers_wrote(kind):
    model = make("admin", kind).double()
    inputs = (TOKENS, SOURCE) if kind == "encoder-decoder" else (TOKENS,)
    expected = {
        stack: [math.sqrt(1 + sum(variances[:i])) for i in range(len(variances))]
        for stack, variances in writes(model, *inputs).items()
    }
    for _ in range(2):  # a second profile starts from ω = 1 again
        model.before_training(*inputs)
        for stack, omegas in expected.items():
            steps = [m for m in model.get_submodule(stack).modules() if isinstance(m, Admin)]
            for step, omega in zip(steps, omegas, strict=True):
                # float64; the same sums in another order
                assert step.omega.tolist() == pytest.approx([omega] * DIM, rel=1e-9)
    assert expected["blocks"][0] == 1 < expected["blocks"][1]


def test_training_profiles_admin_on_its_first_batch():
    model = make("admin")
    profiled = make("admin")
    profiled.load_state_dict(model.state_dict())
    profiled.before_training(TOKENS)
    # a step so small that it moves no float32 near 1
    train(model, itertools.repeat((TOKENS, TOKENS)), TrainConfig(steps=1, lr=1e-12), progress=False)
    for (name, one), two in zip(model.named_parameters(), profiled.parameters(), strict=True):
        torch.testing.assert_close(one, two, msg=lambda m, n=name: f"{n}: {m}")
