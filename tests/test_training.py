"""The training loop agrees with the same steps written out by hand, and records them."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from labkit import ModelConfig, TrainConfig, Transformer, train
from labkit.corpora import Text
from labkit.training import Observer

SMALL = ModelConfig(dim=16, depth=2, heads=2, context=8)
DATA = Text(batch=4, time=8)


def model_and_batches(seed: int = 0):
    torch.manual_seed(seed)
    return Transformer(SMALL), DATA.load().train(seed)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_training_is_the_loop_one_would_write_by_hand(optimizer):
    config = TrainConfig(
        steps=6,
        lr=0.01,
        optimizer=optimizer,
        betas=(0.8, 0.95),
        momentum=0.7,
        warmup=2,
        clip=0.5,
        weight_decay=0.1,
        schedule="linear",
    )
    model, batches = model_and_batches()
    record = train(model, batches, config)

    twin, batches = model_and_batches()
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    extra = {"betas": (0.8, 0.95)} if optimizer == "adamw" else {"momentum": 0.7}
    by_hand = kind(twin.parameters(), lr=1.0, weight_decay=0.1, **extra)
    losses = []
    for step, (x, y) in enumerate(itertools.islice(batches, 6)):
        rate = 0.01 * (step + 1) / 2 if step < 2 else 0.01 * (1 - 0.95 * (step - 2) / 4)
        by_hand.param_groups[0]["lr"] = rate
        by_hand.zero_grad()
        loss = F.cross_entropy(twin(x).reshape(-1, 96), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        by_hand.step()
        losses.append(loss.item())
    # the fused optimizer rounds in another order: a few float32 ulps a step
    assert record.losses == pytest.approx(losses, rel=1e-5)
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_what_is_no_model_or_no_batches_is_refused_with_the_way_out():
    config, once = ModelConfig(dim=8, depth=1, heads=1, vocab=4, context=4), TrainConfig(steps=1)
    with pytest.raises(
        TypeError, match=r"got ModelConfig; build one from a config: train\(config.build"
    ):
        train(config, [], once)
    with pytest.raises(TypeError, match=r"got int; a corpus provides one: corpus.train"):
        train(config.build(), 3, once)
    with pytest.raises(ValueError, match="tokens must be from 0 to 3, got 1 to 9"):
        config.build()(torch.tensor([[1, 9]]))


def test_schedules_start_peak_and_end_where_they_say():
    config = TrainConfig(steps=10, lr=1.0, warmup=4, schedule="cosine", final_lr=0.1)
    assert [config.lr_at(s) for s in (0, 3, 4)] == pytest.approx([0.25, 1.0, 1.0])
    assert config.lr_at(7) == pytest.approx(0.1 + 0.9 / 2)
    assert TrainConfig(steps=10, lr=1.0, schedule="constant").lr_at(9) == 1.0
    assert TrainConfig(steps=10, lr=1.0, schedule="linear", final_lr=0).lr_at(9) == pytest.approx(
        0.1
    )


def test_a_divergence_is_recorded_with_its_step_and_the_losses_before_it():
    class Bomb(Observer):
        name = "bomb"

        def after_backward(self, step, model):
            if step == 2:
                next(iter(model.parameters())).grad.fill_(float("inf"))

        def result(self, model):
            return float("nan")

    record = train(*model_and_batches(), TrainConfig(steps=9, lr=0.1), [Bomb()])
    assert record.diverged_at == 3
    assert len(record.losses) == 3
    assert all(map(math.isfinite, record.losses))


def test_observers_see_every_step_and_change_nothing():
    class Counter(Observer):
        name = "counter"

        def __init__(self):
            self.steps = []

        def start(self, model):
            self.steps.append("start")

        def after_backward(self, step, model):
            assert next(model.parameters()).grad is not None
            self.steps.append(step)

        def result(self, model):
            return self.steps

    watched = train(*model_and_batches(), TrainConfig(steps=3), [Counter()])
    alone = train(*model_and_batches(), TrainConfig(steps=3))
    assert watched.probes == {"counter": ["start", 0, 1, 2]}
    assert watched.losses[0] == pytest.approx(math.log(96), abs=0.5)
    assert watched.losses == alone.losses


def test_a_record_says_where_it_was_made_and_what_it_took():
    record = train(*model_and_batches(), TrainConfig(steps=2))
    assert {"device", "cpu", "threads", "python", "torch", "commit"} <= set(record.provenance)
    assert record.seconds > 0 and record.predictions_per_second > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"optimizer": "adam"}, "choose one of adamw, sgd"),
        ({"schedule": "step"}, "choose one of constant, linear, cosine"),
        ({"steps": 0}, "steps must be at least 1 and finite, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"betas": (1.5, 0)}, r"betas must be two numbers in \[0, 1\)"),
        ({"lr": "1e-3"}, "lr must be a number, got '1e-3'"),
        ({"lr": 0.0}, "lr must be positive and finite"),
        ({"lr": float("nan")}, "lr must be positive and finite"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"warmup": -1}, "warmup must be at least 0"),
    ],
)
def test_a_train_config_refuses_nonsense(change, message):
    with pytest.raises((ValueError, TypeError), match=message):
        TrainConfig(**change)


def test_empty_batches_and_short_streams_are_refused():
    model, batches = model_and_batches()
    x, y = next(batches)
    with pytest.raises(ValueError, match=r"no batch may be empty, but batch 1 has"):
        train(model, [(x, y), (x[:0], y[:0])], TrainConfig(steps=2))
    with pytest.raises(ValueError, match="the batches ended after 1; pass a longer"):
        train(model, [(x, y)], TrainConfig(steps=2))


def test_a_batch_may_carry_a_mask_and_padding_counts_nowhere():
    def batches(filler: int):
        draw = torch.Generator().manual_seed(3)
        while True:
            tokens = torch.randint(8, (4, 9), generator=draw)
            real = torch.arange(8) < torch.tensor([[8], [5], [3], [8]])
            inputs, targets = tokens[:, :-1].where(real, torch.tensor(filler)), tokens[:, 1:]
            yield (inputs, None, real), targets.where(real, torch.tensor(-100))

    losses = []
    for filler in (0, 7):
        torch.manual_seed(0)
        model = Transformer(ModelConfig(norm="batch", dim=16, depth=2, heads=2, vocab=8))
        losses.append(train(model, batches(filler), TrainConfig(steps=4), progress=False).losses)
    # the same numbers in the same order, whatever stands in the padding
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


# --- arithmetic ---

WIDE = ModelConfig(dim=96, depth=1, heads=2, context=8)


def wide():
    torch.manual_seed(0)
    model = Transformer(WIDE)
    config = TrainConfig(steps=5, lr=0.01)
    return train(model, DATA.load().train(0), config, progress=False), model


def test_bf16_multiplies_in_half_and_keeps_weights_and_optimizer_in_float32():
    seen = []

    class Dtypes(Observer):
        name = "dtypes"

        def start(self, model):
            model.output.register_forward_hook(lambda layer, x, y: seen.append(y.dtype))

        def after_backward(self, step, model):
            seen.extend({p.grad.dtype for p in model.parameters()})

    torch.manual_seed(0)
    model = Transformer(WIDE)
    config = TrainConfig(steps=5, lr=0.01, precision="bf16")
    record = train(model, DATA.load().train(0), config, [Dtypes()], progress=False)
    assert seen == [torch.bfloat16, torch.float32] * 5
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    plain, _ = wide()
    assert record.losses != plain.losses
    assert record.losses == pytest.approx(plain.losses, rel=0.02)  # three digits in each product
    assert (record.provenance["precision"], plain.provenance["precision"]) == ("bf16", "float32")
