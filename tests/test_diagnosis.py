"""diagnose finds the planted problems, reports no others, and says what was not measured."""

import pytest
import torch
from torch import nn

from labkit import ModelConfig, TrainConfig, train
from labkit.corpora import Text
from labkit.norms import BatchNorm
from labkit.probes.diagnosis import diagnose
from labkit.training import Record

HEALTHY = {
    "test": {"loss": 2.0}, "test-batch-statistics": {"loss": 2.0},
    "leakage": {"earlier": 0.0, "others": 0.0}, "attention": {"largest": [3.0, 5.0]},
    "thawed-norms": 0, "decayed-vectors": 0,
    "residual-rms": [0.2, 1.0], "gradient-at-start": {"0": [0.2, 0.1]}, "mean-share": [0.1, 0.2],
}  # fmt: skip
SICK = {
    "evaluation gap": {"test": {"loss": 2.2}},
    "leak": {"leakage": {"earlier": 0.1, "others": 0.0}},
    "sharp attention": {"attention": {"largest": [3.0, 500.0]}},
    "growing stream": {"residual-rms": [0.2, 20.0]},
    "uneven gradients": {"gradient-at-start": {"0": [0.001, 0.1]}},
    "offset": {"mean-share": [0.99, 0.2]},
    "thawed norm": {"thawed-norms": 1},
    "decayed gains": {"decayed-vectors": 3},
}


def record(losses=(2.0,) * 40, diverged_at=None, **probes):
    probes = {**HEALTHY, **probes}
    return Record(list(losses), 40, diverged_at, probes=probes, provenance={"device": "cpu"})


def test_a_healthy_run_has_nothing():
    found = diagnose(record(), unigram=3.0)
    assert found.names == [] and all(f.sick is False for f in found.findings)


@pytest.mark.parametrize("name", SICK)
def test_each_probe_names_its_trouble_alone(name):
    found = diagnose(record(**SICK[name]), unigram=3.0)
    assert found.names == [name]
    assert found.sick[0].symptom.cause in str(found) and found.sick[0].symptom.fix in str(found)


def test_losses_tell_a_divergence_and_a_model_that_is_stuck():
    lost = diagnose(record([2.0] * 5, diverged_at=5, leakage={"earlier": None, "others": None}))
    assert lost.names == ["divergence"], "what was measured on it says nothing"
    assert diagnose(record([2.95] * 40), unigram=3.0).names == ["stuck"]
    assert diagnose(record([2.95] * 40)).names == [], "without the unigram loss nobody knows"
    assert diagnose(record([2.95] * 10), unigram=3.0).names == [], "too few steps"


def test_a_number_that_is_none_is_sick():
    assert diagnose(record(attention={"largest": [None]})).names == ["sharp attention"]


def test_what_was_not_measured_says_so():
    found = diagnose(Record([2.0] * 40, 40))
    assert [f.sick for f in found.findings] == [False] + [None] * 10
    assert "· leak: change of a logit that must not change not measured" in str(found)


@pytest.mark.parametrize("norm, names", [("rms", []), ("batch", ["leak"])])
def test_a_model_is_looked_at_and_left_alone(norm, names):
    torch.manual_seed(0)
    model = ModelConfig(norm=norm, dim=16, depth=2, heads=2, context=8).build()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = diagnose(model, Text(batch=8, time=8).load())
    assert set(names) <= set(found.names) and ("leak" in found.names) == (norm == "batch")
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    with pytest.raises(ValueError, match="diagnose needs data"):
        diagnose(model)
    with pytest.raises(
        TypeError, match="takes a Record, a Transformer or an Optimizer, got Linear"
    ):
        diagnose(torch.nn.Linear(2, 2), Text(batch=8, time=8).load())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gains_that_bfloat16_keeps_at_1_are_named(dtype):
    model = ModelConfig("pre", "rms", dim=16, depth=2, heads=2, context=8).build().to(dtype)
    text = Text(batch=8, time=8).load()
    record = train(model, text.train(0), TrainConfig(steps=5, lr=6e-4))
    gains = [p for name, p in model.named_parameters() if "norm" in name]
    still = all(bool((p == 1).all()) for p in gains)
    assert still == (dtype == torch.bfloat16)
    assert ("still gains" in diagnose(record).names) == still
    assert ("still gains" in diagnose(model.float() if not still else model, text).names) == still


def test_a_frozen_norm_that_train_unfreezes_is_named():
    model = ModelConfig(norm="batch", dim=16, depth=2, heads=2, context=8).build()
    text = Text(batch=8, time=8).load()
    assert "thawed norm" not in diagnose(model, text).names
    for module in model.modules():
        if isinstance(module, BatchNorm):
            module.requires_grad_(False).eval()
    assert "thawed norm" in diagnose(model, text).names


class Frozen(BatchNorm):
    def train(self, mode=True):
        return super().train(False)


def test_a_norm_that_stays_frozen_is_not_named():
    model = ModelConfig(norm="batch", dim=16, depth=2, heads=2, context=8).build()
    for module in model.modules():
        if isinstance(module, BatchNorm):
            module.__class__ = Frozen
            module.requires_grad_(False).eval()
    assert "thawed norm" not in diagnose(model, Text(batch=8, time=8).load()).names


def test_gains_that_a_list_of_names_leaves_in_weight_decay_are_named():
    net = nn.Sequential()
    net.LayerNorm, net.ln_f, net.head = nn.LayerNorm(8), nn.RMSNorm(8), nn.Linear(8, 11)

    def groups(spared):
        decayed = [p for name, p in net.named_parameters() if not spared(name, p)]
        rest = [p for name, p in net.named_parameters() if spared(name, p)]
        return torch.optim.AdamW([{"params": decayed}, {"params": rest, "weight_decay": 0.0}])

    found = diagnose(groups(lambda name, p: "LayerNorm" in name or "bias" in name))
    assert found.names == ["decayed gains"] and found.sick[0].value == 1
    assert diagnose(groups(lambda name, p: p.ndim < 2)).names == []
