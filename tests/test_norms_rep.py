"""RepBN and PRepBN: the skip connection, the schedule and its pitfalls, and folding."""

import copy

import pytest
import torch
from each import each
from torch import nn

from labkit import norms

DIM = 12


def trained(norm: nn.Module) -> nn.Module:
    """Give it random parameters and running statistics, and switch to evaluation mode."""
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.normal_()
    for _ in range(3):
        norm(torch.randn(6, 5, DIM) * 2 + 1)
    return norm.eval()


def made(kind: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    types = {
        "batch": norms.BatchNorm,
        "rep": norms.RepBatchNorm,
        "prep": norms.PRepBatchNorm,
    }
    return types[kind](DIM, channel_axis=-1, dtype=dtype)


# --- RepBN ---


def test_rep_batch_norm_is_batch_norm_plus_the_skip():
    rep, batch = made("rep"), made("batch")
    with torch.no_grad():
        rep.eta.fill_(0.3)
    for _ in range(3):
        x = torch.randn(6, 5, DIM) + 2
        torch.testing.assert_close(rep(x), batch(x) + 0.3 * x, rtol=1e-6, atol=1e-6)
    state = rep.state_dict()
    for name, value in batch.state_dict().items():
        assert torch.equal(state[name], value)
    rep.eval(), batch.eval()
    torch.testing.assert_close(rep(x), batch(x) + 0.3 * x, rtol=1e-6, atol=1e-6)


# --- the schedule ---


@each(steps=[1, 4])
def test_the_share_of_layer_norm_falls_linearly_over_training_calls(steps):
    norm = norms.PRepBatchNorm(DIM, steps=steps)
    shares = []
    for _ in range(steps + 2):
        shares.append(norm.share)
        norm(torch.randn(4, DIM))
    expected = [(steps - k) / steps for k in range(steps)] + [0.0, 0.0]
    assert shares == pytest.approx(expected, abs=1e-12)


def test_each_call_blends_by_the_share_before_it():
    norm = norms.PRepBatchNorm(DIM, steps=4, channel_axis=-1).double()
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.normal_()
    layer, rep = copy.deepcopy(norm.layer), copy.deepcopy(norm.rep)
    for share in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0):
        x = torch.randn(3, 5, DIM, dtype=torch.float64)
        expected = share * layer(x) + (1 - share) * rep(x)
        torch.testing.assert_close(norm(x), expected, rtol=1e-12, atol=1e-12)
    # all calls feed the running statistics, the first too, in which BatchNorm has no share
    for name, value in rep.state_dict().items():
        torch.testing.assert_close(norm.rep.state_dict()[name], value)


def test_evaluation_is_the_batch_branch_alone_however_large_the_share():
    norm = norms.PRepBatchNorm(DIM)
    x = torch.randn(5, DIM)
    norm(x)
    norm.eval()
    assert norm.share > 0.99
    assert torch.equal(norm(x), norm.rep(x))
    assert (norm(x) - norm.layer(x)).abs().max() > 0.1
    assert int(norm.calls) == 1  # evaluation is not counted


def test_the_schedule_counts_forward_calls_and_survives_saving():
    norm = norms.PRepBatchNorm(DIM, steps=10)
    for _ in range(4):  # four micro-batches of one step of the optimizer
        norm(torch.randn(5, DIM))
    assert norm.share == 0.6
    other = norms.PRepBatchNorm(DIM, steps=10)
    other.load_state_dict(norm.state_dict())
    assert other.share == 0.6


# --- folding into the next linear map is exact ---


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
}  # fmt: skip


@each(name=FOLD_MISUSES)
def test_a_misuse_is_refused(name):
    misuse, kind, words = FOLD_MISUSES[name]
    with pytest.raises(kind, match=words):
        misuse()
