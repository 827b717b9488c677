"""Number formats: their ranges, rounding to them, and the noise of rounding.

    round_to_format     the nearest number of a format, ties to even
    scale_to_format     x → s · round(x / s),  s = max |x| / largest: one scale for a tensor
    emulate_nvfp4       the same for e2m1, with a scale for each block of 16 that is itself e4m3
    signal to noise     10 log₁₀(Σ exact² / Σ (rounded − exact)²), in decibels

Results are float32 numbers, rounded by torch's cast where it has one. Sources:
Micikevicius et al. 2022, arXiv 2209.05433 (e4m3, e5m2); NVIDIA 2025, arXiv 2509.25149 (NVFP4).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from labkit.system.unknown import explain_unknown

BLOCK = 16  # values that share a scale in NVFP4


@dataclass(frozen=True)
class Format:
    """A floating-point format: its precision p in bits, its exponents and its largest number."""

    bits: int  # total bits
    significant: int  # p, including the implicit one
    lowest: int  # exponent of the smallest normal number
    largest: float
    overflow: float  # the result for numbers that are too large: inf, or the largest (saturation)
    dtype: torch.dtype | None = None  # torch's, if it casts to this format

    @property
    def smallest_normal(self) -> float:
        """Return the smallest number with all significant bits."""
        return 2.0**self.lowest

    @property
    def smallest(self) -> float:
        """Return the smallest subnormal number; values up to half of it are rounded to 0."""
        return 2.0 ** (self.lowest - self.significant + 1)


FORMATS = {
    "float32": Format(32, 24, -126, (2 - 2.0**-23) * 2.0**127, float("inf"), torch.float32),
    "bfloat16": Format(16, 8, -126, (2 - 2.0**-7) * 2.0**127, float("inf"), torch.bfloat16),
    "float16": Format(16, 11, -14, 65504.0, float("inf"), torch.float16),
    "e5m2": Format(8, 3, -14, 57344.0, float("inf"), torch.float8_e5m2),
    "e4m3": Format(8, 4, -6, 448.0, 448.0, torch.float8_e4m3fn),
    "e2m1": Format(4, 2, 0, 6.0, 6.0),
}


def round_to_format(x: Float[Tensor, "*shape"], name: str) -> Float[Tensor, "*shape"]:
    """Round each value to the nearest number of a format, ties to even; the result is float32.

    Beyond the largest number float16, bfloat16 and e5m2 have infinity. e4m3 and e2m1 have none:
    they saturate, as hardware does. Wider inputs are first rounded to float32. No gradient passes.

    Raises:
        ValueError: the format is not in FORMATS.
    """
    kind, x = _find_format(name), x.detach().to(torch.float32)
    if kind.overflow == kind.largest:
        x = x.clamp(-kind.largest, kind.largest)
    if kind.dtype is not None:
        return x.to(kind.dtype).to(torch.float32)
    # torch casts to no e2m1. Its neighbours at x have this distance, constant below normal numbers.
    exponent = torch.frexp(x).exponent - 1
    step = torch.ldexp(torch.ones_like(x), exponent.clamp(min=kind.lowest) - kind.significant + 1)
    return torch.round(x / step) * step


def scale_to_format(x: Float[Tensor, "*shape"], name: str) -> Float[Tensor, "*shape"]:
    """Round a tensor with one scale: x → s · round(x / s), so that the largest value just fits.

    Raises:
        ValueError: the format is not in FORMATS.
    """
    scale = _divide_or_one(x.abs().amax().to(torch.float32), _find_format(name).largest)
    return scale * round_to_format(x / scale, name)


def emulate_nvfp4(x: Float[Tensor, "*leading width"]) -> Float[Tensor, "*leading width"]:
    """Round a tensor to NVFP4: blocks of 16 along the last axis, e2m1 values, e4m3 scales.

    A scale t in float32 for the tensor, t = max |x| / (6 · 448), brings the scale of each block,
    round_e4m3(max |block| / (6 t)), into e4m3's range. A block whose scale is rounded to 0 is 0.

    Raises:
        ValueError: the size of the last axis is not a multiple of 16.
    """
    if x.ndim == 0 or x.shape[-1] % BLOCK:
        raise ValueError(
            f"NVFP4 needs a last axis whose size is a multiple of {BLOCK}, the block size; got "
            f"shape {tuple(x.shape)}; pad it with zeros"
        )
    blocks = x.to(torch.float32).unflatten(-1, (-1, BLOCK))
    six = FORMATS["e2m1"].largest
    whole = _divide_or_one(x.abs().amax().to(torch.float32), six * FORMATS["e4m3"].largest)
    scale = whole * round_to_format(blocks.abs().amax(-1, keepdim=True) / (six * whole), "e4m3")
    values = round_to_format(blocks / torch.where(scale > 0, scale, 1.0), "e2m1")
    return (values * scale).flatten(-2)


def sum_in_format(x: Float[Tensor, "*leading width"], name: str) -> Float[Tensor, "*leading"]:
    """Add up the last axis value by value, rounding after every addition.

    Raises:
        ValueError: the format is not in FORMATS.
    """
    total = torch.zeros(x.shape[:-1])
    for column in round_to_format(x, name).unbind(-1):
        total = round_to_format(total + column, name)
    return total


def measure_signal_to_noise(
    exact: Float[Tensor, "*leading width"], rounded: Float[Tensor, "*leading width"]
) -> Float[Tensor, "*leading"]:
    """Return 10 log₁₀(Σ exact² / Σ (rounded − exact)²) over the last axis; inf where they agree.

    Raises:
        ValueError: the shapes differ.
    """
    if exact.shape != rounded.shape:
        raise ValueError(
            f"signal and noise must have the same shape, got {tuple(exact.shape)} and "
            f"{tuple(rounded.shape)}"
        )
    exact, rounded = exact.double(), rounded.double()
    noise = (rounded - exact).square().sum(-1)
    return 10 * torch.log10(exact.square().sum(-1) / noise)


def _find_format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(explain_unknown("format", name, FORMATS))
    return FORMATS[name]


def _divide_or_one(largest: Tensor, limit: float) -> Tensor:
    """Return largest / limit, or 1 if all values are 0 and no scale is needed."""
    scale = largest / limit
    return torch.where(scale > 0, scale, torch.ones_like(scale))
