"""Launch of a kernel: the device, the number of programs, and little work in Python.

Triton's own `kernel[grid](...)` finds the compiled variant for each call. `launch` first looks in a
dictionary, under a key as fine as Triton's own, and starts the compiled kernel directly, like
Triton's tutorial on fused softmax.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter
from triton import knobs

# With TRITON_INTERPRET=1, set before the import, kernels run as NumPy code on the CPU.
INTERPRETED = bool(knobs.runtime.interpret)
DEVICE_TYPES = {"cuda", "cpu"} if INTERPRETED else {"cuda"}
# Few enough that programs of small tests go round their loops more than once.
_INTERPRETED_PROCESSORS = 3
_INTERPRETED_SHARED_BYTES = 232448  # of an H100
_compiled: dict[tuple, Any] = {}


@cache
def count_processors(device: torch.device) -> int:
    """Return the number of multiprocessors that persistent programs share."""
    if device.type != "cuda":
        return _INTERPRETED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


@cache
def count_shared_bytes(device: torch.device) -> int:
    """Return the bytes of shared memory that one program may have."""
    if device.type != "cuda":
        return _INTERPRETED_SHARED_BYTES
    return torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def is_fake(x: Tensor) -> bool:
    """Return whether `x` has no values, as under torch.compile: then no kernel is launched."""
    return isinstance(x, FakeTensor) or x.is_meta


def _read_kind(value: Any) -> Any:
    """Return the properties on which Triton specializes: dtype and alignment, or a number's size.

    It is called for each argument of each call, so it uses the cheapest tests.
    """
    kind = type(value)
    if kind is Tensor or kind is Parameter:
        return value.dtype if value.data_ptr() % 16 == 0 else (value.dtype,)
    if kind is int:
        return (value == 1) + 2 * (value % 16 == 0) + 4 * (value >= 2**31)
    if kind is tuple:
        return tuple(map(_read_kind, value))
    if isinstance(value, Tensor):  # of a subclass
        return value.dtype, value.data_ptr() % 16 == 0
    return kind


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    *args: Any,
    warps: int,
    registers: int | None = None,
    **constants: Any,
) -> None:
    """Launch `kernel` on the device of its first argument; `constants` come last in its signature.

    `grid` is the number of programs on up to three axes. Nothing is launched if one of them is 0.
    `registers` limits each thread, so that the intended number of programs fits.
    """
    # CUDA refuses an empty grid; an empty tensor is fine.
    if 0 in grid:
        return
    device = args[0].device
    if INTERPRETED:
        kernel[grid](*args, **constants)
    # Triton launches on the current device, which may not be the tensor's.
    elif device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            _start_kernel(kernel, grid, device, args, warps, registers, constants)
    else:
        _start_kernel(kernel, grid, device, args, warps, registers, constants)


def _start_kernel(
    kernel: Any,
    grid: tuple,
    device: torch.device,
    args: tuple,
    warps: int,
    registers: int | None,
    constants: dict,
) -> None:
    given = tuple(constants.values())
    # Kernels live as long as their modules; Triton's own hash of one is slow.
    key = (id(kernel), device.index, warps, registers, given, *map(_read_kind, args))
    compiled = _compiled.get(key)
    if compiled is None:
        options = {"num_warps": warps, "maxnreg": registers}
        _compiled[key] = kernel[grid](*args, **constants, **options)
    else:
        compiled[(*grid, 1, 1)[:3]](*args, *given)
