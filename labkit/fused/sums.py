"""A sum and the norm that reads it, in one kernel; the result waits as an attribute of the sum.

    h = stream + write, y = N(h)     `sum_norm`: both at once
    h, with N and y as attribute     `add`: the block passes on h, an ordinary tensor
    N(h)                             `take_made`: the norm finds y there

So code between the sum and the norm (a hook, a checkpoint, a skipped block) works unchanged. A norm
of a different sum, or of a sum that was changed in place, is computed as usual.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit.fused.seam import accepts_tensors, get_kernels, is_plain

# By the exact class of a fused norm, the kernel that it calls; by the kernel, what it adds to the
# gain, and whether it rounds before the gain.
KERNELS: dict[type[nn.Module], str] = {}
ORDERS = {
    "layer_norm": (0.0, False),
    "rms_norm": (0.0, False),
    "rms_norm_llama": (0.0, True),
    "rms_norm_gemma": (1.0, False),
}

_MADE = "normalized_by_labkit"  # the attribute of a sum: the norm, its result, changes in place


def sum_norm(norm: Any, write: Tensor, stream: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return norm(stream + write) and the sum itself in one kernel; None if no kernel applies."""
    kernel = KERNELS.get(type(norm))
    if kernel is None or not is_plain(norm):
        return None
    weight, bias = norm.weight, getattr(norm, "bias", None)
    shape, dim = getattr(norm, "normalized_shape", None), write.shape[-1:]
    freed = weight is not None and weight.shape != dim  # as sharded training does between steps
    fits = shape in (None, tuple(dim)) and write.shape == stream.shape and not freed
    if not fits or not accepts_tensors(write, stream, weight, bias):
        return None
    offset, round_first = ORDERS[kernel]
    wide = torch.promote_types(write.dtype, stream.dtype)
    if round_first and weight is not None and torch.promote_types(wide, weight.dtype) != wide:
        return None  # the result would be as wide as the gain
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    centred = kernel == "layer_norm"
    # After `centred`: round the sum first; a result as wide as the sum, as autocast has it, whose
    # writes are narrower than the stream.
    return get_kernels().add_norm.sum_norm(
        write, stream, weight, bias, eps, 1.0, centred, True, True, offset, round_first
    )


def add(stream: Tensor, write: Tensor, norm: nn.Module | None) -> Tensor:
    """Return stream + write, with the next norm's result attached."""
    counted = not torch.is_inference_mode_enabled()  # whether in-place changes are counted
    both = sum_norm(norm, write, stream) if norm is not None and counted else None
    if both is None:
        return stream + write
    result, total = both
    setattr(total, _MADE, (norm, result, total._version))
    return total


def take_made(norm: nn.Module, x: Tensor) -> Tensor | None:
    """Return norm(x) if `add` computed it together with x, else None."""
    made = getattr(x, _MADE, None)
    if made is None or made[0] is not norm or made[2] != x._version:
        return None
    if not torch.is_grad_enabled():
        delattr(x, _MADE)  # used once, because keeping it longer would keep its memory
    # Reentrant checkpointing computes both without a tape; only the stream gets a gradient.
    return made[1] if made[1].requires_grad or not x.requires_grad else None
