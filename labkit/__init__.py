"""labkit: normalization in transformers, implemented, measured and checked.

from labkit import ModelConfig, TrainConfig, Transformer, train
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# PyTorch takes seconds to import, and the command and the figures do not need it, so a public name
# is imported from its module at its first use.
_HOMES = {
    "ModelConfig": "model",
    "Transformer": "model",
    "NORMS": "norms",
    "make_norm": "norms",
    "RECIPES": "placements",
    "Record": "training",
    "TrainConfig": "training",
    "train": "training",
}


# Submodules that a notebook uses by name: `labkit.check`, `labkit.plots.curves`.
_PARTS = ("check", "convert", "corpora", "experiments", "fused", "plots", "probes")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"labkit.{name}")
    if name not in _HOMES:
        raise AttributeError(f"labkit has no {name!r}; it has {', '.join(__dir__())}")
    return getattr(import_module(f"labkit.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS])
