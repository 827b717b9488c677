"""The observers of the loss landscape agree with direct computations."""

import copy

import pytest
import torch
import torch.nn.functional as F

from labkit import TrainConfig, train
from labkit.corpora import Digits
from labkit.model.stacks import StackConfig
from labkit.probes.landscape import GradientShift, InputShift, Landscape

CORPUS = Digits(batch=32).load()
BATCH = CORPUS.held_out["validation"][0]
SGD = TrainConfig(steps=3, lr=0.1, optimizer="sgd", momentum=0.0, schedule="constant")


def made(norm="none"):
    torch.manual_seed(0)
    return StackConfig("plain", norm, depth=4, width=16).build()


def gradient_of(net):
    loss = F.cross_entropy(net(BATCH[0]), BATCH[1])
    return loss.item(), torch.autograd.grad(loss, list(net.parameters()))


def test_landscape_is_loss_and_gradient_after_a_step_down_the_gradient():
    net = made()
    probe = Landscape("landscape", (0,), BATCH)
    probe.after_backward(0, net)
    loss, g = gradient_of(net)
    moved = copy.deepcopy(net)
    for p, part in zip(moved.parameters(), g, strict=True):
        p.data -= 0.4 * part
    later, h = gradient_of(moved)
    long = sum((a - b).square().sum() for a, b in zip(g, h, strict=True)) ** 0.5
    length = sum(a.square().sum() for a in g) ** 0.5
    seen = probe.result(net)["0"]
    at = seen["rates"].index(0.4)
    assert [seen["loss"][0], seen["loss"][at]] == pytest.approx([loss, later], rel=1e-4)
    assert seen["change"][at - 1] == pytest.approx((long / length).item(), rel=1e-3)


def test_gradient_shift_is_zero_where_nothing_below_has_moved():
    net = made()
    probe = GradientShift("g", (0,), BATCH)
    probe.after_backward(0, net)
    with torch.no_grad():
        net[-1].get_parameter("weight").add_(1.0)  # the top moves, and lies below nobody
    probe.after_backward(1, net)
    assert probe.result(net)["0"] == pytest.approx([0.0] * 5, abs=1e-6)


def test_gradient_shift_compares_with_the_lower_matrices_moved():
    net = made()
    probe, before = GradientShift("g", (0,), BATCH), copy.deepcopy(net)
    train(net, CORPUS.train(0), SGD, [probe], progress=False)
    again = made()
    train(again, CORPUS.train(0), TrainConfig(**{**vars(SGD), "steps": 1}), progress=False)
    mixed = copy.deepcopy(before)
    mixed[1].load_state_dict(again[1].state_dict())
    g, h = (gradient_of(x)[1][2] for x in (before, mixed))  # the second matrix
    assert probe.result(net)["0"][0] == pytest.approx(((g - h).norm() / g.norm()).item(), rel=1e-3)


def test_inputs_shift_by_what_the_weights_do():
    net = made()
    probe = InputShift("i", (0,), BATCH)
    probe.after_backward(0, net)
    with torch.no_grad():
        net[2].get_parameter("bias").add_(0.5)
    probe.after_backward(1, net)
    wanted = (0.25 / net[2](net[1](BATCH[0].flatten(1))).std(0) ** 2).mean().sqrt().item()
    assert probe.result(net)["0"][0] == pytest.approx(wanted, rel=1e-4)
