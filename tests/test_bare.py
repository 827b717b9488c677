"""Bare perceptrons agree with their formula; groups of ghost batches share statistics."""

import pytest
import torch
from each import each
from torch import nn

from labkit.corpora import Points
from labkit.experiments import Run, execute_run
from labkit.experiments.replicates import execute_together
from labkit.model.bare import NORMS, BareMLPConfig, GhostBatchNorm
from labkit.norms import BatchNorm
from labkit.training import TrainConfig

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(0))


def standardize(x, dim):
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, correction=0, keepdim=True) + 1e-5).sqrt()


BY_HAND = {
    "none": lambda x: x,
    "layer": lambda x: standardize(x, 1),
    "batch": lambda x: standardize(x, 0),
    "ghost": lambda x: torch.cat([standardize(part, 0) for part in x.split(4)]),
}


def linears(net):
    return [part for part in net if isinstance(part, nn.Linear)]


def build(name="none", **fields):
    """Build a net with a norm; `ghost` is batch norm in groups of four."""
    norm = {"norm": "batch", "ghost": 4} if name == "ghost" else {"norm": name}
    torch.manual_seed(1)
    return BareMLPConfig(**{**norm, "width": 6, "inputs": 5, "classes": 3, **fields}).build()


@each(name=BY_HAND, relu=[True, False])
def test_a_hidden_layer_is_linear_norm_and_rectifier(name, relu):
    assert {*NORMS} == {*BY_HAND} - {"ghost"}
    net = build(name, relu=relu, depth=3)
    x, (*hidden, last) = X, linears(net)
    assert len(hidden) == 3
    for linear in hidden:
        x = BY_HAND[name](x @ linear.weight.T + linear.bias)
        x = x.relu() if relu else x
    torch.testing.assert_close(net(X), x @ last.weight.T + last.bias)


def test_without_norm_and_rectifier_it_is_one_affine_map():
    net = build(relu=False, depth=4)
    a, b = X[:1], X[1:2]
    torch.testing.assert_close(net(a + b) + net(0 * a), net(a) + net(b))


def test_weights_start_normal_with_variance_one_over_inputs_and_biases_at_zero():
    net = build(inputs=400, width=300, classes=200)
    for linear in linears(net):
        spread = linear.weight.std().item() * linear.in_features**0.5
        assert spread == pytest.approx(1, rel=0.01)
        assert linear.weight.mean().abs() < 1e-3 and not linear.bias.any()


@each(name=BY_HAND)
def test_only_linear_layers_have_parameters(name):
    net = build(name)
    assert len([*net.parameters()]) == 2 * len(linears(net)) == 6


@each(norm=["none", "layer", "batch"])
def test_a_seed_draws_the_same_weights_whatever_the_norm(norm):
    for ours, theirs in zip(linears(build(norm)), linears(build()), strict=True):
        assert torch.equal(ours.weight, theirs.weight)


# --- ghost batches ---


def test_a_group_of_all_rows_is_batch_norm():
    ghost, whole = GhostBatchNorm(5, size=12), BatchNorm(5)
    torch.testing.assert_close(ghost(X), whole(X))
    torch.testing.assert_close(ghost.running_mean, whole.running_mean)
    torch.testing.assert_close(ghost.running_var, whole.running_var)
    torch.testing.assert_close(ghost.eval()(X), whole.eval()(X))


def test_groups_are_standardized_each_by_itself_then_scaled_and_shifted():
    norm = GhostBatchNorm(5, size=3)
    with torch.no_grad():
        norm.weight.copy_(torch.arange(5.0))
        norm.bias.copy_(torch.arange(5.0) - 2)
    wanted = torch.cat([standardize(part, 0) for part in X.split(3)])
    torch.testing.assert_close(norm(X), wanted * norm.weight + norm.bias)


def test_a_row_hears_its_group_and_nobody_else():
    norm = GhostBatchNorm(5, size=4)
    slope = torch.autograd.functional.jacobian(norm, X).abs().sum((1, 3))  # rows by rows
    groups = torch.arange(12) // 4
    assert ((slope > 0) == (groups[:, None] == groups[None])).all()


def test_running_statistics_are_the_average_over_groups():
    norm = GhostBatchNorm(5, size=3, momentum=0.25)
    norm(X)
    parts = torch.stack(X.split(3))
    torch.testing.assert_close(norm.running_mean, 0.25 * parts.mean(1).mean(0))
    wanted = 0.75 + 0.25 * parts.var(1).mean(0)  # the unbiased variance, as BatchNorm has it
    torch.testing.assert_close(norm.running_var, wanted)
    assert norm.num_batches_tracked == 1


def test_in_evaluation_there_are_no_groups():
    ghost, whole = GhostBatchNorm(5, size=3), BatchNorm(5)
    ghost(X)
    whole.load_state_dict(ghost.state_dict())
    odd = X[:7]  # no multiple of the size
    torch.testing.assert_close(ghost.eval()(odd), whole.eval()(odd))


@pytest.mark.parametrize("axis", [1, -1])
def test_groups_of_images_and_of_sequences_keep_their_space(axis):
    x = torch.randn(6, 4, 3) if axis == 1 else torch.randn(6, 4)
    norm = GhostBatchNorm(4, size=2, channel_axis=axis)
    wanted = torch.cat([standardize(part, (0, 2) if axis == 1 else 0) for part in x.split(2)])
    torch.testing.assert_close(norm(x), wanted)


def test_ghosts_train_together_as_each_trains_alone():
    data = Points("rings", count=24)
    model = BareMLPConfig("batch", ghost=4, width=6, inputs=2, classes=2)
    runs = [Run(model, data, TrainConfig(8, 1e-2), s, probes=("whole-set",)) for s in range(3)]
    for run, record in zip(runs, execute_together(runs), strict=True):
        alone = execute_run(run)
        assert record.provenance["together"] == 3
        assert record.losses == pytest.approx(alone.losses, rel=1e-4)
        for split, found in alone.probes["whole-set"].items():
            assert record.probes["whole-set"][split] == pytest.approx(found, rel=1e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BareMLPConfig("rms"), "unknown norm 'rms'"),
        (lambda: BareMLPConfig(depth=0), "depth must be at least 1, got 0"),
        (
            lambda: BareMLPConfig("layer", ghost=4),
            "ghost applies only to norm='batch'.*norm='layer'",
        ),
        (lambda: BareMLPConfig("batch", ghost=1), "needs at least two rows.*got size 1"),
        (lambda: GhostBatchNorm(5, size=8)(X), "multiple of 8, got 12; change"),
    ],
)
def test_what_makes_no_net_and_no_groups_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
