"""nGPT: vectors keep length 1, scales are stored divided, and some changes have no effect."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from labkit.model import ModelConfig, Transformer
from labkit.norms.unit import unit
from labkit.placements import Place, SphereStep
from labkit.placements.sphere import ngpt_update, unit_rows_
from labkit.training import TrainConfig, make_optimizer, train

TOKENS = torch.randint(11, (3, 6), generator=torch.Generator().manual_seed(7))
DIM = 16
# The axis of the stream in each matrix: its input, or its output where it writes to the stream.
AXES = {
    "embedding": 1,
    "output": 1,
    "q": 1,
    "k": 1,
    "v": 1,
    "gate": 1,
    "up": 1,
    "out": 0,
    "down": 0,
}


def make(**change) -> Transformer:
    wanted = {"dim": DIM, "heads": 2, "vocab": 11, "depth": 3, "hidden": 24}
    return Transformer(ModelConfig(recipe="ngpt", **{**wanted, **change}))


def learn(model: nn.Module, steps: int = 5, lr: float = 1e-2, **more) -> None:
    config = TrainConfig(steps=steps, lr=lr, schedule="constant", **more)
    train(model, itertools.repeat((TOKENS, TOKENS.roll(-1, 1))), config, progress=False)


def lengths(model: nn.Module) -> dict[str, Tensor]:
    """Measure the length of every matrix along the axis of the stream."""
    return {
        name: (weight.double() ** 2).sum(dim=AXES[name.split(".")[-2]]).sqrt()
        for name, weight in model.named_parameters()
        if weight.ndim == 2
    }


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_every_matrix_has_unit_vectors_at_first_and_after_training(optimizer):
    model = make()
    before = {name: p.clone() for name, p in model.named_parameters()}
    found = lengths(model)
    assert len(found) == 2 + 3 * 7
    learn(model, optimizer=optimizer)
    for name, length in [*found.items(), *lengths(model).items()]:
        # float32: a sum of at most 24 squares, one root, one division
        torch.testing.assert_close(length, torch.ones_like(length), rtol=0, atol=1e-6, msg=name)
    moved = [name for name, p in model.named_parameters() if (p - before[name]).abs().max() > 1e-6]
    assert set(moved) == set(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_step_and_the_function_are_one_formula(dtype):
    step = SphereStep(nn.Identity, nn.Linear(8, 8), Place(dim=8)).to(dtype)
    with torch.no_grad():
        step.alpha.weight.copy_(torch.randn(8))
    x = torch.randn(5, 8, dtype=dtype)
    x[0] = 0
    write = step.sublayer(x)
    assert torch.equal(step(x), ngpt_update(x, write, step.alpha()))
    w = torch.randn(6, 8, dtype=dtype)
    w[2] = 0
    assert torch.equal(unit_rows_(w.clone(), 1), unit(w)), "zeros stay zeros"
    assert torch.equal(unit_rows_(w.clone(), 0), unit(w, 0))


@pytest.mark.parametrize("dim", [16, 64])
def test_adam_moves_the_share_by_the_rate_times_0_05_times_sqrt_d(dim):
    model, lr = make(dim=dim).double(), 1e-3
    before = {n: s().detach().clone() for n, s in scales(model).items()}
    learn(model, steps=1, lr=lr)
    for name, scale in scales(model).items():
        factor = {"alpha": 0.05 * dim**0.5, "s_uv": 1.0}.get(name.split(".")[-1], dim**0.5)
        moved = (scale() - before[name]).abs()
        # Adam's first step is lr · g / (|g| + 1e-8): the rate itself, where the gradient is no 0
        assert moved.max().item() == pytest.approx(lr * factor, rel=1e-3), name
        assert moved.median().item() == pytest.approx(lr * factor, rel=1e-2), name


def scales(model: nn.Module) -> dict[str, nn.Module]:
    return {n: m for n, m in model.named_modules() if type(m).__name__ == "Scale"}


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_weight_decay_is_left_out(optimizer):
    config = TrainConfig(weight_decay=0.1, optimizer=optimizer)
    groups = make_optimizer(make(), config).param_groups
    assert [group["weight_decay"] for group in groups] == [0.0]
    other = Transformer(ModelConfig(dim=DIM, heads=2))
    assert make_optimizer(other, config).param_groups[0]["weight_decay"] == 0.1
