"""LayerNorm and RMSNorm in an arithmetic that is named, to see what rounding does to them.

    "bfloat16"            variance = mean((x − mean(x))²)                  two passes over x
    "bfloat16 one-pass"   variance = max(0, mean(x²) − mean(x)²)           one pass

x and the result of every operation are rounded to the dtype that is named, as plain PyTorch does
on such a tensor: x², x − mean(x) and x · rsqrt(…) value by value, a mean (summed in float32) once
at its end. Gain and shift follow in that dtype, the result returns to x's. RMSNorm has a mean
square in place of the variance and no one-pass form: it needs none.

Norms of this kind are for experiments: labkit's own round once, at their end.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from labkit.norms._common import affine
from labkit.norms.layer_norm import LayerNorm
from labkit.norms.rms_norm import RMSNorm
from labkit.system.unknown import explain_unknown

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
ARITHMETICS = tuple(f"{dtype}{way}" for dtype in _DTYPES for way in ("", " one-pass"))


def dtype_of(arithmetic: str) -> torch.dtype:
    """Return the dtype that an arithmetic rounds to; refuse a name that is none."""
    if arithmetic not in ARITHMETICS:
        raise ValueError(explain_unknown("arithmetic", arithmetic, ARITHMETICS))
    return _DTYPES[arithmetic.split()[0]]


def variance_in(x: Float[Tensor, "*leading dim"], arithmetic: str) -> Float[Tensor, "*leading 1"]:
    """Find the variance of each vector in an arithmetic, with what its rounding made of it.

    The one-pass difference is given as it comes: it may be negative.
    """
    x = x.to(dtype_of(arithmetic))
    mean = x.mean(dim=-1, keepdim=True)
    if arithmetic.endswith("one-pass"):
        return x.square().mean(dim=-1, keepdim=True) - mean.square()
    return (x - mean).square().mean(dim=-1, keepdim=True)


def layer_norm_in(
    x: Float[Tensor, "*leading dim"],
    arithmetic: str,
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*leading dim"]:
    """Compute `layer_norm` with every result rounded; a negative variance counts as 0."""
    low = x.to(dtype_of(arithmetic))
    variance = variance_in(x, arithmetic).clamp(min=0)
    centred = low - low.mean(dim=-1, keepdim=True)
    return affine(centred * torch.rsqrt(variance + eps), weight, bias).to(x.dtype)


def rms_norm_in(
    x: Float[Tensor, "*leading dim"],
    arithmetic: str,
    weight: Float[Tensor, " dim"] | None = None,
    eps: float | None = 1e-6,
) -> Float[Tensor, "*leading dim"]:
    """Compute `rms_norm` with every result rounded; `eps=None` is the machine epsilon of x."""
    low = x.to(dtype_of(arithmetic))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    mean_square = low.square().mean(dim=-1, keepdim=True)
    return affine(low * torch.rsqrt(mean_square + eps), weight, None).to(x.dtype)


class LayerNormIn(LayerNorm):
    """Own the parameters of `layer_norm_in`."""

    arithmetic = "float32"

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return layer_norm_in(input, self.arithmetic, self.weight, self.bias, self.eps)


class RMSNormIn(RMSNorm):
    """Own the gain of `rms_norm_in`."""

    arithmetic = "float32"

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return rms_norm_in(x, self.arithmetic, self.weight, self.eps)


_KINDS: dict[type[nn.Module], type[nn.Module]] = {LayerNorm: LayerNormIn, RMSNorm: RMSNormIn}


def set_arithmetic(norm: nn.Module, arithmetic: str) -> nn.Module:
    """Make a LayerNorm or RMSNorm of labkit compute in an arithmetic; parameters stay the same."""
    dtype_of(arithmetic)
    if type(norm) not in _KINDS:
        raise ValueError(
            f"only the norms layer and rms have a choice of arithmetic, got {type(norm).__name__}"
        )
    if isinstance(norm, RMSNorm) and arithmetic.endswith("one-pass"):
        raise ValueError(
            f"RMSNorm's mean square has no one-pass form, got {arithmetic!r}; "
            f"take {arithmetic.split()[0]!r}"
        )
    # The class alone changes, so that the parameters are the same and nothing is drawn again.
    norm.__class__ = _KINDS[type(norm)]  # pyright: ignore[reportAttributeAccessIssue]
    norm.arithmetic = arithmetic  # pyright: ignore[reportArgumentType]
    return norm
