"""Responses to one step, against the step taken by hand and against the derivative."""

import pytest
import torch

from labkit import ModelConfig, TrainConfig, Transformer, train
from labkit.corpora import Text
from labkit.probes import final_stream, make_probe, step_response
from labkit.training import loss_of

CORPUS = Text(batch=4, time=16, held_out=1024).load()
BATCH = CORPUS.held_out["validation"][0]
CONFIG = ModelConfig("deepnorm", "layer", dim=16, depth=2, heads=2, context=16)


def by_hand(model, move, everything, rate=1e-6):
    """Take the step on the model itself and read how far the stream moved, per unit of rate."""
    model = model.double()
    loss_of(model, *BATCH).backward()
    before = final_stream(model, BATCH[0])
    with torch.no_grad():
        for parameter in model.blocks.parameters():
            if parameter.ndim == 2 or everything:
                parameter -= rate * move(parameter.grad)
    return ((final_stream(model, BATCH[0]) - before) / rate).square().sum(-1).mean().sqrt().item()


@pytest.mark.parametrize(
    ("name", "move", "everything"),
    [
        ("sgd", lambda g: g, False),
        ("sgd-all", lambda g: g, True),
        ("adam", torch.sign, False),
    ],
)
def test_a_response_is_that_of_the_step_taken_by_hand(name, move, everything):
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    found = step_response(model, BATCH)[name]
    assert found == pytest.approx(by_hand(model, move, everything), rel=1e-9)


def test_a_response_does_not_depend_on_the_rate_and_leaves_the_model_alone():
    model = Transformer(CONFIG)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    small, large = (step_response(model, BATCH, rate=rate) for rate in (1e-7, 1e-5))
    # F is smooth: the second-order term is a share of about the rate times the response
    assert small == pytest.approx(large, rel=2e-2)
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    with pytest.raises(ValueError, match="choose from sgd, sgd-all, adam, random"):
        step_response(model, BATCH, ["sign"])


def test_response_sees_what_a_recipe_sets_before_its_first_step():
    seen = {}
    for recipe in ("admin", "post"):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(recipe, "layer", dim=16, depth=2, heads=2, context=16))
        probe = make_probe("step-response", CORPUS)
        train(model, CORPUS.train(0), TrainConfig(steps=1), [probe], progress=False)
        seen[recipe] = probe.result(model)["sgd"]
    # with ω = 1 they are one model
    assert abs(seen["admin"] / seen["post"] - 1) > 0.01


def test_drift_starts_small_and_is_the_distance_from_the_start():
    torch.manual_seed(0)
    model, probe = Transformer(CONFIG), make_probe("drift", CORPUS)
    start = final_stream(model, BATCH[0])
    train(model, CORPUS.train(0), TrainConfig(steps=2, lr=1e-3), [probe], progress=False)
    assert list(probe.result(model)) == ["1"]
    torch.manual_seed(0)
    again = Transformer(CONFIG)
    train(again, CORPUS.train(0), TrainConfig(steps=1, lr=1e-3), progress=False)
    moved = (final_stream(again, BATCH[0]) - start).norm() / start.norm()
    assert probe.result(model)["1"] == pytest.approx(moved.item(), rel=1e-4)
