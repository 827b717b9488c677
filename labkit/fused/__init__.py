"""Replace norms, sums and rotations of a model by kernels that move fewer bytes, and undo it.

    report = fuse(model)     norms, sums and rotations by normkernels, if it has them
    unfuse(model)            formulas again
    with fuse_temporarily(model): …    temporarily, as the training loop does on CUDA

Only the class of a module changes: parameters, names, state_dict, hooks and buffers stay. At each
call a fused module checks whether the kernel supports its tensors, and otherwise uses its formula:
on the CPU, in float64, for distributed tensors, for a norm that has hooks, and under autocast for
torch's own modules. So a fused model may be moved between devices. Kernels have no second
derivative.

Under torch.compile a fused model is the plain one. The compiler fuses norms and sums with the
operations around them, which it cannot do with our kernels, so kernels would only slow it down.

Kernels exist for: labkit's `layer`, `rms`, `rms-llama`, `rms-gemma`, `dyt` and `derf`; torch's
LayerNorm and RMSNorm; the sums of most placements with the norm that reads them, DeepNorm, nGPT;
rotation, with the norm of q and k if that is `rms`, `rms-gemma` or `l2`; norms, rotations and sums
in transformers' Llama, Qwen 3, Gemma 2 and 3 and OLMo 2 (`labkit.fused.hub`). Norms of other models
of transformers first become labkit's: `labkit.convert`. Modules whose class was changed after
fusing, as by a parametrization, stay as they are.
"""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from labkit.fused import attention, hub, norms, seam, steps
from labkit.fused.hub_blocks import link_blocks
from labkit.model import Transformer
from labkit.model.block import Block
from labkit.model.space import SPHERE
from labkit.placements import recipe
from labkit.placements.step import Step

__all__ = ["Fused", "fuse", "fuse_temporarily", "is_fused", "on_gpu", "unfuse"]

_FUSED = {**norms.FUSED, **steps.FUSED, **attention.FUSED}
_PLAIN = {fused: plain for plain, fused in _FUSED.items()}


@dataclass(frozen=True)
class Fused:
    """Result of `fuse`."""

    kernels: str  # the package of kernels; "formulas" where nothing was fused
    modules: dict[str, int]  # class name -> number of its modules that use kernels
    reason: str = ""  # why there are no kernels here

    def __str__(self) -> str:
        if not self.modules:
            return f"formulas: {self.reason or 'no module of the model has a kernel'}"
        counted = ", ".join(f"{many} {name}" for name, many in self.modules.items())
        return f"{self.kernels}: {counted}"


def fuse(model: nn.Module) -> Fused:
    """Replace parts of a model by kernels, in place; return a summary.

    Without Triton or CUDA nothing changes, a single warning explains why, and the formulas run.
    """
    reason = seam.explain_missing()
    if reason:
        warnings.warn(
            f"kernels cannot be used: {reason}; the model uses the formulas", stacklevel=2
        )
        return Fused("formulas", {}, reason)
    for module in model.modules():
        if fused := _FUSED.get(type(module)) or hub.make_fused(type(module)):
            module.__class__ = fused
    for module in model.modules():
        if isinstance(module, Block):
            steps.link_steps([_list_steps(module)], None)
    for module in model.modules():
        if isinstance(module, Transformer):
            _link_model(module)
        link_blocks(module)
    plain = (_find_plain(module) for module in model.modules() if _has_use(module))
    count = Counter(kind.__name__ for kind in plain if kind)
    return Fused(seam.describe_kernels() if count else "formulas", dict(count))


def _find_plain(module: nn.Module) -> type[nn.Module] | None:
    """Return the original class of a fused module; None for a module that is not fused."""
    return _PLAIN.get(type(module)) or hub.PLAIN.get(type(module))


def _has_use(module: nn.Module) -> bool:
    """Return whether a kernel can do any of a fused module's work."""
    if isinstance(module, Transformer):
        return module.space is SPHERE
    if isinstance(module, steps._Adding):
        return module.has_kernel()
    return not getattr(module, "cross", False)


def unfuse(model: nn.Module) -> None:
    """Restore the formulas, in place; a model that was never fused does not change."""
    for module in model.modules():
        _unfuse_module(module)


def is_fused(model: nn.Module) -> bool:
    """Return whether any module of the model is fused."""
    return any(_find_plain(module) for module in model.modules())


def _unfuse_module(module: nn.Module) -> None:
    if plain := _find_plain(module):
        module.__dict__.pop("follower", None)
        module.__class__ = plain


@contextmanager
def fuse_temporarily(model: nn.Module) -> Iterator[Fused]:
    """Fuse a model temporarily; modules that were fused before stay fused."""
    before = {module for module in model.modules() if _find_plain(module)}
    done = fuse(model)
    try:
        yield done
    finally:
        for module in model.modules():
            if module not in before:
                _unfuse_module(module)


def on_gpu(model: nn.Module) -> bool:
    """Return whether any of the model's parameters is on a CUDA device."""
    return any(parameter.is_cuda for parameter in model.parameters())


def _link_model(model: Transformer) -> None:
    second = recipe(model.config.recipe).second_stream
    steps.link_steps(
        [_list_steps(block) for block in model.blocks], None if second else (model, "final_norm")
    )
    if hasattr(model, "encoder"):
        blocks = [_list_steps(block) for block in model.encoder]
        steps.link_steps(blocks, None if second else (model, "encoder_norm"))


def _list_steps(block: nn.Module) -> list[Step]:
    kinds = ("attention", "cross_attention", "feed_forward")
    found = [getattr(block, kind, None) for kind in kinds]
    return [step for step in found if isinstance(step, Step)]
