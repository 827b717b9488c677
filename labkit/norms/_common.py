"""Shared parts of all norms: input checks, explicit precision, gain and shift, masks."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn


def check_input(name: str, x: Tensor, eps: float) -> None:
    """Refuse input that no norm can handle: integers, a tensor without axes, a negative eps."""
    if not x.is_floating_point():
        raise TypeError(
            f"{name} needs a floating-point tensor, got {x.dtype}; convert it, e.g. x.float()"
        )
    if x.ndim == 0:
        raise ValueError(f"{name} needs at least one axis, got a scalar; pass x[None]")
    check_eps(name, eps)


def check_eps(name: str, eps: float) -> None:
    """Refuse an eps that is not a number, or negative."""
    usual = "the usual value is 1e-5 or 1e-6"
    if isinstance(eps, str):
        raise TypeError(f"{name} needs a number as eps, got {eps!r}; {usual}")
    if not eps >= 0:
        raise ValueError(f"{name} needs eps >= 0, got {eps}; {usual}")


def check_parameter(name: str, role: str, parameter: Tensor | None, size: int) -> None:
    """Refuse a gain or shift that does not have one number per normalized feature."""
    if parameter is not None and parameter.shape != (size,):
        raise ValueError(
            f"{name} needs a {role} of shape ({size},), one number per feature, "
            f"got {tuple(parameter.shape)}"
        )


def check_scalar(name: str, role: str, value: Tensor | float) -> None:
    """Refuse a scalar parameter (shared gain, slope or offset) with more than one number."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(
            f"{name} needs a single number as {role}, shared by all features, got shape "
            f"{tuple(value.shape)}"
        )


def at_least_float32(x: Tensor) -> Tensor:
    """Promote half precision to float32; leave float64 alone so that gradcheck works."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Apply gain and shift, if given, in the precision of `y`: y·weight + bias."""
    if weight is not None:
        y = y * weight.to(y.dtype)
    if bias is not None:
        y = y + bias.to(y.dtype)
    return y


def scalar(value: Tensor | float, like: Tensor) -> Tensor | float:
    """Return a learnable number in the precision of `like`, with a shape that broadcasts."""
    return value.to(like.dtype).reshape(()) if isinstance(value, Tensor) else value


def laid_out_as(x: Tensor, y: Tensor) -> Tensor:
    """Return `y` in the memory format of `x`: channels-last if `x` is, else contiguous."""
    order = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim)
    if order is None or x.is_contiguous() or not x.is_contiguous(memory_format=order):
        order = torch.contiguous_format
    return y.contiguous(memory_format=order)


def over_real_tokens(
    name: str,
    norm: Callable[[Tensor], Tensor],
    x: Tensor,
    mask: Bool[Tensor, "..."],
    channel_axis: int,
) -> Tensor:
    """Apply a norm to the tokens where `mask` is True, packed together; padding comes out as 0.

    Values in the padding, and gradients with respect to its outputs, have no effect.
    """
    channels_last = x.movedim(channel_axis, -1) if x.ndim > 1 else x
    if mask.dtype != torch.bool or mask.shape != channels_last.shape[:-1]:
        raise ValueError(
            f"{name} needs a mask of dtype bool and shape {tuple(channels_last.shape[:-1])}, one "
            f"value per token (True: real), got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    # Packed, so that padding has no value, however large, that could enter a statistic.
    packed = norm(channels_last[mask])
    y = packed.new_zeros(channels_last.shape).index_put((mask,), packed)
    return laid_out_as(x, y.movedim(-1, channel_axis))


def check_size(name: str, argument: str, size: Any, eps: Any = None, *_: Any, **__: Any) -> None:
    """Refuse a size of 0 features, or a wrong eps; the size is one whole number or several."""
    for each in size if isinstance(size, list | tuple) else [size]:
        if not isinstance(each, Integral) or isinstance(each, bool):
            raise TypeError(f"{name} needs a whole number as {argument}, got {size!r}")
        if each < 1:
            raise ValueError(f"{name} needs at least one feature, got {argument}={size!r}")
    if eps is not None:
        check_eps(name, eps)


class LastAxis(nn.Module):
    """Base class of norms over the last axis: checks the width, stores eps, prints both."""

    eps: float  # if the norm has one

    def __init__(self, dim: int, eps: float | None = None):
        super().__init__()
        check_size(type(self).__name__, "dim", dim, eps)
        self.dim = dim
        if eps is not None:
            self.eps = eps

    def check_width(self, x: Tensor) -> None:
        """Refuse vectors of a different width than the module's."""
        if x.shape[-1:] != (self.dim,):
            raise ValueError(
                f"{type(self).__name__}({self.dim}) needs an input whose shape ends in "
                f"({self.dim},), got {tuple(x.shape)}"
            )

    def extra_repr(self) -> str:
        """Return the width and eps, for printing."""
        return f"{self.dim}, eps={self.eps}" if hasattr(self, "eps") else f"{self.dim}"
