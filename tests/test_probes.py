"""Probes agree with direct computations, and have no side effects."""

import copy
import json
import math
from dataclasses import replace
from functools import cache
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F
from each import each

from labkit import ModelConfig, TrainConfig, Transformer, train
from labkit.context import Context
from labkit.corpora import Digits, FewDigits, Text
from labkit.corpora.text import VOCABULARY, decode_tokens, encode_text
from labkit.model.bare import BareMLPConfig
from labkit.model.stacks import StackConfig
from labkit.model.vision import MLPConfig
from labkit.probes import PROBES, make_probe
from labkit.probes.early import judge_answers, read_early, summarize_answers
from labkit.probes.fluctuation import mean_fluctuation
from labkit.probes.look import residual_streams
from labkit.probes.tokens import token_share
from labkit.probes.trained import (
    Evaluate,
    largest_output,
    measure_leakage,
    removal_cost,
    residual_rms,
)
from labkit.probes.updates import final_stream, step_response
from labkit.probes.voice import BEGINNING, CHARACTERS, continue_text
from labkit.probes.weights import lengths, measure_weights, sphere_scales
from labkit.training import loss_of

CONFIG = ModelConfig(dim=16, depth=3, heads=2, context=16, norm="layer")
CORPUS = Text(batch=4, time=16, held_out=2048).load()
DIGITS = Digits(batch=4).load()
FEW = FewDigits(images=16, draw=5).load()
BATCH = CORPUS.held_out["test"][0]


# What a probe sees, where it is not text.
IMAGES = dict.fromkeys(("landscape", "gradient-shift", "input-shift", "contrast"), "digits")
SEES = {**IMAGES, "whole-set": "few digits"}
CORPORA = {"text": CORPUS, "digits": DIGITS, "few digits": FEW}


def train_watched(norm, seen, *observers):
    """Train two steps; return the weights, the random state and the record."""
    torch.manual_seed(0)
    if seen != "text":
        model = StackConfig(norm={"batch": "noisy-batch"}.get(norm, norm), width=16).build()
    else:
        model = ModelConfig(dim=16, depth=2, heads=2, context=16, norm=norm).build()
    config = TrainConfig(steps=3, lr=0.01)
    record = train(model, CORPORA[seen].train(0), config, observers, progress=False)
    return model, torch.get_rng_state(), record


train_alone = cache(train_watched)


@pytest.mark.slow
@each(norm=["none", "batch"], name=PROBES)
def test_a_run_that_is_watched_trains_as_one_that_is_not(name, norm):
    seen = SEES.get(name, "text")
    probe = make_probe(name, CORPORA[seen])
    short = {"rounds": 1} if name == "pace" else {"steps": (0, 1)} if name in IMAGES else {}
    vars(probe).update(short)
    model, chance, record = train_watched(norm, seen, probe)
    alone, chance_alone, _ = train_alone(norm, seen)
    assert torch.equal(chance, chance_alone) and model.training == alone.training
    states = model.state_dict(), alone.state_dict()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert record.probes[name] is not None
    assert json.loads(json.dumps(record.probes[name])) == record.probes[name]


def test_evaluate_is_the_mean_over_all_predictions():
    model = Transformer(CONFIG).eval()
    batches = CORPUS.held_out["test"][:3]
    result = Evaluate("test", batches).result(model)
    logits = torch.cat([model(x).flatten(0, 1) for x, _ in batches])
    targets = torch.cat([y.flatten() for _, y in batches])
    assert result["loss"] == pytest.approx(F.cross_entropy(logits, targets).item(), rel=1e-5)
    assert result["accuracy"] == pytest.approx((logits.argmax(-1) == targets).float().mean().item())


def test_batch_statistics_matter_for_batch_norm_only():
    for norm, same in (("batch", False), ("layer", True)):
        torch.manual_seed(0)
        model = MLPConfig(norm=norm, width=16, depth=2).build()
        probes = [make_probe(n, DIGITS) for n in ("test", "test-batch-statistics")]
        seen = train(model, DIGITS.train(0), TrainConfig(steps=20), probes, progress=False).probes
        usual, of_batches = (seen[name]["loss"] for name in ("test", "test-batch-statistics"))
        assert (of_batches == pytest.approx(usual, rel=1e-6)) is same


def test_batch_statistics_are_those_of_each_held_out_batch_alone():
    model = MLPConfig(norm="batch", width=16, depth=2).build().train()
    batches = [(x[:9], y[:9]) for x, y in DIGITS.held_out["test"][:3]]
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in batches]
    found = Evaluate("test", batches, batch_statistics=True).result(model)["loss"]
    assert found == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_the_whole_set_s_statistics_stand_for_the_running_ones_layer_by_layer():
    torch.manual_seed(0)
    model = BareMLPConfig("batch", ghost=4, width=8).build()
    record = train(
        model, FEW.train(0), TrainConfig(5, 0.03), [make_probe("whole-set", FEW)], progress=False
    )
    first, second, last = (part for part in model if isinstance(part, torch.nn.Linear))
    images, _ = FEW.whole
    for split, (inputs, classes) in {
        "train": FEW.whole,
        **{split: part for split, (part,) in FEW.held_out.items()},
    }.items():
        x = torch.cat([images, inputs]).flatten(1)  # the training set goes along
        for linear in (first, second):
            z = linear(x)
            own = z[: len(images)]
            x = ((z - own.mean(0)) / (own.var(0, correction=0) + 1e-5).sqrt()).relu()
        logits = last(x[len(images) :])
        found = record.probes["whole-set"][split]
        assert found["loss"] == pytest.approx(F.cross_entropy(logits, classes).item(), rel=1e-5)
        assert found["accuracy"] == (logits.argmax(1) == classes).double().mean().item()


def test_a_model_without_batch_norm_is_judged_as_it_is():
    model = MLPConfig(norm="layer", width=16, depth=2).build()
    found = make_probe("whole-set", FEW).result(model)
    assert [*found] == ["train", "validation", "test"]
    assert found["test"] == make_probe("test", FEW).result(model)


def test_a_probe_refuses_data_that_it_cannot_read():
    with pytest.raises(
        ValueError, match="every batch is the whole training set, such as FewDigits"
    ):
        make_probe("whole-set", DIGITS)
    with pytest.raises(TypeError, match=r"'contrast' needs images, got .* torch\.int64"):
        make_probe("contrast", CORPUS)


def test_contrast_multiplies_every_grey_value():
    model = MLPConfig(norm="layer", width=16, depth=2).build()
    found = make_probe("contrast", DIGITS).result(model)
    assert found["contrast"] == [0.125, 0.25, 0.5, 1.0]
    x, y = (torch.cat(parts) for parts in zip(*DIGITS.held_out["test"], strict=True))
    for i, c in enumerate(found["contrast"]):
        logits = model(c * x)
        assert found["loss"][i] == pytest.approx(F.cross_entropy(logits, y).item(), rel=1e-5)
        assert found["accuracy"][i] == (logits.argmax(1) == y).double().mean().item()
    assert len(set(found["loss"])) == 4
    assert found["loss"][-1] == make_probe("test", DIGITS).result(model)["loss"]


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


def test_the_largest_output_is_read_before_its_cap():
    torch.manual_seed(0)
    free, capped = CONFIG.build(), replace(CONFIG, logit_softcap=1.0).build()
    capped.load_state_dict(free.state_dict())
    with torch.no_grad():
        largest = free(BATCH[0]).abs().max().item()
        assert capped(BATCH[0]).abs().max() <= 1 < largest
        assert largest_output(capped, BATCH) == pytest.approx(largest)
        capped.output.weight.neg_()
        assert largest_output(capped, BATCH) == pytest.approx(largest), "of either sign"
        scaled = replace(CONFIG, recipe="ngpt").build()
        assert largest_output(scaled, BATCH) == pytest.approx(scaled(BATCH[0]).abs().max().item())


def test_leakage_is_zero_for_layer_norm_and_not_for_batch_norm():
    for norm, leaks in (("layer", False), ("batch", True)):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(dim=16, depth=2, heads=2, context=16, norm=norm))
        with torch.no_grad():
            seen = measure_leakage(model, BATCH)
        # the same arithmetic on the same rows; matrix products may differ in the last bits
        assert all((value > 1e-4) is leaks for value in seen.values())


def test_early_answers_are_held_against_the_truth():
    logits = torch.tensor([[[2.0, 1.0], [0.0, 3.0]], [[0.0, 3.0], [0.0, 3.0]]])
    said = judge_answers(list(logits), torch.tensor([1, 0]))
    assert said["right"] == [0.0, 0.5] and said["mended"] == [0.5, 0.0]
    assert said["broken"] == [0.0, 0.0]
    assert said["truth"][0] == pytest.approx((1 / (1 + math.exp(1)) + 1 / (1 + math.exp(3))) / 2)
    assert said["truth"][1] == pytest.approx((1 / (1 + math.exp(-3)) + 1 / (1 + math.exp(3))) / 2)
    judged = judge_answers(list(logits.flip(0)), torch.tensor([1, 0]))
    assert judged["broken"] == [0.5, 0.0]
    probe = make_probe("early-judged", DIGITS)
    found = probe.result(StackConfig("resnet-v2", "batch", width=16, depth=6).build().eval())
    assert len(found["truth"]) == 1 + 3 == len(found["changed"]) + 1
    assert found["agreement"][-1] == 1.0


def test_early_answers_of_three_places_are_counted_by_hand():
    logits = torch.tensor([[[9.0, 0], [9, 0]], [[0, 9], [9, 0]], [[0, 9], [0, 9]]])
    said = summarize_answers(list(logits))
    assert said["agreement"] == [0.0, 0.5, 1.0]
    assert said["changed"] == [0.5, 0.5]
    assert said["confidence"] == pytest.approx([1 / (1 + math.exp(-9))] * 3)


@each(step=["none", "resnet-v1", "resnet-v2", "highway"])
def test_the_last_early_answer_of_a_stack_is_its_output(step):
    model = StackConfig(step, "batch", width=16, depth=6).build().eval()
    images = DIGITS.held_out["test"][0][0]
    early = read_early(model, images)
    assert len(early) == 1 + 3
    assert torch.equal(early[-1], model(images)) and not torch.equal(early[0], early[-1])


def test_the_last_early_answer_of_a_transformer_is_its_output_and_a_plain_stack_has_none():
    model = Transformer(CONFIG).eval()
    early = read_early(model, BATCH[0])
    assert len(early) == CONFIG.depth + 1 and torch.allclose(early[-1], model(BATCH[0]))
    with pytest.raises(TypeError, match="Sequential has none; use a Transformer"):
        read_early(StackConfig("plain").build(), DIGITS.held_out["test"][0][0])


def test_fluctuation_of_independent_rows_is_one_and_of_copies_is_their_number():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 8, 20, generator=generator)
    # variance of 400 batch means: a relative error of sqrt(2/400), averaged over 20 features
    assert mean_fluctuation(list(rows)) == pytest.approx(1, abs=0.1)
    copies = rows[:, :1].expand(-1, 8, -1)
    assert mean_fluctuation(list(copies)) == pytest.approx(8, rel=0.01)


def test_every_module_makes_the_probes_that_the_table_of_all_says():
    made = {}
    for module in sorted(set(PROBES.values())):
        made |= dict.fromkeys(import_module(f"labkit.probes.{module}").PROBES, module)
    assert made == PROBES


def test_an_unknown_probe_lists_the_known():
    with pytest.raises(ValueError, match="choose one of validation, test"):
        make_probe("rms", CORPUS)
    for name in ("residual-rms", "attention-by-steps", "attention-maps", "pace"):
        with pytest.raises(TypeError, match=f"probe '{name}' needs a Transformer, got Sequential"):
            make_probe(name, CORPUS).result(MLPConfig().build())


def test_a_profile_has_the_gradient_of_every_block_at_the_chosen_steps():
    torch.manual_seed(0)
    model, stream = Transformer(CONFIG), CORPUS.train(0)
    probes = [make_probe(name, CORPUS) for name in ("gradient-profile", "gradient-at-start")]
    record = train(model, stream, TrainConfig(steps=2, lr=1e-3), probes, progress=False)
    assert list(record.probes["gradient-profile"]) == ["1", "2"], "steps count from 1"
    torch.manual_seed(0)
    model = Transformer(CONFIG)
    x, y = next(CORPUS.train(0))
    F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
    first = record.probes["gradient-profile"]["1"]
    assert {part: len(sizes) for part, sizes in first.items()} == {"block": 3}
    for i, block in enumerate(model.blocks):
        matrices = [w for w in block.parameters() if w.ndim == 2]
        seen = torch.cat([w.grad.flatten() for w in matrices]).norm().item()
        assert first["block"][i] == pytest.approx(seen, rel=1e-4)
        down = block.feed_forward.sublayer.down.weight.grad.norm().item()
        assert record.probes["gradient-at-start"]["0"][i] == pytest.approx(down, rel=1e-4)


# --- how far one step moves what a model computes ---

DEEP = ModelConfig("deepnorm", "layer", dim=16, depth=2, heads=2, context=16)


def by_hand(model, move, everything, rate=1e-6):
    """Take the step on the model itself; measure the stream's change per unit of learning rate."""
    model = model.double()
    loss_of(model, *BATCH).backward()
    before = final_stream(model, BATCH[0])
    with torch.no_grad():
        for parameter in model.blocks.parameters():
            if parameter.ndim == 2 or everything:
                parameter -= rate * move(parameter.grad)
    return ((final_stream(model, BATCH[0]) - before) / rate).square().sum(-1).mean().sqrt().item()


def test_a_response_is_that_of_the_step_taken_by_hand():
    found = step_response(model := Transformer(DEEP), BATCH)
    for name, move in (("sgd", lambda g: g), ("sgd-all", lambda g: g), ("adam", torch.sign)):
        due = by_hand(copy.deepcopy(model), move, everything=name == "sgd-all")
        assert found[name] == pytest.approx(due, rel=1e-9), name
    with pytest.raises(ValueError, match="choose one of sgd, sgd-all, adam, random"):
        step_response(model, BATCH, ["sign"])


def test_response_sees_what_a_recipe_sets_before_its_first_step():
    seen = {}
    for recipe in ("admin", "post"):
        torch.manual_seed(0)
        model, probe = replace(DEEP, recipe=recipe).build(), make_probe("step-response", CORPUS)
        train(model, CORPUS.train(0), TrainConfig(steps=1), [probe], progress=False)
        seen[recipe] = probe.result(model)["sgd"]
    # with ω = 1 they are one model
    assert abs(seen["admin"] / seen["post"] - 1) > 0.01


# --- how different tokens still are ---


def silent(recipe):
    """Build a model whose sublayers write nothing."""
    torch.manual_seed(0)
    model = replace(CONFIG, recipe=recipe, depth=2).build()
    for block in model.blocks:
        for part in (block.attention.sublayer.out, block.feed_forward.sublayer.down):
            torch.nn.init.zeros_(part.weight)
    return model


def test_the_share_of_two_tokens_is_computed_by_hand():
    model, ramp = silent("pre").double(), torch.linspace(-1, 1, 16).double()
    rows = model.embedding.weight.data
    for a, b, share in (
        (torch.ones(16), torch.ones(16), 0),
        (torch.ones(16), 3 * torch.ones(16), (1 + 1) / (1 + 9)),  # their mean, not their channels'
        # a difference below single precision
        (torch.ones(16), 1 + 1e-10 * ramp, 1e-20 * ramp.square().mean().item() / 4),
    ):
        rows[0], rows[1] = a, b
        found = token_share(model, torch.tensor([[0, 1]]))["share"]
        assert found == pytest.approx([share] * 3, rel=1e-3, abs=1e-30)


def test_the_path_is_the_product_of_what_the_norms_on_the_stream_divide_by():
    model, tokens = silent("post"), BATCH[0]
    model.embedding.weight.data *= 4 / model.embedding.weight.data.std(1, correction=0)[:, None]
    size = model.embed(tokens).std(-1, correction=0).mean().item()
    # Nothing is written, so the first norm divides by the embedding's size, the others by one.
    assert token_share(model, tokens)["path"] == pytest.approx(1 / size, rel=1e-3)
    assert token_share(silent("pre"), tokens)["path"] == 1.0


def test_tokens_are_looked_at_before_the_chosen_steps():
    probe = make_probe("token-share", CORPUS)
    for step in (0, 1, 11):
        probe.after_backward(step, silent("post"))
    assert [*probe.seen] == ["0", "1"], "it does not look at step 11"


# --- voice ---


class Says(torch.nn.Module):
    """A model that predicts one text with certainty, whatever its input."""

    def __init__(self, text):
        super().__init__()
        self.config, self.text = replace(CONFIG, context=4), encode_text(text)
        self.weight, self.read = torch.nn.Parameter(torch.zeros(1)), []

    def forward(self, tokens):
        self.read.append(decode_tokens(tokens[0]))
        logits = torch.zeros(*tokens.shape, len(VOCABULARY))
        if len(self.read) > len(self.text):
            return logits * math.nan
        logits[0, -1, self.text[len(self.read) - 1]] = 100.0
        return logits


def test_a_voice_continues_the_beginning_and_stops_where_a_logit_is_no_number():
    model = Says("strong")
    assert continue_text(model, "It is ", 4) == "stro"
    assert model.read == [" is ", "is s", "s st", " str"]
    assert continue_text(Says("strong"), "It is ", 9) == "strong"


def test_a_voice_is_heard_before_the_chosen_steps_and_at_the_end_and_does_not_vary():
    heard = []
    for _ in range(2):
        *_, record = train_watched("rms", "text", make_probe("voice", CORPUS))
        heard.append(record.probes["voice"])
    assert heard[0] == heard[1] and [*heard[0]] == ["0", "last"]
    assert {len(text) for text in heard[0].values()} == {CHARACTERS}
    assert heard[0]["0"] != heard[0]["last"]
    assert len(encode_text(BEGINNING)) == len(BEGINNING)


# --- trained weights ---


def make(recipe):
    torch.manual_seed(0)
    return ModelConfig(recipe, dim=16, heads=2, vocab=11, depth=2, hidden=24, context=8).build()


def test_lengths_are_measured_along_the_streams_axis():
    on, off = measure_weights(make("ngpt"), BATCH), measure_weights(make("pre"), BATCH)
    assert on["off"] < 1e-6 and off["off"] > 0.1
    model = make("pre")
    down = model.blocks[0].feed_forward.sublayer.down.weight  # (dim, hidden)
    found = lengths(model)
    due = down.double().square().sum(0).sqrt()
    torch.testing.assert_close(found["blocks.0.feed_forward.sublayer.down"], due)
    assert found["embedding"].shape == found["output"].shape == (11,)
    largest = max((one - 1).abs().max().item() for one in found.values())
    assert off == {"off": pytest.approx(largest)}


def test_scales_start_at_their_values_and_other_recipes_have_none():
    found = sphere_scales(make("ngpt"), BATCH)
    assert found["attention"] == found["feed_forward"] == pytest.approx([0.05, 0.05])
    assert found["s_z"] == pytest.approx(1)
    assert sphere_scales(make("pre"), BATCH) == {}
