"""How a kernel is measured: draw, run, compare with its formula in float64. Torch only.

What is allowed. u is half the distance from 1 to the next number of the dtype, by which a
rounded result may be off; 1.1u leaves room for a float32 computation that ends next to a tie.

    outputs, gradients of rows       1.1u·|ref| + 1e-6·max|ref of the row|     float32: 2e-6·|ref|
    two roundings (llama's order)    1.3 times as much again, of the dtype rounded to first
    gradients of parameters          the same with 5e-6·√terms·size, over which float32 adds up
    interpreted bfloat16             2u for each rounding: Triton's interpreter cuts off
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
from normkernels.bench.check import as_tuple
from normkernels.launch import INTERPRETED
from torch import Tensor
from torch.utils import deterministic

from . import quick
from .cases import Case, Make

if INTERPRETED and tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7):
    import numpy

    if tuple(map(int, numpy.__version__.split(".")[:2])) >= (2, 4):
        raise ImportError("the interpreter of Triton 3.6 needs NumPy < 2.4 for bounds of loops")
if INTERPRETED:
    quick.install()
DEVICE = torch.device("cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu")
FLOAT, BRAIN, HALF = torch.float32, torch.bfloat16, torch.float16
UNIT = {FLOAT: 2.0**-24, BRAIN: 2.0**-8, HALF: 2.0**-11}
EPS = 2.0**-24
SUM_SHARE = 5e-6  # of the size of a term, for each √term added up in float32

Tensors = dict[str, Tensor]


class Skip(Exception):
    """Raised by a law that cannot be tested here; the message says why."""


@dataclass(frozen=True)
class Setting:
    """M rows of N values, their dtype, and that of the parameters."""

    m: int
    n: int
    dtype: torch.dtype = FLOAT
    parameters: torch.dtype | None = None

    def __str__(self) -> str:
        names = {str(self.dtype)[6:]: 0} | {str(self.parameters or self.dtype)[6:]: 0}
        return f"{self.m}x{self.n} {'/'.join(names)}"


@dataclass
class Run:
    """The results of one call: outputs, incoming gradients, and resulting gradients."""

    outputs: tuple[Tensor, ...]
    dys: tuple[Tensor, ...]
    grads: dict[str, Tensor | None]


def draw(case: Case, setting: Setting, seed: int = 0) -> dict[str, Any]:
    """Draw the inputs of a case."""
    make = Make(setting.m, setting.n, setting.dtype, setting.parameters, DEVICE, seed)
    return {
        name: value.to(DEVICE) if isinstance(value, Tensor) else value
        for name, value in case.inputs(make).items()
    }


def learned(case: Case, inputs: dict[str, Any]) -> list[str]:
    """List the inputs that have a gradient."""
    names = (*case.rows, *case.parameters)
    return [name for name in names if isinstance(inputs.get(name), Tensor)]


def normal_like(outputs: Iterable[Tensor], seed: int = 1) -> tuple[Tensor, ...]:
    """Draw a gradient for each output."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(y.shape, generator=generator).to(y.dtype).to(y.device) for y in outputs
    )


def leaves(case: Case, inputs: dict[str, Any], frozen: Iterable[str] = ()) -> dict[str, Any]:
    """Detach the inputs and set which of them require a gradient; layouts are kept."""
    wanted = set(learned(case, inputs)) - set(frozen)
    return {
        name: value.detach().requires_grad_(name in wanted) if isinstance(value, Tensor) else value
        for name, value in inputs.items()
    }


def run(
    function: Callable[..., Any],
    case: Case,
    inputs: dict[str, Any],
    dys: tuple[Tensor, ...] | None = None,
    frozen: Iterable[str] = (),
) -> Run:
    """Call, then backpropagate from every output with the given or random gradients."""
    given = leaves(case, inputs, frozen)
    outputs = as_tuple(function(**given, **case.options))
    dys = normal_like(outputs) if dys is None else dys
    names = [n for n in learned(case, inputs) if n not in set(frozen)]
    actual = torch.autograd.grad(outputs, [given[n] for n in names], dys, allow_unused=True)
    grads = dict(zip(names, actual, strict=True))
    return Run(tuple(y.detach() for y in outputs), dys, grads)


def fused(case: Case, inputs: dict[str, Any], **how: Any) -> Run:
    """Run the kernel."""
    return run(case.function, case, inputs, **how)


def truth(case: Case, inputs: dict[str, Any], dys: tuple[Tensor, ...], frozen=()) -> Run:
    """Run the formula in float64, on the same rounded numbers."""
    return run(case.formula, case, doubled(inputs), tuple(dy.double() for dy in dys), frozen)


def doubled(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the same numbers in float64."""
    return {
        name: value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
        for name, value in inputs.items()
    }


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round float64 as the kernels do: to nearest, but interpreted bfloat16 is truncated."""
    if dtype == BRAIN and INTERPRETED:
        return (x.float().view(torch.int32) & -65536).view(FLOAT).double()
    return x.to(dtype).double()


def relative(dtype: torch.dtype) -> float:
    """Return the relative error of one rounding to the dtype, after float32."""
    if dtype == BRAIN and INTERPRETED:
        return 2.02 * UNIT[BRAIN]
    return 2e-6 if dtype == FLOAT else 1.1 * UNIT[dtype]


def close(
    what: str, actual: Tensor, ref: Tensor, dtype: torch.dtype, share: float = 0.0, floor: Any = 0.0
) -> None:
    """Compare with float64; NaN and infinities must be in the same positions.

    `share` is allowed beyond the rounding to `dtype`, `floor` whatever the size.
    """
    assert actual.dtype == dtype, f"{what} has dtype {actual.dtype}, not {dtype}"
    assert actual.shape == ref.shape, (
        f"{what} has shape {tuple(actual.shape)}, not {tuple(ref.shape)}"
    )
    assert torch.equal(actual.isnan(), ref.isnan()), f"{what}: not-a-number in other places"
    smallest = torch.finfo(dtype).smallest_normal * UNIT[dtype] * 2
    limit = (share + relative(dtype)) * ref.abs() + floor + smallest
    error = (actual.double() - ref).abs()
    # What is too large for the dtype is infinite; next to the largest number, it may be.
    top = torch.finfo(dtype).max * (1 - 2 * UNIT[dtype])
    overflows = (ref.abs() > top) & (actual.isinf() & (actual.sign() == ref.sign()))
    excess = torch.where(overflows | ref.isnan(), -1.0, error - limit)
    if excess.numel() and not excess.max() <= 0:
        at = int(excess.argmax())
        raise AssertionError(
            f"{what} is {actual.flatten()[at].item():.9g} where {ref.flatten()[at].item():.9g} is "
            f"right, at {at} of {tuple(actual.shape)}: off by {error.flatten()[at].item():.3g}; "
            f"{(excess > 0).sum().item()} values of {excess.numel()} are off by too much"
        )


def row_floor(ref: Tensor, share: float = 1e-6) -> Tensor | float:
    """Return the part of a row's largest value (if short: of all) that float32 sums may lose."""
    if not ref.numel():
        return 0.0
    return share * (ref.abs().amax(-1, keepdim=True) if ref.shape[-1] > 16 else ref.abs().max())


def term_floor(case: Case, inputs: dict[str, Any], name: str, exact: Run) -> Tensor | float:
    """Return the cancelling part of a row's gradient, times float32's error.

    dx is a difference of terms of size |dy| · |y| / |x|, and may be far smaller than they are. x
    is here what is normed: for a sum, the sum.
    """
    x, floor = inputs[name].double(), 0.0
    if not x.numel():
        return 0.0
    normed = case.total(**doubled(inputs)) if case.total else x
    for y, dy in zip(exact.outputs, exact.dys, strict=True):
        if y.shape == x.shape:
            slope = rms(y, -1) / rms(normed, -1).clamp_min(1e-30)
            floor = floor + 2e-6 * dy.abs().amax(-1, keepdim=True) * slope
    return floor


def rms(x: Tensor, dim: int | None = None) -> Tensor:
    """Return the root mean square of everything or of each row."""
    return x.square().mean(dim, keepdim=dim is not None).sqrt()


def sum_floor(exact: Run, grad: Tensor) -> float:
    """Return the error that float32 may make in the sum of a parameter's gradient.

    Each of the terms is about as large as dy; the sum of T of them in float32 errs by √T roundings.
    """
    terms = sum(dy.numel() for dy in exact.dys) / max(1, grad.numel())
    size = max(
        (float(dy.abs().square().mean().sqrt()) for dy in exact.dys if dy.numel()), default=0
    )
    return SUM_SHARE * terms**0.5 * max(size, 1e-30)


@contextlib.contextmanager
def filled_with_nan() -> Iterator[None]:
    """Make torch.empty and the like return memory full of NaN."""
    assert deterministic.fill_uninitialized_memory
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def identical(what: str, actual: Tensor | None, before: Tensor | None) -> None:
    """Fail if any bit differs, even in NaN."""
    assert (actual is None) == (before is None), f"{what}: {actual} and {before}"
    if actual is None or before is None:
        return
    assert actual.shape == before.shape and actual.dtype == before.dtype, f"{what}: other shape"
    differ = (actual != before) & ~(actual.isnan() & before.isnan())
    assert not differ.any(), (
        f"{what}: other bits in {int(differ.sum())} of {actual.numel()} values, "
        f"by up to {(actual - before).abs().max():.3g}"
    )
