"""Folding a norm with running statistics into the next linear map is exact."""

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


def test_folding_keeps_half_precision_and_takes_torchs_own_batch_norm():
    norm = nn.BatchNorm1d(DIM, affine=False)
    norm(torch.randn(9, DIM) + 1)
    linear = nn.Linear(DIM, 7, dtype=torch.bfloat16)
    folded = norms.fold(norm.eval(), linear)
    assert folded.weight.dtype == torch.bfloat16
    x = torch.randn(9, DIM)
    # two matrices rounded to 8 bits
    torch.testing.assert_close(folded.float()(x), linear.float()(norm(x)), rtol=0.05, atol=0.05)


FOLD_MISUSES = {
    "training": (lambda: norms.fold(made("rep"), nn.Linear(DIM, 2)), ValueError, "call eval"),
    "training inside": (
        lambda: norms.fold(made("prep").train(), nn.Linear(DIM, 2)), ValueError, "evaluation mode"),
    "no statistics": (
        lambda: norms.fold(norms.BatchNorm(DIM, track_running_stats=False).eval(),
                           nn.Linear(DIM, 2)), ValueError, "running statistics.*has none"),
    "another norm": (
        lambda: norms.fold(norms.LayerNorm(DIM).eval(), nn.Linear(DIM, 2)), TypeError,
        "affine map can be folded; got LayerNorm"),
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
