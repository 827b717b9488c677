"""A sum and the norm that reads it, in one kernel; the result waits as an attribute of the sum.

    h = stream + write, y = N(h)     `sum_norm`: both at once
    h = stream + M(write), y = N(h)  `sum_norms`: with the norm of a sublayer's output
    h, with N and y as attribute     `add`: the block passes on h, an ordinary tensor
    N(h)                             `take_made`: the norm finds y there

So code between the sum and the norm (a hook, a checkpoint, a skipped block) works unchanged. A norm
of a different sum, or of a sum that was changed in place, is computed as usual.
"""

from typing import Any, NamedTuple

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


class How(NamedTuple):
    """Properties of a norm that a kernel needs."""

    kernel: str
    weight: Tensor | None
    bias: Tensor | None
    eps: float
    offset: float
    round_first: bool


def read_norm(norm: Any, write: Tensor, stream: Tensor, dtype: torch.dtype) -> How | None:
    """Return the properties of `norm` for a kernel in `dtype`; None if no kernel applies."""
    kernel = KERNELS.get(type(norm))
    if kernel is None or not is_plain(norm):
        return None
    weight, bias = norm.weight, getattr(norm, "bias", None)
    shape, dim = getattr(norm, "normalized_shape", None), write.shape[-1:]
    # Sharded training frees weights between steps, or leaves a part of each on every device.
    plain = type(weight) in (Tensor, nn.Parameter)
    freed = weight is not None and (weight.shape != dim or not plain)
    fits = shape in (None, tuple(dim)) and write.shape == stream.shape and not freed
    if not fits or not accepts_tensors(write, stream, weight, bias):
        return None
    offset, round_first = ORDERS[kernel]
    if round_first and weight is not None and torch.promote_types(dtype, weight.dtype) != dtype:
        return None  # the result would be as wide as the gain
    eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
    return How(kernel, weight, bias, eps, offset, round_first)


def sum_norm(norm: Any, write: Tensor, stream: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return norm(stream + write) and the sum itself in one kernel; None if no kernel applies."""
    how = read_norm(norm, write, stream, torch.promote_types(write.dtype, stream.dtype))
    if how is None:
        return None
    centred = how.kernel == "layer_norm"
    # After `centred`: round the sum first; a result as wide as the sum, as autocast has it, whose
    # writes are narrower than the stream.
    return get_kernels().add_norm.sum_norm(
        write, stream, how.weight, how.bias, how.eps, 1.0, centred, True, True, *how[4:]
    )


def sum_norms(
    inner: Any, norm: Any, write: Tensor, stream: Tensor
) -> tuple[Tensor | None, Tensor] | None:
    """Return norm(h) and h = stream + inner(write) in one kernel; None if no kernel applies.

    The first result is None if no kernel computes both norms.
    """
    first = read_norm(inner, write, stream, write.dtype)
    if first is None or first.kernel == "layer_norm":
        return None
    second = None
    if norm is not None:
        wide = torch.promote_types(write.dtype, stream.dtype)
        second = read_norm(norm, write, stream, wide)
    kernels, order = get_kernels(), {"offset": first.offset, "round_first": first.round_first}
    if second is None or (first.kernel, first.eps) != (second.kernel, second.eps):
        return None, kernels.rms_norm_add(write, stream, first.weight, first.eps, **order)
    return kernels.rms_norm_add_norm(write, stream, first.weight, second.weight, first.eps, **order)


def add(
    stream: Tensor, write: Tensor, norm: nn.Module | None, inner: nn.Module | None = None
) -> Tensor:
    """Return stream + write, or stream + inner(write), with the next norm's result attached."""
    counted = not torch.is_inference_mode_enabled()  # whether in-place changes are counted
    norm = norm if counted else None
    both = None if inner is None else sum_norms(inner, norm, write, stream)
    if both is None:
        write = write if inner is None else inner(write)
        both = None if norm is None else sum_norm(norm, write, stream)
    if both is None:
        return stream + write
    result, total = both
    if result is not None:
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
