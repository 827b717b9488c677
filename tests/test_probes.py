"""Probes against the same quantities computed directly, and that they leave no trace."""

import math

import pytest
import torch
import torch.nn.functional as F
from each import each

from labkit import ModelConfig, TrainConfig, Transformer, train
from labkit.context import Context
from labkit.corpora import Digits, Text
from labkit.probes import (
    PROBES,
    Evaluate,
    make_probe,
    mean_fluctuation,
    measure_leakage,
    removal_cost,
    residual_rms,
    residual_streams,
)
from labkit.vision import MLPConfig

CONFIG = ModelConfig(dim=16, depth=3, heads=2, context=16, norm="layer")
CORPUS = Text(batch=4, time=16, held_out=2048).load()
BATCH = CORPUS.held_out["test"][0]


def state(model) -> dict:
    return {name: value.clone() for name, value in model.state_dict().items()}


@each(norm=["layer", "batch"], name=[n for n in PROBES if n != "test-batch-statistics"])
def test_a_probe_leaves_the_model_as_it_was(name, norm):
    torch.manual_seed(0)
    model = Transformer(ModelConfig(dim=16, depth=2, heads=2, context=16, norm=norm))
    before, random = state(model), torch.get_rng_state()
    probe = make_probe(name, CORPUS)
    probe.start(model)
    assert probe.result(model) is not None
    assert model.training
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_evaluate_is_the_mean_over_all_predictions():
    model = Transformer(CONFIG).eval()
    batches = CORPUS.held_out["test"][:3]
    result = Evaluate("test", batches).result(model)
    logits = torch.cat([model(x).flatten(0, 1) for x, _ in batches])
    targets = torch.cat([y.flatten() for _, y in batches])
    assert result["loss"] == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-5)
    assert result["accuracy"] == pytest.approx((logits.argmax(-1) == targets).float().mean().item())


def test_batch_statistics_matter_for_batch_norm_only():
    corpus = Digits(batch=4).load()
    for norm, same in (("batch", False), ("layer", True)):
        torch.manual_seed(0)
        model = MLPConfig(norm=norm, width=16, depth=2).build()
        probes = [make_probe(n, corpus) for n in ("test", "test-batch-statistics")]
        seen = train(model, corpus.train(0), TrainConfig(steps=20), probes, progress=False).probes
        usual, of_batches = (seen[name]["loss"] for name in ("test", "test-batch-statistics"))
        assert (of_batches == pytest.approx(usual, rel=1e-6)) is same


def test_batch_statistics_are_those_of_each_held_out_batch_alone():
    corpus = Digits(batch=4).load()
    model = MLPConfig(norm="batch", width=16, depth=2).build().train()
    batches = [(x[:9], y[:9]) for x, y in corpus.held_out["test"][:3]]
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in batches]
    found = Evaluate("test", batches, batch_statistics=True).result(model)["loss"]
    assert found == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_residual_streams_are_the_inputs_of_the_blocks_and_the_last_output():
    model = Transformer(CONFIG).eval()
    tokens = BATCH[0]
    streams = residual_streams(model, tokens)
    x = model.embed(tokens)
    expected = [x]
    for block in model.blocks:
        x = block(x, Context(angles=model.get_buffer("angles")[: tokens.shape[1]].float()))
        expected.append(x)
    for ours, theirs in zip(streams, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    rms = [x.pow(2).mean().sqrt().item() for x in expected]
    assert residual_rms(model, BATCH) == pytest.approx(rms)


def test_removing_a_block_that_does_nothing_costs_nothing():
    model = Transformer(CONFIG).eval()
    for part in (
        model.blocks[1].attention.sublayer.out,
        model.blocks[1].feed_forward.sublayer.down,
    ):
        torch.nn.init.zeros_(part.weight)
    with torch.no_grad():
        costs = removal_cost(model, BATCH)
    assert costs[1] == 0.0
    assert costs[0] != 0.0 and costs[2] != 0.0


def test_leakage_is_zero_for_layer_norm_and_not_for_batch_norm():
    for norm, leaks in (("layer", False), ("batch", True)):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(dim=16, depth=2, heads=2, context=16, norm=norm))
        with torch.no_grad():
            seen = measure_leakage(model, BATCH)
        # the same arithmetic on the same rows; matrix products may differ in the last bits
        assert all((value > 1e-4) is leaks for value in seen.values())


def test_gradient_norms_are_read_at_the_first_step():
    model = Transformer(CONFIG)
    probe = make_probe("gradient-at-start", CORPUS)
    seen = []

    class Direct(type(probe)):
        def after_backward(self, step, model):
            if step == 0:
                seen.extend(
                    block.feed_forward.sublayer.down.weight.grad.norm().item()
                    for block in model.blocks
                )

    direct = Direct("direct", (0,))
    record = train(model, CORPUS.train(0), TrainConfig(steps=2), [probe, direct], progress=False)
    assert record.probes["gradient-at-start"] == {"0": pytest.approx(seen)}
    assert len(seen) == 3


def test_fluctuation_of_independent_rows_is_one_and_of_copies_is_their_number():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 8, 20, generator=generator)
    # variance of 400 batch means: a relative error of sqrt(2/400), averaged over 20 features
    assert mean_fluctuation(list(rows)) == pytest.approx(1, abs=0.1)
    copies = rows[:, :1].expand(-1, 8, -1)
    assert mean_fluctuation(list(copies)) == pytest.approx(8, rel=0.01)


def test_an_unknown_probe_lists_the_known():
    with pytest.raises(ValueError, match="choose one of validation, test"):
        make_probe("rms", CORPUS)
    with pytest.raises(TypeError, match="needs a Transformer, got Sequential"):
        make_probe("residual-rms", CORPUS).result(MLPConfig().build())


def test_the_untrained_loss_is_near_uniform():
    loss = Evaluate("test", CORPUS.held_out["test"]).result(Transformer(CONFIG))["loss"]
    assert loss == pytest.approx(math.log(96), abs=0.5)


def test_a_profile_has_the_gradient_of_every_sublayer_at_the_chosen_steps():
    torch.manual_seed(0)
    model, stream = Transformer(CONFIG), CORPUS.train(0)
    probe = make_probe("gradient-profile", CORPUS)
    record = train(model, stream, TrainConfig(steps=2, lr=1e-3), [probe], progress=False)
    assert list(record.probes["gradient-profile"]) == ["1", "2"], "steps count from 1"
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    x, y = next(CORPUS.train(0))
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    first = record.probes["gradient-profile"]["1"]
    assert {part: len(sizes) for part, sizes in first.items()} == {
        "attention": 3, "feed_forward": 3, "block": 3,
    }  # fmt: skip
    for i, block in enumerate(model.blocks):
        for part in ("attention", "feed_forward"):
            matrices = [w for w in block.get_submodule(part).parameters() if w.ndim == 2]
            seen = torch.cat([w.grad.flatten() for w in matrices]).norm().item()
            assert first[part][i] == pytest.approx(seen, rel=1e-4)
        both = math.hypot(first["attention"][i], first["feed_forward"][i])
        assert first["block"][i] == pytest.approx(both)
