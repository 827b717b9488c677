"""Masks: a norm whose statistics run over tokens uses only the real ones, in both passes."""

import copy

import pytest
import torch
from each import each
from torch import Tensor, nn

from labkit import norms
from labkit.norms import NORMS, make_norm

DIM = 6
MASKED = [name for name, module in NORMS.items() if getattr(module, "takes_mask", False)]
PACKED = [name for name in MASKED if name != "power"]  # PowerNorm's own rule: its tests


def test_the_norms_with_statistics_over_tokens_take_masks():
    assert set(MASKED) == {"batch", "rep-batch", "prep-batch", "power"}


def half_way(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    norm = make_norm(name, DIM, dtype=dtype, **({"steps": 4} if name == "prep-batch" else {}))
    with torch.no_grad():
        for parameter in norm.parameters():
            parameter.normal_()
    norm(torch.randn(8, DIM, dtype=dtype))
    return norm


def padded() -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([5, 2, 4, 1])
    return torch.randn(4, 5, DIM, dtype=torch.float64) + 1, torch.arange(5) < lengths[:, None]


@pytest.mark.parametrize("name", PACKED)
@each(training=[True, False])
def test_a_masked_norm_is_the_norm_of_the_packed_tokens(name, training):
    norm = half_way(name).train(training)
    twin = copy.deepcopy(norm)
    x, mask = padded()
    top = torch.randn_like(x)
    leaf, packed = x.clone().requires_grad_(), x[mask].clone().requires_grad_()
    y, expected = norm(leaf, mask=mask), twin(packed)
    # the same rows through the same kernel
    torch.testing.assert_close(y[mask], expected, rtol=1e-12, atol=1e-12)
    assert (y[~mask] == 0).all()
    y.backward(top)
    expected.backward(top[mask])
    torch.testing.assert_close(leaf.grad[mask], packed.grad, rtol=1e-12, atol=1e-12)
    assert (leaf.grad[~mask] == 0).all()
    for ours, theirs in zip(norm.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)
    for key, value in twin.state_dict().items():
        torch.testing.assert_close(norm.state_dict()[key], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PACKED)
@each(junk=[0.0, 1e30, float("nan"), float("inf")])
def test_what_stands_in_padding_reaches_nothing(name, junk):
    x, mask = padded()
    norm, twin = half_way(name), None
    twin = copy.deepcopy(norm)
    spoiled = x.masked_fill(~mask[..., None], junk).requires_grad_()
    y = norm(spoiled, mask=mask)
    assert y.isfinite().all() and torch.equal(y, twin(x, mask=mask))
    # A gradient that arrives at padding goes nowhere, not even when it is no number.
    top = torch.ones_like(y).masked_fill(~mask[..., None], junk)
    y.backward(top)
    assert spoiled.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in norm.parameters())


@each(name=["batch_norm", "rep_batch_norm"], shape=[(7, DIM), (3, DIM, 5), (3, DIM, 4, 2)])
def test_the_function_takes_a_mask_of_its_tokens(name, shape):
    function = getattr(norms, name)
    x = torch.randn(shape, dtype=torch.float64)
    mask = torch.rand(shape[0], *shape[2:]) < 0.7
    mean, var = torch.zeros(DIM).double(), torch.ones(DIM).double()
    y = function(x, mean, var, training=True, mask=mask)
    real = x.movedim(1, -1)[mask]
    other = torch.zeros(DIM).double(), torch.ones(DIM).double()
    expected = function(real, *other, training=True)
    torch.testing.assert_close(y.movedim(1, -1)[mask], expected, rtol=1e-12, atol=1e-12)
    assert (y.movedim(1, -1)[~mask] == 0).all()
    torch.testing.assert_close(mean, other[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(var, other[1], rtol=1e-12, atol=1e-12)


def test_modules_on_axis_1_take_masks_of_space():
    x = torch.randn(3, DIM, 5)
    mask = torch.rand(3, 5) < 0.7
    y = norms.BatchNorm(DIM)(x, mask=mask)
    last = norms.BatchNorm(DIM, channel_axis=-1)(x.mT, mask=mask)
    torch.testing.assert_close(y, last.mT)


@each(name=MASKED)
def test_half_precision_keeps_its_dtype_under_a_mask(name):
    x, mask = padded()
    norm = half_way(name, torch.bfloat16)
    y = norm(x.bfloat16(), mask=mask)
    assert y.dtype == torch.bfloat16 and y.isfinite().all()


@each(name=MASKED)
def test_a_wrong_mask_is_refused(name):
    x, mask = padded()
    norm = half_way(name)
    for wrong in (mask.float(), mask.T, mask[0], mask[..., None]):
        with pytest.raises(ValueError, match=r"mask of dtype bool and shape \(4, 5\)"):
            norm(x, mask=wrong)
    with pytest.raises(ValueError, match=r"at least one real token|more than one value per"):
        norm(x, mask=torch.zeros_like(mask))
