"""Runs that train together leave the records that each leaves alone."""

import copy
import math
import weakref
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from each import each
from torch import nn

from labkit.corpora import Digits, Markov
from labkit.experiments import Run, execute_run
from labkit.experiments.engines.task import train_runs
from labkit.experiments.replicates import NotTogether, execute_together, step, train_together
from labkit.experiments.replicates import together as loop
from labkit.experiments.replicates.stack import Stack
from labkit.experiments.replicates.step import Captured
from labkit.model import ModelConfig
from labkit.probes import PROBES
from labkit.stacks import StackConfig
from labkit.training import Observer, TrainConfig, train
from labkit.vision import CNNConfig, MLPConfig

SMALL = ModelConfig(dim=16, depth=2, heads=2, vocab=11, context=8)
TRAIN = TrainConfig(steps=6, lr=3e-3)
# Three replicates that differ in every number that may differ.
THREE = (
    replace(TRAIN, lr=1e-2, weight_decay=0.1, warmup=2),
    replace(TRAIN, lr=3e-3, clip=0.5, schedule="linear"),
    replace(TRAIN, betas=(0.8, 0.95), clip=1e6, schedule="constant", final_lr=0.0),
)
MODELS = {
    **{name: {"recipe": name} for name in ("post", "sandwich", "hybrid*", "ngpt", "dyt", "admin")},
    "pre, alpha": {"norm": "derf"},
    "deepnorm": {"recipe": "deepnorm", "norm": "layer", "activation": "gelu"},
    "realformer": {"recipe": "realformer", "kv_heads": 1},
    "resi-dual": {"recipe": "resi-dual", "norm": "rms-gemma", "tie": True},
    "batch": {"norm": "batch", "kind": "encoder"},
    "rep-batch": {"norm": "rep-batch"},
    "soft caps": {"recipe": "gemma2"},
    "QK-Clip": {"qk_clip": 0.05},
    "temperature": {"qk_norm": "henry", "norm": "instance"},
    "encoder-decoder": {"kind": "encoder-decoder", "recipe": "sub-ln"},
}


def stream(shape, vocab=11, seed=0, source=None):
    torch.manual_seed(seed)
    while True:
        tokens = torch.randint(vocab, (2, *shape))
        inputs = tokens[0] if source is None else (tokens[0], tokens[1], None)
        yield inputs, tokens[1]


def three(config, dtype=torch.float32):
    made = []
    for seed in range(3):
        torch.manual_seed(seed)
        made.append(config.build().to(dtype))
    return made


def streams(config, shape=(4, 8)):
    both = getattr(config, "kind", "") == "encoder-decoder"
    made = [stream(shape, seed=seed, source=both or None) for seed in range(3)]
    return [[next(one) for _ in range(30)] for one in made]


def compare(models, others, records, together, rtol, atol=0.0):
    for record, other in zip(records, together, strict=True):
        assert other.diverged_at == record.diverged_at and other.steps == record.steps
        assert other.losses == pytest.approx(record.losses, rel=rtol)
    for model, other in zip(models, others, strict=True):
        a, b = model.state_dict(), other.state_dict()
        assert a.keys() == b.keys()
        for name in a:
            torch.testing.assert_close(b[name], a[name], rtol=100 * rtol, atol=atol, equal_nan=True)


def alone(models, batches, configs):
    return [train(*three, progress=False) for three in zip(models, batches, configs, strict=True)]


@each(name=MODELS)
def test_every_model_trains_as_it_does_alone(name):
    config = replace(SMALL, **MODELS[name])
    models, others = three(config), three(config)
    batches = streams(config)
    records = alone(models, batches, THREE)
    together = train_together(others, batches, THREE, [[], [], []])
    compare(models, others, records, together, rtol=2e-6, atol=2e-4)


@each(name=["post", "batch", "ngpt", "encoder-decoder"])
def test_in_float64_only_the_last_digits_differ(name):
    config = replace(SMALL, **MODELS[name])
    models, others = three(config, torch.float64), three(config, torch.float64)
    batches, longer = streams(config), [replace(c, steps=12) for c in THREE]
    records = alone(models, batches, longer)
    together = train_together(others, batches, longer, [[], [], []])
    compare(models, others, records, together, rtol=1e-11, atol=1e-8)


def test_bf16_trains_replicates_as_it_does_alone():
    models, others = three(SMALL), three(SMALL)
    batches, half = streams(SMALL), [replace(c, precision="bf16") for c in THREE]
    records, together = (
        alone(models, batches, half),
        train_together(others, batches, half, [[]] * 3),
    )
    for record, other in zip(records, together, strict=True):
        assert other.losses == pytest.approx(record.losses, rel=0.02)
        assert other.provenance["precision"] == record.provenance["precision"] == "bf16"


SGD = TrainConfig(steps=4, lr=0.05, optimizer="sgd")
PICTURES = {
    "perceptron, batch": MLPConfig(width=16),
    "perceptron, layer": MLPConfig(width=16, norm="layer"),
    "convolutions, group": CNNConfig(width=8, depth=2, norm="group"),
    "convolutions, batch": CNNConfig(width=4, depth=1, residual="resnet-v1"),
    "highway": CNNConfig(width=4, depth=1, residual="highway", norm="instance"),
    "stack": StackConfig("pre", "batch", width=16),
    "stack, scaled": StackConfig("resnet-v2", "none", "scaled", width=16),
}


@each(name=PICTURES)
def test_networks_for_images_train_as_they_do_alone(name):
    configs = [SGD, replace(SGD, momentum=0.0, weight_decay=0.01), replace(SGD, lr=0.2, clip=0.1)]
    models, others = three(PICTURES[name]), three(PICTURES[name])
    corpus = Digits(batch=8).load()
    records = alone(models, [corpus.train(seed) for seed in range(3)], configs)
    drawn = [corpus.train(seed) for seed in range(3)]
    together = train_together(others, drawn, configs, [[], [], []])
    compare(models, others, records, together, rtol=5e-6, atol=1e-4)


def test_large_batches_take_another_way_through_rmsnorm_and_agree():
    config = replace(SMALL, dim=64, depth=1, context=32)  # 2¹⁵ values: labkit's own operation
    models, others = three(config), three(config)
    batches, short = streams(config, (16, 32)), [replace(c, steps=2) for c in THREE]
    records = alone(models, batches, short)
    together = train_together(others, batches, short, [[], [], []])
    compare(models, others, records, together, rtol=1e-5, atol=1e-4)


# --- divergence ---

WILD = replace(TRAIN, lr=1e30)


@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_a_row_that_diverges_stops_where_it_stops_alone(norm):
    config = replace(SMALL, norm=norm, recipe="none" if norm == "rms" else "post")
    configs = [THREE[0], WILD, replace(WILD, lr=1e20)]
    models, others = three(config), three(config)
    batches = streams(config)
    records = alone(models, batches, configs)
    together = train_together(others, batches, configs, [[], [], []])
    assert [record.diverged_at is None for record in records] == [True, False, False]
    compare(models, others, records, together, rtol=1e-5, atol=2e-4)


def poisoned(batch, seed, at, factor=math.inf):
    """Hand out batches; the inputs of one step are multiplied by a factor."""
    own = torch.Generator().manual_seed(seed)
    for number in range(10):
        x = torch.randn(batch, 4, generator=own)
        yield x * factor if number == at else x, torch.randint(3, (batch,), generator=own)


class Little(nn.Module):
    """Two layers, BatchNorm between, and every hook that a model may have."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3)
        self.before = 0.0

    def forward(self, x):
        self.width = self.first(x)
        return self.last(self.norm(self.width))

    def before_training(self, x):
        with torch.no_grad():
            self.first.bias.copy_(x[0, 0].expand(5))

    def auxiliary_loss(self):
        return 0.1 * self.width.square().mean()

    @torch.no_grad()
    def after_step(self):
        self.last.weight.copy_(self.last.weight.clamp(-0.3, 0.3))

    def weight_decay_allowed(self):
        return False


class Littles:
    build = staticmethod(Little)


DECAYING = [replace(TRAIN, weight_decay=0.5, lr=0.05, steps=8)] * 3


@pytest.mark.parametrize("at", [0, 3, None])
def test_a_row_that_stops_keeps_its_weights_and_statistics(at):
    models, others = three(Littles), three(Littles)
    alone_ = [train(m, poisoned(6, s, at if s == 1 else None), c, progress=False)
              for m, s, c in zip(models, range(3), DECAYING, strict=True)]  # fmt: skip
    drawn = [poisoned(6, s, at if s == 1 else None) for s in range(3)]
    together = train_together(others, drawn, DECAYING, [[], [], []])
    assert together[1].diverged_at == at
    compare(models, others, alone_, together, rtol=1e-5, atol=1e-5)
    assert all(p.grad is None for p in others[1].parameters()) is (at is not None)


def test_only_the_loss_that_is_recorded_stops_a_row():
    # 1e25² is too much for the auxiliary loss, and BatchNorm hides it from the loss itself
    models, others = three(Littles), three(Littles)
    records = [train(m, poisoned(6, s, 3 if s else None, 1e25), c, progress=False)
               for m, s, c in zip(models, range(3), DECAYING, strict=True)]  # fmt: skip
    drawn = [poisoned(6, s, 3 if s else None, 1e25) for s in range(3)]
    together = train_together(others, drawn, DECAYING, [[], [], []])
    assert [record.diverged_at for record in together] == [None, 4, 4]
    compare(models, others, records, together, rtol=1e-5, atol=1e-5)


class Bare(nn.Module):
    """Two layers, and nothing that hides how large the inputs are."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.last(self.first(x))


class Bares:
    build = staticmethod(Bare)


class Steepest(Observer):
    """Keep the largest gradient of all."""

    name, largest = "steepest", 0.0

    def after_backward(self, step, model):
        self.largest = max(self.largest, *(float(p.grad.abs().max()) for p in model.parameters()))

    def result(self, model):
        return self.largest


def test_a_gradient_whose_square_overflows_counts_as_it_does_alone():
    models, others = three(Bares), three(Bares)
    configs = [replace(TRAIN, lr=0.05, steps=8)] * 3
    made = [[poisoned(6, s, 3 if s else None, 1e20) for s in range(3)] for _ in range(2)]
    records = alone(models, made[0], configs)
    together = train_together(others, made[1], configs, [[Steepest()] for _ in range(3)])
    compare(models, others, records, together, rtol=1e-5, atol=1e-5)
    # float32 ends at 3.4e38: g² is beyond it, (1 − β₂) g · g with β₂ = 0.98 is not
    most = torch.finfo(torch.float32).max
    for record in together[1:]:
        assert most**0.5 < record.probes["steepest"] < (most / 0.02) ** 0.5


def test_a_row_that_diverges_touches_no_other():
    config = replace(SMALL, norm="batch", recipe="none")
    good, bad = three(config), three(config)
    batches = streams(config)
    bad[1].get_parameter("embedding.weight").data.fill_(math.nan)
    kept = train_together(good, batches, THREE, [[], [], []])
    spoilt = train_together(bad, batches, THREE, [[], [], []])
    assert spoilt[1].diverged_at == 0 and spoilt[1].losses == []
    for row in (0, 2):
        assert spoilt[row].losses == kept[row].losses
        for a, b in zip(good[row].parameters(), bad[row].parameters(), strict=True):
            assert torch.equal(a, b)


def test_a_model_s_own_hooks_are_honoured():
    models, others = three(Littles), three(Littles)
    start = copy.deepcopy(others[0].state_dict())
    records = [train(m, poisoned(6, s, None), c, progress=False)
               for m, s, c in zip(models, range(3), DECAYING, strict=True)]  # fmt: skip
    together = train_together(others, [poisoned(6, s, None) for s in range(3)], DECAYING, [[]] * 3)
    compare(models, others, records, together, rtol=1e-5, atol=1e-5)
    assert others[0].last.weight.abs().max() <= 0.3
    assert not torch.equal(others[0].first.bias, start["first.bias"])


# --- probes ---

TIMED = ("pace",)  # measures seconds, which are never equal
DRAWS = ("landscape", "gradient-shift", "input-shift")
SPOKEN = Run(
    replace(SMALL, vocab=96, norm="layer"),
    Markov(batch=4, time=8, symbols=6),
    replace(TRAIN, steps=4),
    probes=tuple(name for name in PROBES if name not in (*DRAWS, *TIMED)),
)
DRAWN = Run(
    StackConfig("pre", "batch", width=8, depth=2),
    Digits(batch=16),
    TrainConfig(steps=23, lr=0.05, optimizer="sgd"),
    probes=(*DRAWS, "fluctuation", "test-batch-statistics"),
)


def of(run):
    faster = replace(run.train, lr=2 * run.train.lr)
    return [run, replace(run, seed=1), replace(run, seed=2, train=faster)]


@pytest.fixture(scope="module")
def measured():
    torch.set_num_threads(1)
    return {
        run: ([execute_run(one) for one in of(run)], execute_together(of(run)))
        for run in (SPOKEN, DRAWN)
    }


@pytest.mark.parametrize(
    "run, probe", [(run, name) for run in (SPOKEN, DRAWN) for name in run.probes]
)
def test_every_probe_sees_each_replicate_as_it_is_alone(measured, run, probe):
    for record, other in zip(*measured[run], strict=True):
        a, b = other.probes[probe], record.probes[probe]
        if probe == "norm-maps":
            a, b = map(without_chosen, (a, b))
        assert_close(a, b)


def without_chosen(maps):
    """Leave out which entry was chosen for its rank: among near equals, rounding decides."""
    return [
        {name: one[name] for name in one if name not in ("points", "lines")}
        | {"x": one["points"][0]}
        for one in maps
    ]


def assert_close(a, b):
    if isinstance(b, dict):
        assert a.keys() == b.keys()
        for key in b:
            assert_close(a[key], b[key])
    elif isinstance(b, list):
        assert len(a) == len(b)
        for one, other in zip(a, b, strict=True):
            assert_close(one, other)
    elif b is None or isinstance(b, str):
        assert a == b
    else:
        # norm-maps rounds to four places: values as near as can be may fall on two sides of one
        assert a == pytest.approx(b, rel=1e-4, abs=1.01e-4 if b == round(b, 4) else 1e-6)


def test_every_probe_is_compared():
    assert {*SPOKEN.probes, *DRAWN.probes, *TIMED} == set(PROBES)


def test_a_record_has_the_same_fields_and_says_how_many_trained(measured):
    for run, (records, together) in measured.items():
        for seed, (record, other) in enumerate(zip(records, together, strict=True)):
            assert other.losses == pytest.approx(record.losses, rel=1e-5)
            assert other.probes.keys() == record.probes.keys()
            assert {*other.provenance} == {*record.provenance, "together", "graphs"}
            assert other.provenance["together"] == 3 and other.provenance["seed"] == seed
            assert other.provenance["graphs"] == "graphs are CUDA's"
            assert other.seconds == together[0].seconds > 0  # as many steps: equal shares
            drawn = run.data.batch * getattr(run.data, "time", 1) * run.train.steps
            assert other.predictions_per_second == pytest.approx(drawn / other.seconds)
            assert other.cpu_seconds > 0


class Nosy(Observer):
    """Look at everything, at every point, and change nothing."""

    def __init__(self, name):
        self.name, self.seen = name, []

    def start(self, model):
        self.seen.append((-1, model.training, self._sum(model)))

    def after_backward(self, step, model):
        slope = sum(p.grad.double().square().sum().item() for p in model.parameters())
        self.seen.append((step, model.training, self._sum(model), slope))
        with torch.no_grad():
            model(torch.zeros(2, 4))  # BatchNorm's buffers are the observer's to put back

    def result(self, model):
        some = [p.grad is None for p in model.parameters()]
        return [*self.seen, (-2, model.training, self._sum(model), all(some), any(some))]

    @staticmethod
    def _sum(model):
        return sum(v.double().sum().item() for v in model.state_dict().values())


def test_observers_see_weights_and_gradients_at_the_same_points():
    models, others = three(Littles), three(Littles)
    seen, watching = ([[Nosy("nosy")] for _ in range(3)] for _ in range(2))
    for s in range(3):
        bad = 3 if s == 1 else None
        one = train(models[s], poisoned(6, s, bad), DECAYING[s], seen[s], progress=False)
        seen[s] = one.probes["nosy"]
    drawn = [poisoned(6, s, 3 if s == 1 else None) for s in range(3)]
    together = train_together(others, drawn, DECAYING, watching)
    for record, one in zip(together, seen, strict=True):
        assert len(record.probes["nosy"]) == len(one)
        for a, b in zip(record.probes["nosy"], one, strict=True):
            assert a == pytest.approx(b, rel=1e-4, nan_ok=True)


# --- what cannot train together ---

ALONE = {
    "experts": (replace(SMALL, experts=2), "vmap does not take this model"),
    "power": (replace(SMALL, norm="power"), r"calling \.item\(\)"),
    "prep-batch": (replace(SMALL, norm="prep-batch"), r"calling \.item\(\)"),
    "noisy-batch": (StackConfig("plain", "noisy-batch", width=8), "random"),
}


@pytest.mark.parametrize("name", ALONE)
def test_models_that_vmap_refuses_train_one_after_another_and_say_why(name):
    model, reason = ALONE[name]
    data = Digits(batch=8) if isinstance(model, StackConfig) else Markov(4, 8, 6)
    runs = of(Run(model, data, replace(TRAIN, steps=2), probes=()))
    for record, run in zip(execute_together(runs), runs, strict=True):
        one = execute_run(run)
        assert record.losses == one.losses and record.probes == one.probes
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(record.provenance["alone"])


@pytest.fixture
def alive(monkeypatch):
    """Count the stacks that are still in memory."""
    held = []
    init = Stack.__init__

    def noted(self, models):
        held.append(weakref.ref(self))
        init(self, models)

    monkeypatch.setattr(Stack, "__init__", noted)
    return lambda: sum(one() is not None for one in held)


def test_what_could_not_train_together_is_out_of_memory_before_each_trains_alone(
    alive, monkeypatch
):
    runs = of(
        Run(replace(SMALL, norm="power"), Markov(4, 8, 6), replace(TRAIN, steps=1), probes=())
    )
    left = []

    def watched(run, device):
        left.append(alive())
        return execute_run(run, device=device)

    monkeypatch.setattr(loop, "execute_run", watched)
    execute_together(runs)
    assert left == [0, 0, 0]


@pytest.mark.parametrize("rehearsing", [True, False])
def test_runs_that_do_not_fit_into_memory_train_in_halves(alive, monkeypatch, rehearsing):
    losses, left = Stack.compute_losses, []

    def limited(self, inputs, targets, buffers=None):
        if len(self.models) > 2 and rehearsing is (buffers is not None):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        left.append(alive())
        return losses(self, inputs, targets, buffers)

    monkeypatch.setattr(Stack, "compute_losses", limited)
    run = replace(SPOKEN, train=replace(TRAIN, steps=2), probes=())
    runs = [replace(run, seed=seed) for seed in range(5)]
    records = execute_together(runs)
    assert [r.provenance.get("together") for r in records] == [2, 2, None, 2, 2]
    assert "alone" not in records[2].provenance and set(left) == {1}
    for seed, (record, run) in enumerate(zip(records, runs, strict=True)):
        assert record.losses == pytest.approx(execute_run(run).losses, rel=1e-5)
        assert record.provenance["seed"] == seed


def test_one_run_that_does_not_fit_is_an_error(monkeypatch):
    def full(*args, **kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(loop, "_train_batched", full)
    monkeypatch.setattr(loop, "execute_run", full)
    with pytest.raises(torch.OutOfMemoryError):
        execute_together(of(SPOKEN))


@pytest.mark.parametrize(
    "refused, said",
    [
        ("compute_gradients", "not captured: compute_gradients"),
        ("update_models", "not captured: update_models"),
        (None, "captured"),
    ],
)
def test_a_record_says_why_a_step_is_no_graph(monkeypatch, refused, said):
    class Refused(Captured):
        def __init__(self, call, device):
            super().__init__(call, device)
            self.graph = None if call.__name__ == refused else "a graph"
            self.reason = "not captured: " + call.__name__

    monkeypatch.setattr(step, "Captured", Refused)
    run = replace(SPOKEN, train=replace(TRAIN, steps=1), probes=())
    for record in execute_together(of(run)):
        assert record.provenance["graphs"] == said


class Idle(Little):
    """Little, with a layer that no output depends on."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(2, 2)


class Dropping(Little):
    """Little, with dropout."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


class Idles:
    build = staticmethod(Idle)


class Droppings:
    build = staticmethod(Dropping)


@pytest.mark.parametrize(
    "kind, reason", [(Idles, "does not depend on idle.weight"), (Droppings, "random")]
)
def test_what_would_differ_is_refused(kind, reason):
    models = three(kind)
    kept = [copy.deepcopy(model.state_dict()) for model in models]
    with pytest.raises(NotTogether, match=reason):
        train_together(models, [poisoned(6, s, None) for s in range(3)], DECAYING, [[]] * 3)
    for model, was in zip(models, kept, strict=True):  # but for before_training, nothing moved
        torch.testing.assert_close(model.last.state_dict(), {k[5:]: v for k, v in was.items()
                                                             if k.startswith("last.")})  # fmt: skip


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"norm_eps": 1e-3}, "config.norm_eps is None in one and 0.001 in another"),
        ({"embedding_size": 0.5}, "config.embedding_size is"),
        ({"hidden": 20}, "config.hidden is"),
        ({"recipe": "post"}, "config.recipe is"),
        ({"softcap": 5.0}, "config.softcap is"),
    ],
)
def test_models_of_two_structures_are_refused(changes, reason):
    models = [SMALL.build(), replace(SMALL, **changes).build()]
    with pytest.raises(NotTogether, match=reason):
        train_together(models, streams(SMALL)[:2], THREE[:2], [[], []])


def test_a_task_of_several_runs_trains_together():
    runs = of(replace(SPOKEN, probes=()))
    assert [r.provenance.get("together") for r in train_runs(tuple(runs), "cpu")] == [3, 3, 3]
    assert "together" not in train_runs((runs[0],), "cpu")[0].provenance
    with pytest.raises(ValueError, match="differ only in seeds"):
        execute_together([SPOKEN, replace(SPOKEN, model=replace(SPOKEN.model, depth=1))])
    with pytest.raises(ValueError, match="these runs train on 'Great GPU'"):
        execute_together(runs, "Great GPU")
