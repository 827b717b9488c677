"""Sums and their norms: formulas, gradients, rounding, and refused inputs."""

import pytest
import torch

from labkit.norms import layer_norm, rms_norm
from labkit.placements import DeepNorm, Place, add_layer_norm, add_rms_norm, deep_norm
from labkit.placements.scaled import deepnorm_constants

SHAPE = (3, 4, 10)


def draw(*dtypes, shape=SHAPE):
    return [torch.randn(shape, dtype=torch.float64).to(dtype) for dtype in dtypes]


def parameters(dtype=torch.float64):
    return [(torch.randn(SHAPE[-1], dtype=torch.float64) + 1).to(dtype) for _ in range(2)]


def standard(h, eps):
    """Give LayerNorm and RMSNorm of h without gain, as the papers write them."""
    n = h.shape[-1]
    centred = h - h.sum(-1, keepdim=True) / n
    spread = ((centred**2).sum(-1, keepdim=True) / n + eps) ** 0.5
    return centred / spread, h / ((h**2).sum(-1, keepdim=True) / n + eps) ** 0.5


@pytest.mark.parametrize("round_sum", [True, False])
def test_the_two_results_are_the_norm_and_the_sum(round_sum):
    x, residual = draw(torch.float64, torch.float64)
    weight, bias = parameters()
    layer, rms = standard(x + residual, 1e-3)
    y, h = add_rms_norm(x, residual, weight, 1e-3, round_sum)
    torch.testing.assert_close(h, x + residual)
    torch.testing.assert_close(y, rms * weight)
    y, h = add_layer_norm(x, residual, weight, bias, 1e-3, round_sum)
    torch.testing.assert_close(h, x + residual)
    torch.testing.assert_close(y, layer * weight + bias)


def test_deep_norm_weighs_the_skip():
    x, branch = draw(torch.float64, torch.float64)
    weight, bias = parameters()
    expected = standard(2.5 * x + branch, 1e-3)[0] * weight + bias
    torch.testing.assert_close(deep_norm(x, branch, 2.5, weight, bias, 1e-3), expected)


def test_deep_norm_is_the_step_of_that_name():
    x = torch.randn(SHAPE)
    step = DeepNorm(lambda: torch.nn.LayerNorm(10), torch.nn.Linear(10, 10), Place(decoder=6))
    alpha = deepnorm_constants("decoder", 0, 6).alpha
    expected = step.step(x, step.sublayer, step.norm)
    actual = deep_norm(x, step.sublayer(x), alpha, step.norm.weight, step.norm.bias)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)  # sums in another order


HALF = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_the_norm_reads_the_sum_after_its_rounding_or_before(dtype):
    x, residual = draw(dtype, dtype)
    weight, bias = parameters(torch.float32)
    total = x.float() + residual.float()
    for round_sum, read in ((True, total.to(dtype).float()), (False, total)):
        y, h = add_rms_norm(x, residual, weight, round_sum=round_sum)
        assert torch.equal(h, x + residual)
        assert torch.equal(y, rms_norm(read, weight).to(dtype))
        y, h = add_layer_norm(x, residual, weight, bias, round_sum=round_sum)
        assert torch.equal(h, x + residual)
        assert torch.equal(y, layer_norm(read, weight, bias).to(dtype))
    assert not torch.equal(
        add_rms_norm(x, residual)[0], add_rms_norm(x, residual, round_sum=False)[0]
    )


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_deep_norm_rounds_the_sum_once_and_the_result_once(dtype):
    x, branch = draw(dtype, dtype)
    total = (1.7 * x.float() + branch.float()).to(dtype)
    assert torch.equal(deep_norm(x, branch, 1.7), layer_norm(total))


@pytest.mark.parametrize("narrow", HALF, ids=str)
def test_the_stream_has_the_wider_dtype_and_the_branch_keeps_its_own(narrow):
    x, residual = draw(narrow, torch.float32)
    for function in (add_rms_norm, add_layer_norm):
        y, h = function(x, residual)
        assert (y.dtype, h.dtype) == (narrow, torch.float32)
        assert torch.equal(h, x + residual)
        y, h = function(residual, x)
        assert (y.dtype, h.dtype) == (torch.float32, torch.float32)
    assert deep_norm(x, residual, 1.7).dtype == torch.float32
    x, residual = draw(torch.bfloat16, torch.float16)
    assert add_rms_norm(x, residual)[1].dtype == torch.float32


FUNCTIONS = {
    "add_rms_norm": add_rms_norm,
    "add_layer_norm": add_layer_norm,
    "deep_norm": lambda x, residual, *rest, **more: deep_norm(x, residual, 1.7, *rest, **more),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_cannot_be_added_or_normalized_is_refused(name):
    function, (x, residual) = FUNCTIONS[name], draw(torch.float32, torch.float32)
    with pytest.raises(ValueError, match=f"{name} needs two tensors of the same shape"):
        function(x, residual[:, :1])
    with pytest.raises(ValueError, match="needs a weight of shape"):
        function(x, residual, torch.ones(3))
    with pytest.raises(TypeError, match=f"{name} needs a floating-point tensor"):
        function(x, residual.long())
    with pytest.raises(ValueError, match=f"{name} needs eps >= 0"):
        function(x, residual, eps=-1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_rows_give_no_rows(name):
    results = FUNCTIONS[name](*draw(torch.float32, torch.float32, shape=(0, 10)))
    for result in results if isinstance(results, tuple) else (results,):
        assert result.shape == (0, 10)
