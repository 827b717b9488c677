"""The seam between formulas and kernels: the same model, the same parameters, fewer bytes moved.

    report = fuse(model)     norms, sums and rotations by normkernels, where it has them
    unfuse(model)            formulas again
    with fusing(model): …    for a while, as the training loop does on CUDA

Only the class of a module changes: parameters, names, state_dict, hooks and buffers stay. A fused
module asks at each call whether the kernel takes its tensors, and uses its formula where not (on
the CPU, in float64), so a fused model may be moved about. Kernels have no second derivative.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from labkit.fused import attention, norms, seam, steps
from labkit.model import Transformer
from labkit.placements import recipe
from labkit.placements.step import Step

__all__ = ["Fused", "fuse", "fusing", "on_gpu", "unfuse"]

_FUSED = {**norms.FUSED, **steps.FUSED, **attention.FUSED}
_PLAIN = {fused: plain for plain, fused in _FUSED.items()}


@dataclass(frozen=True)
class Fused:
    """What `fuse` did."""

    kernels: str  # the package of kernels; "formulas" where nothing was fused
    modules: dict[str, int]  # class name -> how many of its modules call kernels now
    reason: str = ""  # why there are no kernels here

    def __str__(self) -> str:
        if not self.modules:
            return f"formulas: {self.reason or 'no module of the model has a kernel'}"
        counted = ", ".join(f"{many} {name}" for name, many in self.modules.items())
        return f"{self.kernels}: {counted}"


def fuse(model: nn.Module) -> Fused:
    """Put kernels under a model, in place; say what was done.

    Without Triton or CUDA nothing changes, one warning says why, and everything works on formulas.
    """
    reason = seam.missing()
    if reason:
        warnings.warn(f"no kernels here: {reason}; formulas do the work", stacklevel=2)
        return Fused("formulas", {}, reason)
    for module in model.modules():
        if type(module) in _FUSED:
            module.__class__ = _FUSED[type(module)]
    for module in model.modules():
        if isinstance(module, Transformer):
            _link(module)
    count = Counter(
        _PLAIN[type(module)].__name__ for module in model.modules() if type(module) in _PLAIN
    )
    return Fused(seam.described() if count else "formulas", dict(count))


def unfuse(model: nn.Module) -> None:
    """Put the formulas back, in place; a model that was never fused stays as it is."""
    for module in model.modules():
        if type(module) in _PLAIN:
            module.__dict__.pop("follower", None)
            module.__class__ = _PLAIN[type(module)]


@contextmanager
def fusing(model: nn.Module) -> Iterator[Fused]:
    """Fuse a model for a while; what was fused before stays so afterwards."""
    before = [module for module in model.modules() if type(module) in _PLAIN]
    done = fuse(model)
    try:
        yield done
    finally:
        if not before:
            unfuse(model)


def on_gpu(model: nn.Module) -> bool:
    """Say whether any of the model's parameters is on a CUDA device."""
    return any(parameter.is_cuda for parameter in model.parameters())


def _link(model: Transformer) -> None:
    second = recipe(model.config.recipe).second_stream
    stacks = [(model.blocks, None if second else model.final_norm)]
    if hasattr(model, "encoder"):
        stacks.append((model.encoder, None if second else model.encoder_norm))
    for blocks, final in stacks:
        kinds = ("attention", "cross_attention", "feed_forward")
        found = [getattr(block, kind, None) for block in blocks for kind in kinds]
        steps.link([step for step in found if isinstance(step, Step)], final)
