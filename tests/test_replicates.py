"""Runs that train together leave the same records as runs that train separately."""

import copy
import math
import weakref
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from each import some_quick
from torch import nn

from labkit.corpora import Digits, FewDigits, Text
from labkit.experiments import Run, execute_run
from labkit.experiments.replicates import NotTogether, execute_together, train_together
from labkit.experiments.replicates.optimizer import Optimizer
from labkit.experiments.replicates.stack import Stack
from labkit.experiments.replicates.step import Step
from labkit.model import ModelConfig
from labkit.model.bare import BareMLPConfig
from labkit.model.stacks import StackConfig
from labkit.model.vision import CNNConfig, MLPConfig
from labkit.probes import PROBES
from labkit.training import Observer, TrainConfig, train

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
    return [[next(one) for _ in range(12)] for one in made]


def compare(models, others, records, together, rtol, atol=0.0):
    for record, other in zip(records, together, strict=True):
        assert other.diverged_at == record.diverged_at and other.steps == record.steps
        assert other.losses == pytest.approx(record.losses, rel=rtol)
    for model, other, record in zip(models, others, records, strict=True):
        a, b = model.state_dict(), other.state_dict()
        assert a.keys() == b.keys()
        # Weights that explode carry rounding along: by how much depends on the processor.
        room = (100 if record.diverged_at is None else 10_000) * rtol
        for name in a:
            torch.testing.assert_close(b[name], a[name], rtol=room, atol=atol, equal_nan=True)


def train_both(make, configs, draw, dtype=torch.float32, rtol=2e-6, atol=2e-4):
    """Train three models separately and together, and compare all results."""
    models, others = three(make, dtype), three(make, dtype)
    records = [
        train(model, batches, config, progress=False)
        for model, batches, config in zip(models, draw(), configs, strict=True)
    ]
    together = train_together(others, draw(), configs, [[], [], []])
    compare(models, others, records, together, rtol, atol)
    return others, together


@pytest.mark.parametrize("name", some_quick(MODELS, "ngpt", "batch", "QK-Clip", "encoder-decoder"))
def test_every_model_trains_as_it_does_alone(name):
    config = replace(SMALL, **MODELS[name])
    longer = [replace(c, steps=12) for c in THREE]
    train_both(config, longer, lambda: streams(config), torch.float64, rtol=1e-11, atol=1e-8)


def test_so_it_does_in_float32_and_with_batches_that_take_another_way_through_rmsnorm():
    train_both(SMALL, THREE, lambda: streams(SMALL))
    config = replace(SMALL, dim=64, depth=1, context=32)  # 2¹⁵ values: labkit's own operation
    short = [replace(c, steps=2) for c in THREE]
    train_both(config, short, lambda: streams(config, (16, 32)), rtol=1e-5, atol=1e-4)


def test_so_it_does_in_bf16():
    half = [replace(c, precision="bf16") for c in THREE]
    _, together = train_both(SMALL, half, lambda: streams(SMALL), rtol=0.02, atol=0.02)
    assert {record.provenance["precision"] for record in together} == {"bf16"}


SGD = TrainConfig(steps=4, lr=0.05, optimizer="sgd")
PICTURES = {
    "perceptron, batch": MLPConfig(width=16),
    "perceptron, layer": MLPConfig(width=16, norm="layer"),
    "convolutions, group": CNNConfig(width=8, depth=2, norm="group"),
    "convolutions, batch": CNNConfig(width=4, depth=1),
    "highway": StackConfig("highway", width=16),
    "stack": StackConfig("pre", "batch", width=16),
    "stack, scaled": StackConfig("resnet-v2", "none", "scaled", width=16),
}


@pytest.mark.parametrize("name", some_quick(PICTURES, "convolutions, batch", "stack"))
def test_networks_for_images_train_as_they_do_alone(name):
    configs = [SGD, replace(SGD, momentum=0.0, weight_decay=0.01), replace(SGD, lr=0.2, clip=0.1)]
    corpus = Digits(batch=8).load()
    train_both(PICTURES[name], configs, lambda: [*map(corpus.train, range(3))], rtol=5e-6)


# --- divergence ---

WILD = replace(TRAIN, lr=1e30)


@pytest.mark.parametrize("norm", ["rms", "batch"])
def test_a_row_that_diverges_stops_where_it_stops_alone(norm):
    config = replace(SMALL, norm=norm, recipe="none" if norm == "rms" else "post")
    configs = [THREE[0], WILD, replace(WILD, lr=1e20)]
    _, together = train_both(config, configs, lambda: streams(config), rtol=1e-5)
    assert [record.diverged_at is None for record in together] == [True, False, False]


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


def poisoned(at):
    """Draw batches for three rows; at one step the inputs of the second are infinite."""

    def draw(seed):
        own = torch.Generator().manual_seed(seed)
        for number in range(10):
            x = torch.randn(6, 4, generator=own)
            bad = number == at and seed == 1
            yield x * math.inf if bad else x, torch.randint(3, (6,), generator=own)

    return [draw(seed) for seed in range(3)]


@pytest.mark.parametrize("at", [0, 3, None])
def test_a_row_that_stops_keeps_its_weights_and_statistics(at):
    others, together = train_both(Littles, DECAYING, lambda: poisoned(at), rtol=1e-5, atol=1e-5)
    assert together[1].diverged_at == at
    assert all(p.grad is None for p in others[1].parameters()) is (at is not None)


# --- the stack and its optimizer ---


def batches(rows=3):
    torch.manual_seed(0)
    return [(torch.randint(11, (4, 8)), torch.randint(11, (4, 8))) for _ in range(rows)]


def step_of(**changes):
    return Step(Stack(three(replace(SMALL, **changes))), THREE, [0.1] * 3, batches())


@pytest.mark.parametrize("changes", [{"norm": "batch"}, {"recipe": "ngpt"}, {"qk_clip": 0.05}])
def test_a_rehearsal_leaves_no_trace(changes):
    step = step_of(**changes)
    stack, state = step.stack, torch.get_rng_state()
    held = {"weights": stack.weights, "gradients": stack.gradients, **stack.buffers}
    kept = {name: tensor.clone() for name, tensor in held.items()}
    stack.rehearse_step(step.inputs, step.targets)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in held.items())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_weight_decay_may_act_on_matrices_alone(kind):
    rate = 0.05 if kind == "sgd" else 1e-2
    decaying = replace(TRAIN, optimizer=kind, lr=rate, weight_decay=0.5, decayed="matrices")
    configs = [decaying, replace(decaying, weight_decay=0.0), replace(decaying, lr=rate / 2)]
    train_both(SMALL, configs, lambda: streams(SMALL), rtol=1e-4, atol=1e-5)
    stack = Stack(three(SMALL))
    marked = dict(zip(stack.parameters, stack.mark_matrices().split(
        [one[0].numel() for one in stack.parameters.values()]), strict=True))  # fmt: skip
    assert {name for name, mark in marked.items() if mark.all()} == {
        name for name, one in SMALL.build().named_parameters() if one.ndim > 1
    }


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_each_row_has_torch_s_optimizer_with_its_own_numbers(kind):
    configs = [
        TrainConfig(5, 1e-2, kind, weight_decay=0.1, warmup=3),
        TrainConfig(5, 3e-2, kind, betas=(0.5, 0.7), momentum=0.0, clip=0.3, schedule="linear"),
    ]
    torch.manual_seed(0)
    weights, decays = torch.randn(2, 7), [config.weight_decay for config in configs]
    gradients = torch.empty_like(weights)
    rows = [nn.Parameter(row.clone()) for row in weights]
    theirs = []
    for row, c in zip(rows, configs, strict=True):
        if kind == "sgd":
            made = torch.optim.SGD([row], c.lr, c.momentum, weight_decay=c.weight_decay)
        else:
            made = torch.optim.AdamW([row], c.lr, c.betas, weight_decay=c.weight_decay)
        theirs.append(made)
    ours = Optimizer(weights, gradients, configs, decays)
    for step in range(5):
        # float32 ends at 3.4e38: g² is beyond it, (1 − β₂) g · g is not
        gradients.normal_().mul_(3e19 if step == 4 else 1)
        for row, slope, config, one in zip(rows, gradients.clone(), configs, theirs, strict=True):
            row.grad = slope
            one.param_groups[0]["lr"] = config.lr_at(step)
            if config.clip is not None:
                nn.utils.clip_grad_norm_([row], config.clip)
            one.step()
        ours.update_weights(step)
        torch.testing.assert_close(weights, torch.stack([*map(torch.Tensor.detach, rows)]))


# --- probes ---

TIMED = ("pace",)  # measures seconds, which are never equal
DRAWS = ("landscape", "gradient-shift", "input-shift", "contrast")
WHOLE = ("whole-set",)
SPOKEN = Run(
    replace(SMALL, vocab=96, norm="layer"),
    Text(batch=4, time=8),
    replace(TRAIN, steps=4),
    probes=tuple(name for name in PROBES if name not in (*DRAWS, *WHOLE, *TIMED)),
)
DRAWN = Run(
    StackConfig("pre", "batch", width=8, depth=2),
    Digits(batch=16),
    TrainConfig(steps=23, lr=0.05, optimizer="sgd"),
    probes=(*DRAWS, "fluctuation", "test-batch-statistics"),
)
FEW = Run(
    BareMLPConfig("batch", ghost=4, width=8), FewDigits(images=16), TrainConfig(9), probes=WHOLE
)


def of(run):
    faster = replace(run.train, lr=2 * run.train.lr)
    return [run, replace(run, seed=1), replace(run, seed=2, train=faster)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(replace(SPOKEN, probes=("validation", "test", "attention")), id="few probes"),
        pytest.param(SPOKEN, id="text", marks=pytest.mark.slow),
        pytest.param(DRAWN, id="pictures", marks=pytest.mark.slow),
        pytest.param(FEW, id="few pictures"),
    ],
)
def test_a_record_and_every_probe_see_each_replicate_as_it_is_alone(run):
    torch.set_num_threads(1)
    records, together = [execute_run(one) for one in of(run)], execute_together(of(run))
    for seed, (record, other) in enumerate(zip(records, together, strict=True)):
        assert other.losses == pytest.approx(record.losses, rel=1e-5)
        assert other.probes.keys() == record.probes.keys()
        for probe in run.probes:
            a, b = other.probes[probe], record.probes[probe]
            if probe == "norm-maps":
                a, b = map(without_chosen, (a, b))
            assert_close(a, b)
        assert {*other.provenance} == {*record.provenance, "together"}
        assert other.provenance["together"] == 3 and other.provenance["seed"] == seed
        assert other.seconds == together[0].seconds > 0  # as many steps: equal shares
        drawn = next(run.data.load().train(0))[1].numel() * run.train.steps
        assert other.predictions_per_second == pytest.approx(drawn / other.seconds)
        assert other.cpu_seconds > 0


def test_every_probe_is_compared():
    assert {*SPOKEN.probes, *DRAWN.probes, *FEW.probes, *TIMED} == set(PROBES)


def without_chosen(maps):
    """Leave out the selected entry: rounding decides among nearly equal ones."""
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


class Nosy(Observer):
    """An observer that reads everything, at every point, and changes nothing."""

    def __init__(self):
        self.name, self.seen = "nosy", []

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
    alone = [
        train(model, batches, config, [Nosy()], progress=False)
        for model, batches, config in zip(three(Littles), poisoned(3), DECAYING, strict=True)
    ]
    together = train_together(three(Littles), poisoned(3), DECAYING, [[Nosy()] for _ in range(3)])
    for record, one in zip(together, alone, strict=True):
        assert len(record.probes["nosy"]) == len(one.probes["nosy"])
        for a, b in zip(record.probes["nosy"], one.probes["nosy"], strict=True):
            assert a == pytest.approx(b, rel=1e-4, nan_ok=True)


# --- what cannot train together ---

ALONE = {
    "experts": (replace(SMALL, vocab=96, experts=2), "vmap does not support this model"),
    "power": (replace(SMALL, vocab=96, norm="power"), ".item()"),
    "noisy-batch": (StackConfig("plain", "noisy-batch", width=8), "random"),
}


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


@pytest.mark.parametrize("name", ALONE)
def test_models_that_vmap_refuses_train_one_after_another_and_say_why(name, alive, monkeypatch):
    model, reason = ALONE[name]
    data = Digits(batch=8) if isinstance(model, StackConfig) else Text(4, 8)
    runs = of(Run(model, data, replace(TRAIN, steps=2), probes=()))
    left = []

    def watched(run, device="cpu"):
        left.append(alive())
        return execute_run(run, device=device)

    monkeypatch.setattr("labkit.experiments.replicates.together.execute_run", watched)
    for record, run in zip(execute_together(runs), runs, strict=True):
        assert record.losses == execute_run(run).losses
        assert reason in record.provenance["alone"]
    assert left == [0, 0, 0]  # what could not train together is out of memory by then


@pytest.mark.parametrize("rehearsing", [True, False])
def test_runs_that_do_not_fit_into_memory_train_in_halves(alive, monkeypatch, rehearsing):
    losses, left, rehearsed = Stack.compute_losses, [], weakref.WeakSet()

    def limited(self, inputs, targets):
        if len(self.models) > 2 and rehearsing is (self not in rehearsed):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
        rehearsed.add(self)
        left.append(alive())
        return losses(self, inputs, targets)

    monkeypatch.setattr(Stack, "compute_losses", limited)
    run = replace(SPOKEN, train=replace(TRAIN, steps=2), probes=())
    runs = [replace(run, seed=seed) for seed in range(5)]
    records = execute_together(runs)
    assert [r.provenance.get("together") for r in records] == [2, 2, None, 2, 2]
    assert "alone" not in records[2].provenance and set(left) == {1}
    for seed, (record, run) in enumerate(zip(records, runs, strict=True)):
        assert record.losses == pytest.approx(execute_run(run).losses, rel=1e-5)
        assert record.provenance["seed"] == seed


class Idle(Little):
    """Little, with a layer that does not affect the output."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(2, 2)


class Dropping(Little):
    """Little, with dropout."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, self.training)


@pytest.mark.parametrize(
    "kind, reason", [(Idle, "does not depend on idle.weight"), (Dropping, "random")]
)
def test_what_would_differ_is_refused(kind, reason):
    models = [kind() for _ in range(3)]
    kept = [copy.deepcopy(model.last.state_dict()) for model in models]
    with pytest.raises(NotTogether, match=reason):
        train_together(models, poisoned(None), DECAYING, [[]] * 3)
    for model, was in zip(models, kept, strict=True):  # but for before_training, nothing moved
        torch.testing.assert_close(dict(model.last.state_dict()), dict(was))


@pytest.mark.parametrize("changes", [{"norm_eps": 1e-3}, {"hidden": 20}, {"recipe": "post"}])
def test_models_of_two_structures_are_refused(changes):
    models, (name,) = [SMALL.build(), replace(SMALL, **changes).build()], changes
    with pytest.raises(NotTogether, match=f"config.{name} is .* in one model and .* in another"):
        train_together(models, streams(SMALL)[:2], THREE[:2], [[], []])


def test_a_task_of_several_runs_trains_together():
    runs = of(replace(SPOKEN, probes=()))
    assert [r.provenance["together"] for r in execute_together(runs)] == [3, 3, 3]
    assert "together" not in execute_together(runs[:1])[0].provenance
    with pytest.raises(ValueError, match="differ in nothing but seeds"):
        execute_together([SPOKEN, replace(SPOKEN, model=replace(SPOKEN.model, depth=1))])
    with pytest.raises(ValueError, match="this run needs the device 'Great GPU'"):
        execute_together(runs, "Great GPU")
