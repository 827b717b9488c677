"""Muon by name: matrices inside blocks step by PyTorch's rule, everything else by AdamW's."""

import pytest
import torch

from labkit.corpora import Markov
from labkit.experiments import Run
from labkit.experiments.replicates import estimate_need
from labkit.model import ModelConfig
from labkit.model.vision import MLPConfig
from labkit.training import Muon, TrainConfig, make_optimizer

MUON = TrainConfig(steps=3, optimizer="muon", lr=0.1, weight_decay=0.5)


def test_a_step_is_the_formula():
    torch.manual_seed(0)
    model = ModelConfig(dim=16, depth=1, heads=2, context=8, vocab=9).build()
    optimizer = make_optimizer(model, MUON)
    assert isinstance(optimizer, Muon)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    model(torch.arange(8)[None]).square().mean().backward()
    name = "blocks.0.attention.sublayer.q.weight"
    dict(model.named_parameters())[name].grad = torch.randn(16, 16)  # of full rank
    for group in optimizer.param_groups:  # as the schedule does: it holds for both
        group["lr"] = 0.05
    optimizer.step()
    after = dict(model.named_parameters())
    moved = (before[name] * (1 - 0.05 * 0.5) - after[name].detach()) / (0.05 * 0.2 * 16**0.5)
    values = torch.linalg.svdvals(moved)
    assert values.min() > 0.6 and values.max() < 1.25, "orthogonal, but for Newton and Schulz"
    u, _, v = torch.linalg.svd(after[name].grad)
    assert torch.trace(u.mT @ moved @ v.mT).item() == pytest.approx(values.sum().item(), rel=0.02)
    gain = "final_norm.weight"  # AdamW's first step: the rate, against the gradient's sign
    wanted = before[gain] * (1 - 0.05 * 0.5) - 0.05 * after[gain].grad.sign()
    torch.testing.assert_close(after[gain].detach(), wanted, atol=1e-4, rtol=1e-4)
    optimizer.zero_grad()
    assert all(p.grad is None for p in model.parameters())


def test_a_model_without_blocks_is_refused():
    with pytest.raises(ValueError, match="matrices below `blocks`"):
        make_optimizer(MLPConfig(width=8, depth=1).build(), MUON)


def test_its_runs_train_alone():
    run = Run(ModelConfig(dim=16, depth=1, context=8), Markov(4, 8, 6), MUON)
    assert "muon" in estimate_need(run).reason
