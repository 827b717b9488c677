"""The census of norms is what the pinned transformers say; its rule reads what it says."""

import ast
from pathlib import Path

import pytest

from tests.norm_census import FILE, list_norms, write_census

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
        ("T5LayerNorm(8)", {"rms"}),
        ("nn.LayerNorm(8)", {"layer"}),
        ("CohereLayerNorm(8)", {"layer"}),
        ("SelfOutput(8)", set()),
    ],
)
def test_norms_are_found_by_what_is_constructed(call, kinds):
    (part,) = ast.parse(CLASS.format(call=call)).body
    assert isinstance(part, ast.ClassDef) and list_norms(part) == kinds


def test_the_census_is_what_transformers_says():
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != "5.23.0":
        pytest.skip("the census is of 5.23.0")
    assert write_census(Path(transformers.__file__).parent / "models") == FILE.read_text("utf-8")
