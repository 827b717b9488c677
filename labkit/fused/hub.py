"""Classes of transformers' Llama, Qwen 3, Gemma 2, Gemma 3 and OLMo 2 that run on kernels.

    norm         each RMSNorm is one kernel that rounds in that model's order
    attention    norm and rotation of q and k are one kernel: `labkit.fused.hub_attention`
    block        a sum and the norm that reads it are one kernel: `labkit.fused.hub_blocks`

They are subclasses, made when a model of these classes is fused: labkit does not import
transformers.
"""

import importlib
import inspect
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from labkit.fused import hub_attention, hub_blocks
from labkit.fused.norms import call_kernel
from labkit.fused.seam import explain_missing, get_kernels
from labkit.fused.sums import KERNELS

_MODELS = ("llama", "qwen3", "gemma2", "gemma3", "olmo2")
_MODULES = {f"transformers.models.{name}.modeling_{name}": name for name in _MODELS}
PLAIN: dict[type[nn.Module], type[nn.Module]] = {}  # the class that a fused one was made of


class FusedNorm(nn.Module):
    """A model's RMSNorm, computed by a kernel."""

    weight: Tensor

    @property
    def eps(self) -> float:
        """Return eps, which some models call `variance_epsilon`."""
        return self.__dict__["eps" if "eps" in self.__dict__ else "variance_epsilon"]

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        kernel = KERNELS.get(type(self))
        return call_kernel(kernel, self, x, super().forward) if kernel else super().forward(x)


@cache
def make_fused(plain: type[nn.Module]) -> type[nn.Module] | None:
    """Make the fused subclass of a transformers class; None if there is none."""
    if plain.__module__ not in _MODULES:
        return None
    names = frozenset(inspect.unwrap(plain.forward).__code__.co_names)
    if plain.__name__.endswith("RMSNorm"):
        kind = FusedNorm
    elif plain.__name__.endswith("Attention") and hub_attention.ROTATION in names:
        kind = hub_attention.FusedAttention
    elif (kind := hub_blocks.BLOCKS.get(names)) is None:
        return None
    fused = type(f"Fused{plain.__name__}", (kind, plain), {"__module__": __name__})
    PLAIN[fused] = plain
    if kind is FusedNorm and not explain_missing():
        order = get_kernels().nn.find_order(plain(8), torch.empty(8, dtype=torch.bfloat16))
        KERNELS.update({fused: order} if order else {})
    return fused


def __getattr__(name: str) -> Any:
    """Make the class that a pickled model needs."""
    for module, model in _MODULES.items():
        if name.startswith(f"Fused{model.capitalize()}"):
            plain = getattr(importlib.import_module(module), name.removeprefix("Fused"), None)
            if plain is not None and (fused := make_fused(plain)):
                return fused
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
