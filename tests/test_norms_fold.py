"""Folding a norm of running statistics into the next linear map is exact."""

import pytest
import torch
from each import each
from test_norms_rep import DIM, made, trained
from torch import nn

from labkit import norms


@each(kind=["batch", "rep", "prep"], bias=[True, False], dtype=[torch.float32, torch.float64])
def test_the_folded_map_equals_the_norm_and_the_map(kind, bias, dtype):
    norm = trained(made(kind)).to(dtype)
    linear = nn.Linear(DIM, 7, bias=bias, dtype=dtype)
    before = [{k: v.clone() for k, v in m.state_dict().items()} for m in (norm, linear)]
    folded = norms.fold(norm, linear)
    x = torch.randn(6, 5, DIM, dtype=dtype)
    room = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(folded(x), linear(norm(x)), rtol=room, atol=room)
    assert folded.bias is not None and folded.weight.dtype == folded.bias.dtype == dtype
    for module, state in zip((norm, linear), before, strict=True):  # neither is changed
        assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_folding_is_the_formula_on_paper():
    norm = trained(made("rep", torch.float64))
    linear = nn.Linear(DIM, 7, dtype=torch.float64)
    root = (norm.running_var + norm.eps).sqrt()
    a = norm.weight / root + norm.eta
    c = norm.bias - norm.weight * norm.running_mean / root
    folded = norms.fold(norm, linear)
    torch.testing.assert_close(folded.weight, linear.weight @ torch.diag(a), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(folded.bias, linear.weight @ c + linear.bias, rtol=1e-12, atol=1e-12)


def test_folding_keeps_half_precision_and_takes_torchs_own_batch_norm():
    norm = nn.BatchNorm1d(DIM, affine=False)
    norm(torch.randn(9, DIM) + 1)
    linear = nn.Linear(DIM, 7, dtype=torch.bfloat16)
    folded = norms.fold(norm.eval(), linear)
    assert folded.weight.dtype == torch.bfloat16
    x = torch.randn(9, DIM)
    # two matrices rounded to 8 bits
    torch.testing.assert_close(folded.float()(x), linear.float()(norm(x)), rtol=0.05, atol=0.05)


def test_a_whole_network_folds():
    norm = trained(made("prep"))
    network = nn.Sequential(norm, nn.Linear(DIM, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
    folded = nn.Sequential(norms.fold(norm, network[1]), *network[2:])
    x = torch.randn(20, DIM)
    torch.testing.assert_close(folded(x), network(x), rtol=1e-5, atol=1e-5)


FOLD_MISUSES = {
    "training": (lambda: norms.fold(made("rep"), nn.Linear(DIM, 2)), ValueError, "call eval"),
    "training inside": (
        lambda: norms.fold(made("prep").train(), nn.Linear(DIM, 2)), ValueError, "evaluation mode"),
    "no statistics": (
        lambda: norms.fold(norms.BatchNorm(DIM, track_running_stats=False).eval(),
                           nn.Linear(DIM, 2)), ValueError, "running statistics.*keeps none"),
    "another norm": (
        lambda: norms.fold(norms.LayerNorm(DIM).eval(), nn.Linear(DIM, 2)), TypeError,
        "fixed affine map folds, got LayerNorm"),
    "another width": (
        lambda: norms.fold(made("rep").eval(), nn.Linear(5, 2)), ValueError,
        "12 features, got one of 5"),
    "no steps": (lambda: norms.PRepBatchNorm(DIM, steps=0), ValueError, "steps >= 1"),
    "cold": (lambda: norms.PRepBatchNorm(DIM, warm=-1), ValueError, "warm >= 0"),
}  # fmt: skip


@each(name=FOLD_MISUSES)
def test_a_misuse_is_refused(name):
    misuse, kind, words = FOLD_MISUSES[name]
    with pytest.raises(kind, match=words):
        misuse()
