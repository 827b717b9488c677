"""Muon: its matrices are orthogonal, its rule is the one of its docstring."""

import pytest
import torch

from labkit.experiments import Run
from labkit.experiments.replicates import estimate_need
from labkit.model import ModelConfig
from labkit.muon import Muon, orthogonalize
from labkit.training import TrainConfig, make_optimizer
from labkit.vision import MLPConfig


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 8, 32), (2, 32, 8)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalize(torch.randn(shape)))
    # NS with these coefficients ends between 0.68 and 1.13 (Jordan et al. 2024)
    assert values.min() > 0.6
    assert values.max() < 1.25


def test_directions_stay():
    torch.manual_seed(0)
    x = torch.randn(1, 8, 8)
    left, _, right = torch.linalg.svd(x)
    inner = left.mT @ orthogonalize(x) @ right.mT
    off = inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))
    assert off.abs().max() < 0.01


def test_a_step_is_the_formula():
    torch.manual_seed(0)
    model = ModelConfig(dim=16, depth=1, heads=2, context=8, vocab=9).build()
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", lr=0.1, weight_decay=0.5))
    assert isinstance(optimizer, Muon)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    model(torch.arange(8)[None]).square().mean().backward()
    optimizer.step()
    after = dict(model.named_parameters())
    name = "blocks.0.attention.sublayer.q.weight"
    gradient = after[name].grad * 1.95
    wanted = before[name] * 0.95 - 0.1 * 0.2 * 4 * orthogonalize(gradient[None])[0]
    torch.testing.assert_close(after[name].detach(), wanted, atol=1e-5, rtol=1e-4)
    gain = "final_norm.weight"  # AdamW's first step: the rate, against the gradient's sign
    wanted = before[gain] * 0.95 - 0.1 * after[gain].grad.sign()
    torch.testing.assert_close(after[gain].detach(), wanted, atol=1e-4, rtol=1e-4)


def test_a_model_without_blocks_is_refused():
    with pytest.raises(ValueError, match="matrices below `blocks`"):
        make_optimizer(MLPConfig(width=8, depth=1).build(), TrainConfig(optimizer="muon"))


def test_its_runs_train_alone():
    from labkit.corpora import Markov

    run = Run(
        ModelConfig(dim=16, depth=1, context=8), Markov(4, 8, 6), TrainConfig(3, optimizer="muon")
    )
    assert "muon" in estimate_need(run).reason
