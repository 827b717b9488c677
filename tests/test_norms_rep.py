"""RepBN and PRepBN: the skip connection, the schedule and its pitfalls."""

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


def test_a_schedule_without_steps_is_refused():
    with pytest.raises(ValueError, match="steps >= 1"):
        norms.PRepBatchNorm(DIM, steps=0)
