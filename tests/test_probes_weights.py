"""Probes of trained weights: condition numbers, lengths, nGPT's scales, the cost of a step."""

import pytest
import torch

from labkit.corpora import Markov
from labkit.model import ModelConfig, Transformer
from labkit.probes import (
    PROBES,
    compute_condition,
    compute_conditions,
    lengths,
    make_probe,
    measure_weights,
    sphere_scales,
)
from labkit.training import TrainConfig, train

CORPUS = Markov(batch=2, time=8, symbols=11).load()
BATCH = CORPUS.held_out["test"][0]
SIZES = {"dim": 16, "heads": 2, "vocab": 11, "depth": 2, "hidden": 24, "context": 8}


def make(recipe="ngpt"):
    torch.manual_seed(0)
    return Transformer(ModelConfig(recipe=recipe, **SIZES))


def test_the_condition_of_known_matrices():
    turn = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64)).Q
    assert compute_condition(turn) == pytest.approx(1, abs=1e-12)
    assert compute_condition(turn @ torch.diag(torch.arange(1.0, 7.0).double())) == pytest.approx(6)
    assert compute_condition(torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]])) == pytest.approx(3)
    assert compute_condition(torch.ones(2, 2).double()) > 1e15


def test_conditions_come_by_kind_and_block():
    found = compute_conditions(make())
    assert set(found) == {"q", "k", "v", "out", "gate", "up", "down"}
    assert all(len(values) == 2 for values in found.values())
    model = make()
    weight = model.blocks[1].attention.sublayer.k.weight
    assert found["k"][1] == pytest.approx(compute_condition(weight))


def test_lengths_run_along_the_streams_axis():
    model = make("pre")
    found = lengths(model)
    down = model.blocks[0].feed_forward.sublayer.down.weight  # (dim, hidden)
    assert found["blocks.0.feed_forward.sublayer.down"].shape == (24,)
    torch.testing.assert_close(
        found["blocks.0.feed_forward.sublayer.down"], down.double().square().sum(0).sqrt()
    )
    assert found["embedding"].shape == found["output"].shape == (11,)


def test_weights_of_ngpt_have_length_one_and_others_scatter():
    on, off = measure_weights(make(), BATCH), measure_weights(make("pre"), BATCH)
    assert on["off"] < 1e-6 and on["spread"]["blocks"] < 1e-6
    assert off["off"] > 0.1 and off["spread"]["embedding"] > 0.05
    assert on["embedding"] == sorted(on["embedding"]) and len(on["output"]) == 11


def test_scales_start_at_their_values_and_other_recipes_have_none():
    found = sphere_scales(make(), BATCH)
    assert found["attention"] == found["feed_forward"] == pytest.approx([0.05, 0.05])
    assert found["s_qk"] == pytest.approx([1, 1]) and found["s_z"] == pytest.approx(1)
    assert sphere_scales(make("pre"), BATCH) == {}


def test_pace_times_both_and_touches_neither_the_model_nor_random_numbers():
    model = make()
    before = {name: p.clone() for name, p in model.state_dict().items()}
    torch.manual_seed(3)
    state = torch.get_rng_state()
    probe = make_probe("pace", CORPUS)
    probe.rounds, probe.steps = 3, 2
    ratios = probe.result(model)["ratios"]
    assert len(ratios) == 3 and all(ratio > 0 for ratio in ratios)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, before[name]) for name, p in model.state_dict().items())
    with pytest.raises(TypeError, match="needs a Transformer"):
        probe.result(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("name", ["weights", "sphere-scales"])
def test_a_run_may_name_them(name):
    assert name in PROBES
    observer = make_probe(name, CORPUS)
    model = make()
    record = train(model, CORPUS.train(0), TrainConfig(steps=2), [observer], progress=False)
    assert type(record).from_json(record.to_json()).probes[name] == record.probes[name]
