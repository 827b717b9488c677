"""A step works on tensors that stay where they are, so that a GPU can record it."""

from dataclasses import replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from labkit.experiments.replicates.graph import WARM, Captured
from labkit.experiments.replicates.optimizer import Optimizer, numbers_of
from labkit.experiments.replicates.stack import Stack, Template
from labkit.experiments.replicates.step import Step
from labkit.model import ModelConfig
from labkit.training import TrainConfig

MODEL = ModelConfig(dim=16, depth=1, heads=2, vocab=11, context=8)
TRAIN = TrainConfig(steps=12, lr=1e-2, clip=1.0, weight_decay=0.1)
MODELS = [MODEL, replace(MODEL, norm="batch"), replace(MODEL, recipe="ngpt")]
MODELS += [replace(MODEL, qk_clip=0.05)]


def batches(rows=3, seed=0):
    torch.manual_seed(seed)
    return [(torch.randint(11, (4, 8)), torch.randint(11, (4, 8))) for _ in range(rows)]


def step_of(model=MODEL, train=TRAIN, rows=3, device="cpu"):
    torch.manual_seed(0)
    models = [model.build().to(device) for _ in range(rows)]
    return Step(Stack(models), [train] * rows, [0.1] * rows, batches(rows))


def places(step):
    """Say where everything lies that a step may read or write."""
    optimizer = step.optimizer
    held = {
        "weights": step.stack.weights, "gradients": step.stack.gradients, "mean": optimizer.mean,
        "square": optimizer.square, "inputs": step.inputs, "targets": step.targets,
        "numbers": step.numbers, "losses": step.losses, "alive": step.alive,
        **step.stack.parameters, **step.stack.slopes, **step.stack.buffers,
    }  # fmt: skip
    for row, model in enumerate(step.stack.models):
        held |= {f"{row} {name}": value for name, value in model.named_parameters()}
        held |= {f"{row} slope {name}": p.grad for name, p in model.named_parameters()}
        held |= {f"{row} {name}": value for name, value in model.named_buffers()}
    return {name: (value.data_ptr(), tuple(value.shape)) for name, value in held.items()}


class Asked(TorchDispatchMode):
    """Refuse every operation that tells Python what a tensor holds."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default):
            raise AssertionError(f"{func} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_step_asks_no_tensor_what_it_holds_and_moves_none(model):
    step = step_of(model)
    before = places(step)
    for i in range(2):
        step.put(i, batches(seed=i))
        with Asked():
            step.look()
            step.move()
    assert places(step) == before
    assert step.losses.isfinite().all() and step.alive.all()


def test_asking_is_noticed():
    with Asked(), pytest.raises(AssertionError, match="waits for the device"):
        torch.ones(2).sum().item()


def test_the_models_are_rows_of_the_stack():
    step = step_of(replace(MODEL, norm="batch", tie=True))
    step.put(0, batches())
    step.look()
    for row, model in enumerate(step.stack.models):
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, step.stack.parameters[name][row])
            assert parameter.grad is not None and parameter.grad.abs().sum() > 0
        alone = model.train()
        inputs, targets = batches()[row]
        loss = torch.nn.functional.cross_entropy(alone(inputs).flatten(0, 1), targets.flatten())
        slopes = torch.autograd.grad(loss, list(alone.parameters()))
        for parameter, slope in zip(alone.parameters(), slopes, strict=True):
            torch.testing.assert_close(parameter.grad, slope, rtol=1e-4, atol=1e-6)
    step.move()
    moved = step.stack.models[1].get_parameter("output.weight")
    assert torch.equal(moved, step.stack.parameters["embedding.weight"][1])


@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_rehearsal_leaves_no_trace(model):
    step = step_of(model)
    stack, inputs, targets = step.stack, step.inputs, step.targets
    kept = {name: value.clone() for name, value in stack.buffers.items()}
    weights, slopes, state = stack.weights.clone(), stack.gradients.clone(), torch.get_rng_state()
    stack.rehearse(inputs, targets)
    assert torch.equal(stack.weights, weights) and torch.equal(stack.gradients, slopes)
    assert all(torch.equal(value, kept[name]) for name, value in stack.buffers.items())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_template_gives_back_what_it_was_lent():
    model = replace(MODEL, qk_clip=1.0).build()
    template = Template(model)
    own = dict(template.model.named_parameters())
    lent = {name: value.detach() * 0 for name, value in model.named_parameters()}
    tokens = torch.zeros(1, 4, dtype=torch.long)
    result, made = template.run(lambda module: module(tokens), lent)
    assert result.abs().max() == 0 and list(made) == ["blocks.0.attention.sublayer.largest_logit"]
    assert all(value is own[name] for name, value in template.model.named_parameters())
    with pytest.raises(ZeroDivisionError):
        template.run(lambda module: 1 / 0, lent)
    assert all(value is own[name] for name, value in template.model.named_parameters())
    assert dict(template.model.named_buffers()).keys() == {"angles"}


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_each_row_has_torch_s_optimizer_with_its_own_numbers(kind):
    configs = [
        TrainConfig(5, 1e-2, kind, weight_decay=0.1, warmup=3),
        TrainConfig(5, 3e-2, kind, betas=(0.5, 0.7), momentum=0.0, clip=0.3, schedule="linear"),
    ]
    torch.manual_seed(0)
    weights = torch.randn(2, 7, dtype=torch.float64)
    gradients = torch.empty_like(weights)
    rows = [torch.nn.Parameter(row.clone()) for row in weights]
    theirs = []
    for row, c in zip(rows, configs, strict=True):
        if kind == "sgd":
            made = torch.optim.SGD([row], c.lr, c.momentum, weight_decay=c.weight_decay)
        else:
            made = torch.optim.AdamW([row], c.lr, c.betas, weight_decay=c.weight_decay)
        theirs.append(made)
    ours = Optimizer(weights, gradients, configs)
    table = numbers_of(configs, [c.weight_decay for c in configs])
    for step in range(5):
        gradients.normal_()
        for row, slope, config, one in zip(rows, gradients.clone(), configs, theirs, strict=True):
            row.grad = slope
            one.param_groups[0]["lr"] = config.lr_at(step)
            if config.clip is not None:
                torch.nn.utils.clip_grad_norm_([row], config.clip)
            one.step()
        ours(table[step])
        torch.testing.assert_close(weights, torch.stack([*map(torch.Tensor.detach, rows)]))


def test_without_a_gpu_a_captured_call_is_the_call():
    calls = []
    captured = Captured(lambda: calls.append(1), torch.device("cpu"))
    for _ in range(WARM + 2):
        captured()
    assert len(calls) == WARM + 2 and captured.graph is None
    assert captured.reason == "graphs are CUDA's"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs need a GPU")
@pytest.mark.parametrize("model", MODELS, ids=["rms", "batch", "ngpt", "QK-Clip"])
def test_a_graph_trains_as_the_call_does(model):
    plain, recorded = step_of(model, device="cuda"), step_of(model, device="cuda")
    look = Captured(recorded.look, torch.device("cuda"))
    move = Captured(recorded.move, torch.device("cuda"))
    for i in range(TRAIN.steps):
        for step in (plain, recorded):
            step.put(i, batches(seed=i))
        plain.look()
        plain.move()
        look()
        move()
        torch.testing.assert_close(recorded.losses, plain.losses, rtol=1e-4, atol=1e-5)
    assert look.reason == move.reason == "" and look.graph is not None
    torch.testing.assert_close(recorded.stack.weights, plain.stack.weights, rtol=1e-3, atol=1e-4)
