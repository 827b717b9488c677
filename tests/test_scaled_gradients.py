"""Training with gradients in a low-precision format: scaled, rounded, scaled back; overflows."""

import math
from dataclasses import replace

import pytest
import torch

from labkit.corpora import Text
from labkit.experiments import Run, execute_run
from labkit.formats import round_to_format
from labkit.model import ModelConfig, ScaledGradients
from labkit.probes import make_probe
from labkit.training import TrainConfig, loss_of, train

SMALL = ModelConfig("pre", "rms", dim=16, depth=2, heads=2, context=8)
CORPUS = Text(batch=4, time=8).load()


def gradients(config):
    torch.manual_seed(0)
    model = config.build()
    loss = loss_of(model, *next(iter(CORPUS.train(0))))
    loss.backward()
    return loss.item(), {name: p.grad for name, p in model.named_parameters()}


def in_format(name, scale=1.0):
    return ScaledGradients(**vars(SMALL), gradient_format=name, loss_scale=scale)


def test_float32_and_a_power_of_two_change_no_bit():
    loss, plain = gradients(SMALL)
    for scale in (1.0, 2.0**10):
        same, scaled = gradients(in_format("float32", scale))
        assert same == loss
        assert all(torch.equal(plain[name], scaled[name]) for name in plain)


def test_the_forward_pass_is_exact_and_gradients_are_rounded():
    loss, plain = gradients(SMALL)
    same, scaled = gradients(in_format("e4m3", 2.0**8))
    assert same == loss
    for name, gradient in scaled.items():
        assert torch.equal(round_to_format(gradient * 2**8, "e4m3") / 2**8, gradient), name
        assert gradient.sub(plain[name]).norm() < 0.3 * plain[name].norm(), name
        assert not torch.equal(gradient, plain[name]), name


def test_what_is_below_half_of_the_smallest_number_vanishes_and_a_scale_brings_it_back():
    _, plain = gradients(SMALL)
    lost = gradients(in_format("float16", 2.0**-30))[1]
    found = gradients(in_format("float16", 2.0**4))[1]
    assert all(gradient.abs().max() == 0 for gradient in lost.values())
    for name in plain:
        assert found[name].sub(plain[name]).norm() < 0.01 * plain[name].norm(), name


def test_an_overflow_ends_the_run():
    run = Run(in_format("float16", 2.0**40), Text(batch=4, time=8), TrainConfig(steps=5), probes=())
    assert execute_run(run).diverged_at == 1


def test_a_run_comes_back_from_its_json_and_its_key_knows_format_and_scale():
    run = Run(in_format("e5m2", 256.0), Text(batch=4, time=8), TrainConfig(steps=1))
    assert Run.from_dict(run.to_dict()) == run
    others = [replace(run, model=model) for model in (SMALL, in_format("e5m2"), in_format("e4m3"))]
    assert len({one.key() for one in (run, *others)}) == 4


@pytest.mark.parametrize(
    "wrong, said",
    [({"gradient_format": "float8"}, "unknown format"), ({"loss_scale": 0.0}, "above 0")],
)
def test_nonsense_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        ScaledGradients(**vars(SMALL), **wrong)


def test_the_probe_finds_the_largest_entry_of_each_kind():
    torch.manual_seed(0)
    model, probe = SMALL.build(), make_probe("gradient-extremes", CORPUS)
    seen = {}

    class Beside:
        name = "beside"

        def start(self, model): ...

        def after_backward(self, step, model):
            seen[step] = {n: p.grad.abs().max().item() for n, p in model.named_parameters()}

        def result(self, model): ...

    record = train(model, CORPUS.train(0), TrainConfig(steps=5), [probe, Beside()])
    found = record.probes["gradient-extremes"]
    assert list(found) == ["1", "5"], "steps count from 1"
    assert found["1"]["output"] == seen[0]["output.weight"]
    assert found["1"]["embedding"] == seen[0]["embedding.weight"]
    gains = [size for name, size in seen[0].items() if "norm" in name]
    inner = [
        size for name, size in seen[0].items() if name.startswith("blocks") and "norm" not in name
    ]
    assert found["1"]["norms"] == max(gains) and found["1"]["matrices"] == max(inner)


def test_the_probe_hides_no_nan_behind_a_number():
    model, probe = SMALL.build(), make_probe("gradient-extremes", CORPUS)
    probe.start(model)
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    last = [weight for name, weight in model.named_parameters() if "blocks" in name][-1]
    last.grad.fill_(math.nan)
    probe.after_backward(0, model)
    kind = "norms" if last.ndim < 2 else "matrices"
    found = probe.result(model)["1"]
    assert math.isnan(found[kind]) and found["output"] == 1.0
