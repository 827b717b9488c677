"""Departures from nGPT: each differs as it says, and in nothing else."""

import itertools
from dataclasses import replace

import pytest
import torch

from labkit.context import Context
from labkit.corpora import Markov
from labkit.experiments.run import Run
from labkit.model import DEPARTURES, Departure, ModelConfig
from labkit.placements.sphere import unit
from labkit.probes import lengths
from labkit.training import TrainConfig, train

RIGHT = Departure(recipe="ngpt", dim=16, heads=2, vocab=11, depth=2, hidden=24)
TOKENS = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(7))


def make(differs=None, **change):
    torch.manual_seed(0)
    return replace(RIGHT, differs=differs, **change).build().double()


def learn(model, steps=3):
    batches = itertools.repeat((TOKENS, TOKENS.roll(-1, 1)))
    train(model, batches, TrainConfig(steps=steps, lr=1e-2), progress=False)
    return model


def off(model):
    return {path: (one - 1).abs().max().item() for path, one in lengths(model).items()}


def test_without_a_difference_it_is_the_recipe():
    torch.manual_seed(0)
    fields = {"recipe": "ngpt", "dim": 16, "heads": 2, "vocab": 11, "depth": 2, "hidden": 24}
    plain = ModelConfig(**fields).build().double()
    assert torch.equal(plain(TOKENS), make()(TOKENS))


@pytest.mark.parametrize("differs", DEPARTURES)
def test_each_difference_shows_after_a_few_steps(differs):
    # Rounding and storage show in training only; all of them within three steps.
    moved = (learn(make(differs))(TOKENS) - learn(make())(TOKENS)).abs().max()
    assert moved > 1e-6


def test_the_wrong_axis_is_wrong_where_a_matrix_writes():
    far = {
        path.split(".")[-1]
        for path, value in off(learn(make("wrong axis"))).items()
        if value > 1e-3
    }
    assert far == {"out", "down"}
    weight = learn(make("wrong axis")).blocks[0].feed_forward.sublayer.down.weight
    torch.testing.assert_close(weight.norm(dim=1), torch.ones(16).double())


def test_without_the_step_back_lengths_leave_one():
    assert max(off(make("never again")).values()) < 1e-6, "unit at the start"
    assert max(off(learn(make("never again"))).values()) > 1e-3


def test_the_steps_follow_their_equations():
    x = unit(torch.randn(5, 16).double())
    for differs, formula in {
        None: lambda x, b, a: unit(x + a * (b - x)),
        "wrong branch": lambda x, b, a: unit(b + a * (x - b)),
        "no outer norm": lambda x, b, a: x + a * (b - x),
    }.items():
        step = make(differs).blocks[0].feed_forward
        expected = formula(x, unit(step.sublayer(x)), 0.05)
        torch.testing.assert_close(step(x), expected, rtol=1e-12, atol=1e-12)


def test_only_an_early_gain_leaves_logits_to_distances():
    changed = {}
    for differs in (None, "early gain"):
        model = make(differs)
        layer = model.blocks[0].attention.sublayer
        with torch.no_grad():
            layer.s_qk.weight.mul_(torch.linspace(0.5, 2, 16))
        x, angles = unit(torch.randn(1, 4, 16).double()), model.angles
        at = [layer.project(x, Context(angles[i : i + 4]))[:2] for i in (0, 7)]
        near, far = (q @ k.transpose(-1, -2) for q, k in at)
        changed[differs] = (near - far).abs().max().item()
    assert changed["early gain"] < 1e-10 < 1e-2 < changed[None]


def test_first_values():
    model = make(s_z=10.0, share=0.25)
    assert model.s_z().tolist() == pytest.approx([10.0] * 11)
    assert model.blocks[1].attention.share.tolist() == pytest.approx([0.25] * 16)
    stored = model.blocks[1].attention.alpha.weight.tolist()
    assert stored == pytest.approx([0.25] * 16), "stored at 1/sqrt(16), whatever the value"


def test_plain_storage_keeps_the_values_and_drops_the_factor():
    model = make("plain storage", s_z=10.0)
    torch.testing.assert_close(model(TOKENS), make(s_z=10.0)(TOKENS), rtol=1e-6, atol=1e-6)
    assert model.s_z.factor == 1.0 and model.s_z.weight.tolist() == pytest.approx([10.0] * 11)


@pytest.mark.parametrize("recipe", ["ngpt", "pre"])
def test_rounded_weights_are_bfloat16_after_every_step(recipe):
    model = learn(replace(RIGHT, recipe=recipe, differs="rounded weights").build())
    for path, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            assert torch.equal(module.weight, module.weight.bfloat16().float()), path


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"differs": "typo"}, "choose one of wrong axis"),
        ({"recipe": "pre", "s_z": 10.0}, "are about nGPT"),
        ({"recipe": "pre", "differs": "early gain"}, "any recipe can have 'rounded weights'"),
        ({"share": 0.0}, "above 0"),
    ],
)
def test_nonsense_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(RIGHT, **wrong)


def test_a_run_of_it_survives_json():
    run = Run(replace(RIGHT, differs="wrong axis"), Markov(), TrainConfig(steps=1))
    again = Run.from_dict(run.to_dict())
    assert again == run and isinstance(again.model, Departure) and again.key() == run.key()
