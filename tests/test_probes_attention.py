"""The probe of attention's sharpness against the model's own attention and against limits."""

import math

import pytest
import torch

from labkit import ModelConfig, TrainConfig, train
from labkit.attention import Attention
from labkit.attention.logits import explicit_logits, soft_cap
from labkit.context import Context
from labkit.corpora import Text
from labkit.probes import make_probe
from labkit.probes.attention import attention_logits, attention_sharpness, sharpness

CORPUS = Text(batch=4, time=16, held_out=2048).load()
BATCH = CORPUS.held_out["test"][0]
CAUSAL = torch.ones(1, 1, 4, 4, dtype=torch.bool).tril()


def build(**changes):
    torch.manual_seed(0)
    return ModelConfig(dim=16, depth=2, heads=2, context=16, **changes).build()


def attention_of(model, block) -> Attention:
    layer = model.get_submodule(f"blocks.{block}.attention.sublayer")
    assert isinstance(layer, Attention)
    return layer


def given_to(layer, model) -> list:
    """Run the model; return a layer's inputs and output: x, context, output."""
    kept = []
    hook = layer.register_forward_hook(
        lambda m, args, named, out: kept.append((*args, *named.values(), out)), with_kwargs=True
    )
    model(BATCH[0])
    hook.remove()
    return kept[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"qk_norm": "qk rms"}, {"qk_norm": "henry"}, {"softcap": 0.5}, {"kv_heads": 1}],
    ids=str,
)
def test_the_logits_are_those_that_mix_the_values(changes):
    model = build(**changes)
    layer = attention_of(model, 0)
    x, context, out = given_to(layer, model)
    logits, allowed = attention_logits(model, BATCH[0])[0]
    if layer.softcap is not None:
        logits = soft_cap(logits, layer.softcap)
    weights = logits.masked_fill(~allowed, -torch.inf).softmax(-1)
    _, _, v = layer.project(x, context)
    mixed = weights @ v.repeat_interleave(layer.heads // layer.kv_heads, dim=1)
    torch.testing.assert_close(layer.out(mixed.transpose(1, 2).flatten(-2)), out)


def test_a_chain_of_logits_is_read_with_its_earlier_layers():
    model = build(recipe="realformer", norm="layer")
    first, second = (logits for logits, _ in attention_logits(model, BATCH[0]))
    layer = attention_of(model, 1)
    x, context, _ = given_to(layer, model)
    q, k, _ = layer.project(x, context)
    torch.testing.assert_close(second, first + explicit_logits(q, k, None))


def test_sharpness_at_its_limits():
    flat = sharpness(torch.zeros(1, 1, 4, 4), CAUSAL)
    trace = sum(1 - 1 / n for n in (2, 3, 4)) / 3
    assert flat == pytest.approx({"largest": 0, "entropy": 1, "slope": trace})
    sharp = sharpness(200 * torch.eye(4).expand(1, 1, 4, 4), CAUSAL)
    assert sharp == pytest.approx({"largest": 200, "entropy": 0, "slope": 0}, abs=1e-12)
    masked = torch.zeros(1, 1, 4, 4)
    masked[..., 0, 3] = 1e6
    assert sharpness(masked, CAUSAL)["largest"] == 0
    # A saturated cap lets equal weights pass and no gradient.
    capped = sharpness(torch.full((1, 1, 4, 4), 1e4), CAUSAL, cap=30.0)
    assert capped == pytest.approx({"largest": 1e4, "entropy": 1, "slope": 0})


def test_the_slope_is_the_trace_of_the_jacobian():
    torch.manual_seed(0)
    logits = 3 * torch.randn(4, dtype=torch.float64)
    rows = logits.expand(1, 1, 1, 4)
    everything = torch.ones(1, 1, 1, 4, dtype=torch.bool)
    for cap in (None, 2.0):

        def weights(x, cap=cap):
            return (x if cap is None else soft_cap(x, cap)).softmax(-1)

        jacobian = torch.autograd.functional.jacobian(weights, logits)
        seen = sharpness(rows, everything, cap)
        assert seen["slope"] == pytest.approx(jacobian.diagonal().sum().item())
        p = weights(logits)
        assert seen["entropy"] == pytest.approx(-(p * p.log()).sum().item() / math.log(4))


def test_by_steps_ends_with_the_trained_model():
    model = build()
    probe = make_probe("attention-by-steps", CORPUS)
    seen = train(model, CORPUS.train(0), TrainConfig(steps=25), [probe], progress=False).probes
    by_steps = seen["attention-by-steps"]
    assert by_steps["steps"] == [0, 20, 25]
    with torch.no_grad():
        now = attention_sharpness(model.eval(), BATCH)
    assert by_steps["largest"][-1] == pytest.approx(max(now["largest"]))
    assert by_steps["entropy"][-1] == pytest.approx(sum(now["entropy"]) / 2)


def test_without_rotation_and_context_it_reads_plain_attention():
    layer = attention_of(build(), 0)
    x = torch.randn(1, 5, 16)
    (logits, _), *_ = attention_logits(layer, x)
    q, k, _ = layer.project(x, Context())
    torch.testing.assert_close(logits, explicit_logits(q, k, None))


@pytest.mark.parametrize("changes", [{}, {"softcap": 0.5}], ids=str)
def test_maps_are_the_weights_of_the_head_with_the_largest_logit(changes):
    model = build(**changes)
    probe = make_probe("attention-maps", CORPUS)
    for step in range(102):
        probe.after_backward(step, model)
    first = max(range(4), key=lambda i: probe.seen[0][1].flatten()[i])  # two heads in two layers
    for i in {0, 1, 2, 3} - {first}:
        rows = model.blocks[i // 2].attention.sublayer.q.weight.data[8 * (i % 2) :][:8]
        rows.mul_(20)
    seen = probe.result(model)
    assert seen["steps"] == [0, 100, 102] and 2 * seen["layer"] + seen["head"] != first
    looks = attention_logits(model, BATCH[0][:1, :24])
    largest = max(logits.masked_fill(~allowed, 0).abs().max().item() for logits, allowed in looks)
    assert seen["largest"][-1] == pytest.approx(largest)
    logits, allowed = looks[seen["layer"]]
    if changes:
        logits = soft_cap(logits, 0.5)
    weights = logits.masked_fill(~allowed, -torch.inf).softmax(-1)[0, seen["head"]]
    assert torch.allclose(torch.tensor(seen["maps"][-1]), weights, atol=6e-4)  # three decimals
