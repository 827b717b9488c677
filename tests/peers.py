"""Other people's implementations, imported once and without their warnings."""

import importlib
import os
import warnings
from pathlib import Path

import pytest
import torch

# Models are made from configs alone: no library below may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def peer(name: str):
    """Import a peer's module without the warnings that it emits at import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


def hf(model: str):
    """Import the module that contains one of transformers' models."""
    return peer(f"transformers.models.{model}.modeling_{model}")


def find_pinned_models() -> Path:
    """Return the folder of transformers' models; skip the test if it has another version."""
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != "5.23.0":
        pytest.skip("the tables are of transformers 5.23.0")
    return Path(transformers.__file__).parent / "models"


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest difference, as a share of the largest value of `b`."""
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-300))
