"""Checks of the kernels' arguments: a clear error for everything that they do not support."""

import torch
from torch import Tensor

from normkernels import launch
from normkernels.rows import MAX_N

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_rows(name: str, x: Tensor, eps: float = 0.0, **others: Tensor) -> None:
    """Refuse tensors that a kernel over rows does not support; `others` have the shape of `x`."""
    for role, tensor in (("x", x), *others.items()):
        check_tensor(name, role, tensor, x)
        if tensor.shape != x.shape:
            raise ValueError(
                f"kernel {name} needs {role} to have the shape of x, {tuple(x.shape)}, got "
                f"{tuple(tensor.shape)}"
            )
    if x.ndim == 0:
        raise ValueError(f"kernel {name} needs at least one axis, got a scalar; pass x[None]")
    if x.shape[-1] > MAX_N:
        raise ValueError(
            f"kernel {name} supports rows of up to {MAX_N} values, got {x.shape[-1]}; use the "
            "formula of the same name in labkit"
        )
    check_eps(name, eps)


def check_parameters(name: str, x: Tensor, size: int, **parameters: Tensor | None) -> None:
    """Refuse a gain, shift or slope that does not have `size` floating-point numbers."""
    for role, parameter in parameters.items():
        if parameter is None:
            continue
        check_tensor(name, role, parameter, x)
        if parameter.ndim != 1 or parameter.shape[0] != size:
            raise ValueError(
                f"kernel {name} needs a {role} of shape ({size},), got {tuple(parameter.shape)}"
            )


def check_eps(name: str, eps: float) -> None:
    """Refuse an eps that is negative or not a number."""
    if isinstance(eps, str) or not eps >= 0:
        raise ValueError(f"kernel {name} needs eps >= 0, got {eps!r}; the usual value is 1e-6")


def check_tensor(name: str, role: str, tensor: Tensor, x: Tensor) -> None:
    """Refuse unsupported dtypes and devices, and a device that differs from that of `x`."""
    if tensor.is_cuda and tensor.dtype in DTYPES and (tensor is x or tensor.device == x.device):
        return  # the usual case, at the least cost
    if tensor.dtype not in DTYPES:
        raise TypeError(
            f"kernel {name} needs float32, bfloat16 or float16, got {role} of {tensor.dtype}; use "
            "the formula of the same name in labkit"
        )
    if tensor.device != x.device:
        raise ValueError(
            f"kernel {name} needs all tensors on the same device, got x on {x.device} and "
            f"{role} on {tensor.device}; move one with .to(…)"
        )
    if tensor.device.type not in launch.DEVICE_TYPES and not launch.is_fake(tensor):
        raise ValueError(
            f"kernel {name} needs tensors on a CUDA device, got {role} on {tensor.device}; use "
            "the formula of the same name in labkit, or set TRITON_INTERPRET=1 before Triton is "
            "imported"
        )
