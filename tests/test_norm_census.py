"""The census of norms agrees with the pinned transformers, and its rule is tested."""

import ast

import pytest

from tests.norm_census import FILE, find_decoders, find_misnamed, list_norms, write_census
from tests.peers import find_pinned_models

CLASS = """
class Layer:
    def __init__(self):
        self.a = {call}
        self.hidden = Dropout(0.1)
"""


@pytest.mark.parametrize(
    "call, kinds",
    [
        ("LlamaRMSNorm(8)", {"rms"}),
        ("nn.LayerNorm(8)", {"layer"}),
        ("CohereLayerNorm(8)", {"layer"}),
        ("SelfOutput(8)", set()),
    ],
)
def test_norms_are_found_by_what_is_constructed(call, kinds):
    (part,) = ast.parse(CLASS.format(call=call)).body
    assert isinstance(part, ast.ClassDef) and list_norms(part) == kinds


NORMS = """
class MineLayerNorm:
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

class YoursLayerNorm:
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight

class TheirsLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self.shape, self.weight + 1, self.bias, self.eps)
"""


def test_a_norm_that_is_called_layer_norm_and_subtracts_nothing_is_an_rms_norm():
    misnamed = find_misnamed([c for c in ast.parse(NORMS).body if isinstance(c, ast.ClassDef)])
    assert misnamed == {"MineLayerNorm"}
    for call, kinds in (("MineLayerNorm(8)", {"rms"}), ("YoursLayerNorm(8)", {"layer"})):
        (part,) = ast.parse(CLASS.format(call=call)).body
        assert isinstance(part, ast.ClassDef) and list_norms(part, misnamed) == kinds


@pytest.mark.slow
def test_the_census_is_what_transformers_says():
    assert write_census(find_pinned_models()) == FILE.read_text("utf-8")


MODELING = """
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([("llama", "A"), ("bert", "B"), ("openai-gpt", "C"),
    ("bart", "D"), ("trocr", "E"), ("whisper", "F"), ("gpt-neox", "G")])
MODEL_FOR_MASKED_LM_MAPPING_NAMES = OrderedDict([("bert", "B")])
MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES = OrderedDict([("bart", "D"), ("t5", "H")])
MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES = OrderedDict([("whisper", "F")])
"""


def test_decoders_are_registered_for_nothing_else(tmp_path):
    (tmp_path / "auto").mkdir()
    (tmp_path / "auto" / "modeling_auto.py").write_text(MODELING, encoding="utf-8")
    (tmp_path / "auto" / "auto_mappings.py").write_text(
        'SPECIAL_MODEL_TYPE_TO_MODULE_NAME = OrderedDict([("openai-gpt", "openai")])',
        encoding="utf-8",
    )
    assert find_decoders(tmp_path) == {"llama", "openai", "gpt_neox"}
