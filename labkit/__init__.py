"""labkit: normalization in transformers, implemented, measured and checked.

from labkit import ModelConfig, TrainConfig, Transformer, train
"""

from labkit.model import ModelConfig, Transformer
from labkit.norms import NORMS, make_norm
from labkit.placements import RECIPES
from labkit.training import Record, TrainConfig, train

__all__ = [
    "NORMS",
    "RECIPES",
    "ModelConfig",
    "Record",
    "TrainConfig",
    "Transformer",
    "make_norm",
    "train",
]
