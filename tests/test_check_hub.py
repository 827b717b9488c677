"""Norms of transformers: the working ones pass, and the causes named for the others are true.

A class is checked as what it documents; one that takes a config, a gate or no size as an instance.
"""

import pytest
import torch
import torch.nn.functional as F
from peers import hf
from torch import nn

from labkit import check

pytestmark = pytest.mark.slow

# Of the many that round alike (data/papers/norm-parity.csv) a few.
GREEN = {
    "rms_llama": ["llama LlamaRMSNorm", "mamba2 Mamba2RMSNorm", "llama4 Llama4TextRMSNorm"],
    "rms_t5": ["t5 T5LayerNorm", "idefics IdeficsRMSNorm"],
    "rms_gemma": ["gemma GemmaRMSNorm", "qwen3_next Qwen3NextRMSNorm"],
    "rms_norm": [
        "gemma3n Gemma3nRMSNorm", "olmo2 Olmo2RMSNorm", "moshi MoshiRMSNorm",
        "falcon_mamba FalconMambaWeightlessRMSNorm", "falcon_h1 FalconH1RMSNormGated",
    ],
    "layer_norm": ["cohere CohereLayerNorm", "olmo OlmoLayerNorm", "convnext ConvNextLayerNorm"],
}  # fmt: skip
SILENT = 1.2784645427610738  # silu of it is 1


class Gated(nn.Module):
    """The wrapper that the refusal recommends: a forward(x) that calls a norm with its gate."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.weight, self.eps = norm, norm.weight, norm.variance_epsilon

    def forward(self, x):
        return self.norm(x, torch.full_like(x, SILENT, dtype=torch.float32))


class Last(nn.Module):
    """A norm over the channel axis, given that axis last: the form that the check takes."""

    def __init__(self, norm, space):
        super().__init__()
        self.norm, self.space = norm, space
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x):
        rows = x.reshape(1, -1, *[1] * (self.space - 1), x.shape[-1])
        return self.norm(rows.movedim(-1, 1)).movedim(1, -1).reshape(x.shape)


def fill(norm, value):
    nn.init.constant_(norm.weight, value)
    return norm


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def layer(x):
    return F.layer_norm(x, x.shape[-1:])


INSTANCES = {  # what the class refuses, as a model makes it
    "llama4 Llama4TextL2Norm": (check.rms_norm, lambda kind: kind(1e-6)),
    "nanochat NanoChatRMSNorm": (check.rms_norm, lambda kind: kind()),
    "hrm_text HrmTextRMSNorm": (check.rms_norm, lambda kind: kind()),
    "zamba2 Zamba2RMSNormGated": (check.rms_llama, lambda kind: kind(12, 12)),
    "bamba BambaRMSNormGated": (check.rms_llama, lambda kind: kind(12, 12)),
    "qwen3_next Qwen3NextRMSNormGated": (check.rms_norm, lambda kind: Gated(kind(12))),
    "poolformer PoolFormerGroupNorm": (check.group_norm, lambda kind: kind(12)),
    "emu3 Emu3VQVAEGroupNorm": (
        check.group_norm, lambda kind: kind(num_groups=3, num_channels=12)),
    "squeezebert SqueezeBertLayerNorm": (check.layer_norm, lambda kind: Last(kind(12), 1)),
    "eomt EomtLayerNorm2d": (check.layer_norm, lambda kind: Last(kind(12), 2)),
    # What is no variant of a norm here, against its own formula.
    "nemotron NemotronLayerNorm1P": (
        lambda make: check.any_norm(make, layer), lambda kind: lambda dim: fill(kind(dim), 0.0)),
    "muse_spark MuseSparkTextInputScaledRMSNorm": (
        lambda make: check.any_norm(make, rms), lambda kind: kind),
    "muse_spark MuseSparkTextCenteredRMSNorm": (
        lambda make: check.any_norm(make, rms), lambda kind: kind),
    "deepseek_v4 DeepseekV4UnweightedRMSNorm": (
        lambda norm: check.any_norm(norm, rms), lambda kind: lambda x: kind()(x)),
}  # fmt: skip
# Faults in half precision, whatever is asked; a test measures them without the check.
FAULTS = {
    "deberta DebertaLayerNorm": (check.layer_norm, lambda kind: kind(12)),
    "imagegpt ImageGPTLayerNorm": (check.rms_norm, lambda kind: fill(kind(12), 1.0)),
    "vitdet VitDetLayerNorm": (check.layer_norm, lambda kind: Last(kind(12), 2)),
}


def find(row):
    family, name = row.split()
    return getattr(hf(family), name)


@pytest.mark.parametrize("key, row", [(key, row) for key in GREEN for row in GREEN[key]])
def test_a_working_class_is_green(key, row):
    report = getattr(check, key)(find(row))
    assert report.ok, report


@pytest.mark.parametrize("row", INSTANCES)
def test_a_working_instance_is_green(row):
    ask, make = INSTANCES[row]
    report = ask(make(find(row)))
    assert report.ok, report


@pytest.mark.parametrize("row", FAULTS)
def test_a_red_class_has_the_fault_that_is_named(row):
    ask, make = FAULTS[row]
    norm = make(find(row))
    causes = {law.name: law.cause for law in ask(norm).failed}
    assert causes.keys() <= {"dtype kept", "half precision"}
    assert "the float32 gain promotes the result" in causes["dtype kept"]
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    assert norm(x.bfloat16()).dtype == torch.float32
    # A square of 1,200 is more than float16 holds.
    large = (1200 * x).half()
    lost = (norm.half()(large).double() - norm.double()(large.double())).abs().max().item()
    assert ("half precision" in causes) == (not lost < 0.1), (causes, lost)
