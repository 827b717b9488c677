"""LayerNorm and RMSNorm in a chosen arithmetic, to show the effects of rounding.

    "bfloat16"            variance = mean((x − mean(x))²)                  two passes over x
    "bfloat16 one-pass"   variance = max(0, mean(x²) − mean(x)²)           one pass

x and the result of every operation are rounded to the chosen dtype, as plain PyTorch does on a
tensor of that dtype: x², x − mean(x) and x · rsqrt(…) value by value, a mean (summed in float32)
once at its end. Gain and shift follow in that dtype, the result returns to x's. RMSNorm has a mean
square in place of the variance and no one-pass form: it needs none.

These norms are for experiments: labkit's own norms round once, at the end.
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
    """Return the dtype of an arithmetic; refuse an unknown name."""
    if arithmetic not in ARITHMETICS:
        raise ValueError(explain_unknown("arithmetic", arithmetic, ARITHMETICS))
    return _DTYPES[arithmetic.split()[0]]


def variance_in(x: Float[Tensor, "*leading dim"], arithmetic: str) -> Float[Tensor, "*leading 1"]:
    """Compute the variance of each vector in an arithmetic, rounding errors included.

    The one-pass difference is returned without a floor: it may be negative.
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
    """`layer_norm_in` as a module, with LayerNorm's parameters."""

    arithmetic = "float32"

    def forward(self, input: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return layer_norm_in(input, self.arithmetic, self.weight, self.bias, self.eps)


class RMSNormIn(RMSNorm):
    """`rms_norm_in` as a module, with RMSNorm's gain."""

    arithmetic = "float32"

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each vector on the last axis."""
        return rms_norm_in(x, self.arithmetic, self.weight, self.eps)


_KINDS: dict[type[nn.Module], type[nn.Module]] = {LayerNorm: LayerNormIn, RMSNorm: RMSNormIn}


def set_arithmetic(norm: nn.Module, arithmetic: str) -> nn.Module:
    """Make a LayerNorm or RMSNorm of labkit compute in an arithmetic; its parameters are kept."""
    dtype_of(arithmetic)
    if type(norm) not in _KINDS:
        raise ValueError(
            f"set_arithmetic needs labkit's LayerNorm or RMSNorm, got {type(norm).__name__}"
        )
    if isinstance(norm, RMSNorm) and arithmetic.endswith("one-pass"):
        raise ValueError(
            f"RMSNorm's mean square has no one-pass form, got arithmetic {arithmetic!r}; use "
            f"{arithmetic.split()[0]!r}"
        )
    # Only the class changes, so that the parameters are the same and nothing is drawn again.
    norm.__class__ = _KINDS[type(norm)]  # pyright: ignore[reportAttributeAccessIssue]
    norm.arithmetic = arithmetic  # pyright: ignore[reportArgumentType]
    return norm
