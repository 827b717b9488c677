"""The layer for the kernel hub rounds in the order of the class whose forward it replaces."""

import warnings
from types import MethodType

import pytest
import torch

pytest.importorskip("triton")

import normkernels
from normkernels import formulas, launch
from normkernels import nn as layers

from tests.each import each
from tests.peers import hf

from .measure import BRAIN, DEVICE, FLOAT, HALF, relative

ORDERS = {
    "llama LlamaRMSNorm": "rms_norm_llama",
    "qwen3 Qwen3RMSNorm": "rms_norm_llama",
    "gemma GemmaRMSNorm": "rms_norm_gemma",
    "gemma3 Gemma3RMSNorm": "rms_norm_gemma",
    "olmo2 Olmo2RMSNorm": "rms_norm",
    "gpt_oss GptOssRMSNorm": "rms_norm",
}
every = pytest.mark.parametrize("row", ORDERS)


def replace_forward(row: str, values: torch.dtype, gains: torch.dtype | None = None) -> tuple:
    """Build a norm with the layer's forward, as `kernelize` leaves it, and an input."""
    family, name = row.split()
    norm = getattr(hf(family), name)(64).to(DEVICE, gains or values)
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    norm.forward = MethodType(layers.RMSNorm.forward, norm)
    return norm, torch.randn(9, 64).to(DEVICE, values)


def run_own(norm, x):
    return type(norm).forward(norm, x)


@pytest.fixture
def called(monkeypatch):
    """Compute by formulas, which round as a GPU does, and list the functions that were called."""
    names = []
    for name, function in layers.ORDERS.items():
        monkeypatch.setattr(
            normkernels, name, lambda *a, n=name, f=function: names.append(n) or f(*a)
        )
    return names


@every
@each(dtypes=[(BRAIN, BRAIN), (HALF, HALF), (BRAIN, FLOAT), (FLOAT, FLOAT)])
def test_the_result_is_that_of_the_class_bit_for_bit(row, dtypes, called):
    norm, x = replace_forward(row, *dtypes)
    called.clear()
    assert torch.equal(norm(x), run_own(norm, x))
    assert len(called) == 1 and (x.dtype == FLOAT or called == [ORDERS[row]])


@every
@each(dtype=[FLOAT, BRAIN])
def test_the_kernel_computes_values_and_gradients(row, dtype):
    norm, x = replace_forward(row, dtype)
    found = []
    for call in (norm, lambda x: run_own(norm, x)):
        norm.weight.grad, given = None, x.clone().requires_grad_()
        y = call(given)
        y.square().sum().backward()
        found.append((y, given.grad, norm.weight.grad))
    share = 1e-5 if dtype == FLOAT else 4 * relative(dtype)  # the class rounds more often
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert (one - other).abs().max() <= share * other.abs().max()


def test_a_class_without_an_order_runs_its_own_formula_with_one_warning(called):
    norm, x = replace_forward("imagegpt ImageGPTLayerNorm", BRAIN)
    with pytest.warns(UserWarning, match="ImageGPTLayerNorm runs its own formula: no kernel of"):
        y = norm(x)
    with warnings.catch_warnings(action="error"):
        assert torch.equal(norm(x), y)
    assert torch.equal(y, run_own(norm, x)) and not called


def test_the_order_is_found_anew_for_gains_of_another_dtype(called):
    norm, x = replace_forward("t5 T5LayerNorm", BRAIN)
    assert torch.equal(norm(x), run_own(norm, x)) and called
    norm.float()
    with pytest.warns(UserWarning, match="no kernel of normkernels has its rounding order"):
        assert torch.equal(norm(x), run_own(norm, x))


def test_what_the_kernel_does_not_support_the_class_computes(called, monkeypatch):
    norm, x = replace_forward("llama LlamaRMSNorm", FLOAT)
    with pytest.warns(UserWarning, match="float64"):
        assert torch.equal(norm(x.double()), run_own(norm, x.double()))
    monkeypatch.setattr(launch, "DEVICE_TYPES", set())
    with pytest.warns(UserWarning, match=f"float32 on {DEVICE.type}"):
        assert torch.equal(norm(x), run_own(norm, x))
    assert not called


def test_a_compiler_sees_the_formula_of_the_class(called):
    norm, x = replace_forward("llama LlamaRMSNorm", BRAIN)
    compiled = torch.compile(norm, fullgraph=True, backend="eager")
    assert torch.equal(compiled(x), run_own(norm, x)) and not called


def test_an_order_must_agree_in_float32_too_and_in_every_parameter():
    norm, like = torch.nn.LayerNorm(8, dtype=BRAIN), torch.empty(8, dtype=BRAIN)
    assert layers.find_order(norm, like) is None
    assert layers.find_order(norm, like, {"layer_norm": formulas.layer_norm}) is None
    assert layers.find_order(torch.nn.Linear(8, 8), like) is None
    assert layers.find_order(torch.nn.RMSNorm(8, eps=1e-6, dtype=BRAIN), like) == "rms_norm"


def test_the_layer_by_itself_is_refused():
    with pytest.raises(TypeError, match=r"must replace the forward of a norm.*rms_norm instead"):
        layers.RMSNorm()(torch.ones(2, 8))


@each(values=[FLOAT, BRAIN, HALF], gains=[FLOAT, BRAIN, HALF])
def test_the_gated_formula_rounds_as_qwen_3_next_does(values, gains):
    norm = hf("qwen3_next").Qwen3NextRMSNormGated(64).to(gains)
    torch.nn.init.uniform_(norm.weight, 0.5, 1.5)
    x, gate = (torch.randn(9, 64).to(values) for _ in range(2))
    ours = formulas.rms_norm_gated(x, gate, norm.weight, norm.variance_epsilon, round_first=True)
    assert torch.equal(ours, norm(x, gate))
