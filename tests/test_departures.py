"""Departures from a recipe: each has the stated difference and no other."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from each import each

from labkit.attention import Attention
from labkit.corpora import Text
from labkit.experiments.replicates import NotTogether, estimate_need
from labkit.experiments.run import Run
from labkit.model import DEPARTURES, Departure, ModelConfig
from labkit.norms.unit import unit
from labkit.probes.weights import lengths
from labkit.training import TrainConfig, loss_of, train

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


@each(differs=DEPARTURES)
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


def test_first_values():
    model = make(s_z=10.0, share=0.25)
    assert model.s_z().tolist() == pytest.approx([10.0] * 11)
    assert model.blocks[1].attention.share.tolist() == pytest.approx([0.25] * 16)
    stored = model.blocks[1].attention.alpha.weight.tolist()
    assert stored == pytest.approx([0.25] * 16), "stored at 1/sqrt(16), whatever the value"


def blind(recipe, **change):
    """Make a recipe twice with one seed: unchanged, and without attention."""
    return [make(differs, recipe=recipe, **change) for differs in (None, "no attention")]


BLIND = ("pre", "post", "hybrid", "qk", "sandwich", "admin", "resi-dual", "b2t", "dyt", "ngpt")


@each(recipe=BLIND)
def test_without_attention_logits_depend_on_their_own_token_alone(recipe):
    other = TOKENS.clone()
    other[:, :-1] = (other[:, :-1] + 1) % 11
    seeing, model = blind(recipe)
    for moment in ("at the start", "trained"):
        assert torch.equal(model(other)[:, -1], model(TOKENS)[:, -1]), moment
        # One token's logits are the same wherever it stands.
        same = torch.full((1, 6), 4)
        torch.testing.assert_close(model(same), model(same[:, :1]).expand(1, 6, 11))
        assert (seeing(other)[:, -1] - seeing(TOKENS)[:, -1]).abs().max() > 1e-4, moment
        learn(model)
        learn(seeing)


@each(recipe=BLIND)
def test_without_attention_its_weights_are_drawn_and_stay_and_all_others_learn(recipe):
    seeing, model = blind(recipe)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for name, value in seeing.state_dict().items():
        assert torch.equal(before[name], value), name
    batches = itertools.repeat((TOKENS, TOKENS.roll(-1, 1)))
    train(model, batches, TrainConfig(steps=3, lr=1e-2, weight_decay=0.1, clip=1.0), progress=False)
    for name, value in model.state_dict().items():
        if ".attention.sublayer." in name:
            if recipe == "ngpt":  # which makes lengths one after each step, drawn in float32
                torch.testing.assert_close(value, before[name], rtol=2e-7, atol=0)
            else:
                assert torch.equal(value, before[name]), name
        elif "feed_forward.sublayer" in name or name in ("embedding.weight", "output.weight"):
            assert not torch.equal(value, before[name]), name


def test_without_attention_every_kind_of_model_is_blind():
    twice = make("no attention", recipe="pre", kind="encoder-decoder")
    assert torch.equal(twice(TOKENS, TOKENS), twice(TOKENS, TOKENS.flip(0)))
    layers = [module for module in twice.modules() if isinstance(module, Attention)]
    assert len(layers) == 6, "two in each block of the decoder, one in the encoder's"
    assert not any(weight.requires_grad for layer in layers for weight in layer.parameters())
    seeing, encoder = blind("pre", kind="encoder")
    other = TOKENS.clone()
    other[:, -1] = (other[:, -1] + 1) % 11
    assert torch.equal(encoder(other)[:, 0], encoder(TOKENS)[:, 0])
    assert not torch.equal(seeing(other)[:, 0], seeing(TOKENS)[:, 0])


def test_without_attention_a_model_learns_what_one_symbol_tells():
    # Of a chain of order two, and so no more than counts of pairs know.
    dice = np.random.default_rng(0)
    table, symbols = dice.dirichlet([0.3] * 6, size=(6, 6)), [0, 1]
    for _ in range(50_000):
        symbols.append(dice.choice(6, p=table[symbols[-2], symbols[-1]]))
    tokens = torch.tensor(symbols[:-2]).unfold(0, 17, 16)

    def draw_batches():
        generator = torch.Generator().manual_seed(0)
        while True:
            rows = tokens[torch.randint(len(tokens), (32,), generator=generator)]
            yield rows[:, :-1], rows[:, 1:]

    torch.manual_seed(0)
    config = Departure(dim=16, depth=1, heads=2, vocab=6, context=16, differs="no attention")
    model = config.build()
    train(model, draw_batches(), TrainConfig(steps=150, lr=1e-2), progress=False)
    after = torch.zeros(6, 6, dtype=torch.float64)  # how often c follows b
    after.index_put_((tokens[:, :-1], tokens[:, 1:]), torch.tensor(1.0).double(), accumulate=True)
    least = torch.special.xlogy(after, after / after.sum(1, keepdim=True)).sum() / -after.sum()
    with torch.no_grad():
        loss = loss_of(model.eval(), tokens[:, :-1], tokens[:, 1:])
    assert loss.item() == pytest.approx(least.item(), abs=0.02)
    with pytest.raises(NotTogether, match="must have trainable parameters"):
        estimate_need(Run(config, Text(), TrainConfig()))


def test_a_given_bias_is_added_to_the_logits_and_not_trained():
    bias = tuple(0.5 * i for i in range(11))
    models = []
    for given in ((), bias):
        torch.manual_seed(0)
        models.append(
            Departure(recipe="post", dim=16, heads=2, vocab=11, depth=2, bias=given).build()
        )
    plain, told = models
    assert torch.allclose(told(TOKENS), plain(TOKENS) + torch.tensor(bias))
    assert [*dict(told.named_parameters())] == [*dict(plain.named_parameters())]


def test_deepnorm_takes_other_constants():
    deep = Departure(recipe="deepnorm", dim=16, heads=2, vocab=11, depth=8, hidden=24)
    models = []
    published = ((2 * 8) ** 0.25, (8 * 8) ** -0.25, 1.0)
    for change in ({}, {"init": "xavier", "constants": published}):
        torch.manual_seed(0)
        models.append(replace(deep, **change).build().double())
    assert torch.allclose(models[0](TOKENS), models[1](TOKENS), atol=1e-6)
    torch.manual_seed(0)
    turned = replace(deep, init="xavier", constants=(0.5, 4.0, 2.0)).build()
    torch.manual_seed(0)
    plain = replace(deep, init="xavier").build()
    block, same = turned.blocks[3], plain.blocks[3]
    assert block.attention.alpha == block.feed_forward.alpha == 0.5
    gains = {"q": 2, "k": 2, "v": 4, "out": 4}
    for name, gain in gains.items():
        one, other = (getattr(b.attention.sublayer, name).weight for b in (block, same))
        assert torch.allclose(one, gain * other)


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"constants": (1.0, 1.0, 1.0)}, "recipe 'deepnorm' with init 'xavier'"),
        ({"differs": "typo"}, "choose one of wrong axis"),
        ({"recipe": "pre", "s_z": 10.0}, "apply only to nGPT"),
        ({"recipe": "pre", "differs": "wrong axis"}, "every recipe accepts differs='no attention'"),
        (
            {"recipe": "pre", "differs": "no attention", "qk_clip": 1.0},
            "has none; leave out qk_clip",
        ),
        ({"share": 0.0}, "above 0"),
        ({"bias": (1.0,)}, "one number for each of the 11 tokens, got 1"),
    ],
)
def test_nonsense_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        replace(RIGHT, **wrong)


def test_a_run_of_it_survives_json():
    run = Run(replace(RIGHT, differs="wrong axis"), Text(), TrainConfig(steps=1))
    again = Run.from_dict(run.to_dict())
    assert again == run and isinstance(again.model, Departure) and again.key() == run.key()
