"""Other implementations of RMSNorm: they differ in where eps is, and in what is rounded first.

    rms-llama     y = weight · cast(x / r)                    cast back first, then the gain
    rms-t5        y = weight · cast(x / r)                    cast only if the gain is half
    rms-gemma     y = cast((1 + weight) · x / r)              weight starts at 0; one cast
    rms-outside   y = cast(weight · x / (sqrt(mean(x²)) + eps))
    r = sqrt(mean(x²) + eps), in at least float32; `rms` itself is cast(weight · x / r)

In float32 the first three are the same function as `rms`. In half precision they round at different
places: Llama's and T5's agree when the gain is half too, and differ from Gemma's and torch's. With
a float32 gain and a half x, Llama and T5 return float32 (T5 unrounded). Sources: transformers'
modeling code of Llama (arXiv 2302.13971), T5 (arXiv 1910.10683) and Gemma (arXiv 2403.08295); eps
outside: Zhang and Sennrich's own torch code, arXiv 1910.07467.
"""

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import LastAxis, affine, at_least_float32, check_input, check_parameter
from labkit.norms.native import is_native, native_rms_norm

_HALF = (torch.float16, torch.bfloat16)


def _standard(name: str, x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """Return x / sqrt(mean(x²) + eps), not rounded yet."""
    check_input(name, x, eps)
    check_parameter(name, "weight", weight, x.shape[-1])
    wide = at_least_float32(x)
    return wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)


def rms_norm_llama(
    x: Float[Tensor, "*leading dim"], weight: Float[Tensor, " dim"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*leading dim"]:
    """Round the normalized vector to x's dtype, then multiply by the gain in the gain's dtype."""
    standard = _standard("rms_norm_llama", x, weight, eps).to(x.dtype)
    return standard if weight is None else weight * standard


def rms_norm_t5(
    x: Float[Tensor, "*leading dim"], weight: Float[Tensor, " dim"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*leading dim"]:
    """Round the normalized vector to the gain's dtype, but only if the gain is half precision."""
    standard = _standard("rms_norm_t5", x, weight, eps)
    if weight is None:
        return standard.to(x.dtype)
    return weight * (standard.to(weight.dtype) if weight.dtype in _HALF else standard)


def rms_norm_gemma(
    x: Float[Tensor, "*leading dim"], weight: Float[Tensor, " dim"] | None = None, eps: float = 1e-6
) -> Float[Tensor, "*leading dim"]:
    """Multiply by 1 + weight in at least float32, then round once to x's dtype."""
    standard = _standard("rms_norm_gemma", x, weight, eps)
    gain = None if weight is None else 1.0 + weight.to(standard.dtype)
    return affine(standard, gain, None).to(x.dtype)


def rms_norm_outside(
    x: Float[Tensor, "*leading dim"], weight: Float[Tensor, " dim"] | None = None, eps: float = 1e-8
) -> Float[Tensor, "*leading dim"]:
    """Divide by the root mean square plus eps: the slope at 0 is 1/eps, not 1/sqrt(eps)."""
    check_input("rms_norm_outside", x, eps)
    check_parameter("rms_norm_outside", "weight", weight, x.shape[-1])
    wide = at_least_float32(x)
    # A length, because its gradient is 0 at 0, where a root's is infinite.
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return affine(wide / (length / x.shape[-1] ** 0.5 + eps), weight, None).to(x.dtype)


class _Gained(LastAxis):
    """Base class: a function of (x, weight, eps) as a module, with one gain per feature."""

    function: ClassVar[Callable[[Tensor, Tensor, float], Tensor]]
    same_as: ClassVar[str] = "rms"
    start: ClassVar[float] = 1.0
    offset: ClassVar[float | None] = None  # gain − weight, where the result is that of `rms`

    def __init__(self, dim: int, eps: float = 1e-6, *, device=None, dtype=None):
        super().__init__(dim, eps)
        self.weight = nn.Parameter(torch.full((dim,), self.start, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        self.check_width(x)
        weight, offset = self.weight, self.offset
        if offset is not None and is_native(x, weight, self.eps):
            # In float32 nothing is rounded in between: one norm under three names.
            return native_rms_norm(x, weight + offset if offset else weight, self.eps)
        return type(self).function(x, weight, self.eps)


class LlamaRMSNorm(_Gained):
    """`rms_norm_llama` as a module, with a learned gain."""

    equation = "y = weight · cast(x / sqrt(mean(x²) + eps))"
    source = "Touvron et al. 2023, arXiv 2302.13971, as transformers has it"
    function = staticmethod(rms_norm_llama)
    offset = 0.0


class T5RMSNorm(_Gained):
    """`rms_norm_t5` as a module, with a learned gain."""

    equation = "y = weight · cast(x / sqrt(mean(x²) + eps)), cast only to a half-precision gain"
    source = "Raffel et al. 2020, arXiv 1910.10683, as transformers has it"
    function = staticmethod(rms_norm_t5)
    offset = 0.0


class GemmaRMSNorm(_Gained):
    """`rms_norm_gemma` as a module; it stores the gain minus 1 (weight decay pulls to gain 1)."""

    equation = "y = cast((1 + weight) · x / sqrt(mean(x²) + eps))"
    source = "Gemma Team 2024, arXiv 2403.08295, as transformers has it"
    function = staticmethod(rms_norm_gemma)
    offset = 1.0
    start = 0.0


class OutsideRMSNorm(_Gained):
    """`rms_norm_outside` as a module, with a learned gain."""

    equation = "y = weight · x / (sqrt(mean(x²)) + eps)"
    source = "Zhang and Sennrich 2019, arXiv 1910.07467, the authors' torch code"
    function = staticmethod(rms_norm_outside)
    eps_place = "added to the deviation"

    def __init__(self, dim: int, eps: float = 1e-8, *, device=None, dtype=None):
        super().__init__(dim, eps, device=device, dtype=dtype)
