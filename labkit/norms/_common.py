"""What every norm shares: input checks, visible precision, gain and shift."""

import torch
from torch import Tensor


def check_input(name: str, x: Tensor, eps: float) -> None:
    """Refuse what no norm can mean anything on: integers, no axis at all, a negative eps."""
    if not x.is_floating_point():
        raise TypeError(
            f"{name} needs a floating-point tensor, got {x.dtype}; convert it, e.g. x.float()"
        )
    if x.ndim == 0:
        raise ValueError(f"{name} needs at least one axis, got a scalar; pass x[None]")
    if not eps >= 0:
        raise ValueError(f"{name} needs eps >= 0, got {eps}; the usual value is 1e-5 or 1e-6")


def check_parameter(name: str, role: str, parameter: Tensor | None, size: int) -> None:
    """Refuse a gain or shift that does not hold one number per normalized feature."""
    if parameter is not None and parameter.shape != (size,):
        raise ValueError(
            f"{name} needs a {role} of shape ({size},), one number per feature, "
            f"got {tuple(parameter.shape)}"
        )


def at_least_float32(x: Tensor) -> Tensor:
    """Promote half precision to float32; leave float64 alone so that gradcheck works."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Apply gain and shift, where given, in the precision of `y`: y·weight + bias."""
    if weight is not None:
        y = y * weight.to(y.dtype)
    if bias is not None:
        y = y + bias.to(y.dtype)
    return y
