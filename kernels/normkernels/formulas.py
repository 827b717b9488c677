"""Each kernel's formula in plain PyTorch, for programs without labkit and the tests.

They are the reference for kernels (in float64), the benchmark's peer `eager`, and the code that its
peer `compile` compiles. They compute in at least float32 and round like the kernels; names and
arguments are the kernels'.
"""

import torch
from torch import Tensor


def widen(x: Tensor) -> Tensor:
    """Promote half precision to float32; leave other dtypes."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def apply_affine(y: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """Multiply by the gain and add the shift, if given."""
    y = y if weight is None else y * widen(weight)
    return y if bias is None else y + widen(bias)


def standardize(x: Tensor, eps: float) -> Tensor:
    """Compute x / sqrt(mean(x²) + eps), not rounded yet."""
    return widen(x) * torch.rsqrt(widen(x).square().mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Compute x / sqrt(mean(x²) + eps) · weight, rounded once."""
    return apply_affine(standardize(x, eps), weight).to(x.dtype)


def rms_norm_llama(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Compute RMSNorm, rounded to x's dtype before the gain."""
    y = standardize(x, eps).to(x.dtype)
    return y if weight is None else weight * y


def rms_norm_gemma(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Compute RMSNorm with gain 1 + weight, rounded once."""
    return apply_affine(standardize(x, eps), None if weight is None else 1 + widen(weight)).to(
        x.dtype
    )


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Compute (x − mean) / sqrt(variance + eps) · weight + bias, rounded once."""
    z = widen(x)
    return apply_affine(standardize(z - z.mean(-1, keepdim=True), eps), weight, bias).to(x.dtype)


def add_rms_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it; return both."""
    h = x + residual
    return _normalize(h, weight, eps, offset, round_first).to(x.dtype), h


def rms_norm_add(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
    round_first: bool = False,
) -> Tensor:
    """Round the norm of x to its dtype, then add it to the residual."""
    return residual + _normalize(x, weight, eps, offset, round_first).to(x.dtype)


def rms_norm_add_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    next_weight: Tensor | None = None,
    eps: float = 1e-6,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Round the norm of x to its dtype, add it to the residual, and normalize the sum."""
    h = rms_norm_add(x, residual, weight, eps, offset, round_first)
    return _normalize(h, next_weight, eps, offset, round_first).to(h.dtype), h


def _normalize(
    x: Tensor, weight: Tensor | None, eps: float, offset: float, round_first: bool
) -> Tensor:
    """Compute RMSNorm in one of its rounding orders, before the last rounding."""
    if round_first:
        y = standardize(x, eps).to(x.dtype)
        return y if weight is None else weight * y
    return apply_affine(standardize(x, eps), None if weight is None else offset + widen(weight))


def rms_norm_gated(
    x: Tensor,
    gate: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    round_first: bool = False,
) -> Tensor:
    """Multiply the norm of x by silu(gate) and round; `round_first` also rounds the norm."""
    y = _normalize(x, weight, eps, 0.0, round_first)
    return (widen(y) * torch.nn.functional.silu(widen(gate))).to(x.dtype)


def rms_norm_fp8(
    x: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    group: int | None = None,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Round RMSNorm to x's dtype, then divide by max |y| / 448 and round to e4m3."""
    return _quantize(_normalize(x, weight, eps, offset, round_first).to(x.dtype), group)


def add_rms_norm_fp8(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    eps: float = 1e-6,
    group: int | None = None,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Add, normalize, and quantize the norm."""
    y, h = add_rms_norm(x, residual, weight, eps, offset, round_first)
    return *_quantize(y, group), h


def _quantize(y: Tensor, group: int | None) -> tuple[Tensor, Tensor]:
    """Return y in e4m3 with one float32 scale a row, or a group of its values."""
    grouped = widen(y).unflatten(-1, (-1, group or y.shape[-1]))
    most = grouped.abs().amax(-1, keepdim=True)
    scale = torch.where(most == 0, 1.0, most / 448)
    q = (grouped / scale).to(torch.float8_e4m3fn)
    return q.flatten(-2), scale.squeeze(-1)


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it; return both."""
    h = x + residual
    return layer_norm(widen(h), weight, bias, eps).to(x.dtype), h


def deep_norm(
    x: Tensor,
    branch: Tensor,
    alpha: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Round alpha · x + branch to the wider dtype, then normalize it."""
    total = alpha * widen(x) + widen(branch)
    return layer_norm(total.to(torch.promote_types(x.dtype, branch.dtype)), weight, bias, eps)


def turn_pairs(x: Tensor, angles: Tensor, interleaved: bool = False) -> Tensor:
    """Rotate channel i with i + pairs, or 2i with 2i + 1; the rest is unchanged."""
    cos, sin = (of[..., None, :].to(x.dtype) for of in (angles.cos(), angles.sin()))
    pairs = angles.shape[-1]
    both, rest = x.split((2 * pairs, x.shape[-1] - 2 * pairs), -1)
    a, b = both.unflatten(-1, (pairs, 2)).unbind(-1) if interleaved else both.chunk(2, -1)
    turned = a * cos - b * sin, a * sin + b * cos
    both = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((both, rest), -1)


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None = None,
    k_weight: Tensor | None = None,
    angles: Tensor | None = None,
    *,
    norm: str | None = "rms",
    eps: float = 1e-6,
    after_rope: bool = False,
    offset: float = 0.0,
    scale: float = 1.0,
    interleaved: bool = False,
) -> tuple[Tensor, Tensor]:
    """Apply norm, gain and rotation to q and k, in either order, rounded once."""

    def normalize_one(x: Tensor, weight: Tensor | None) -> Tensor:
        y = widen(x)
        if after_rope and angles is not None:
            y = turn_pairs(y, angles, interleaved)
        if norm == "rms":
            y = standardize(y, eps)
        elif norm == "l2":
            length = torch.linalg.vector_norm(y, dim=-1, keepdim=True).clamp_min(eps)
            y = y / length.masked_fill(length == 0, 1)
        y = y if weight is None else y * (widen(weight) + offset)
        if angles is not None and not after_rope:
            y = turn_pairs(y, angles, interleaved)
        return (y if scale == 1 else scale * y).to(x.dtype)

    return normalize_one(q, q_weight), normalize_one(k, k_weight)


def widen_number(value: Tensor | float) -> Tensor | float:
    """Promote a tensor with one element, and make it broadcast with any shape."""
    return widen(value).reshape(()) if isinstance(value, Tensor) else value


def dynamic_tanh(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute tanh(alpha · x) · weight + bias, rounded once."""
    return apply_affine(torch.tanh(widen_number(alpha) * widen(x)), weight, bias).to(x.dtype)


def dynamic_erf(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    shift: Tensor | float = 0.0,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute erf(alpha · x + shift) · weight + bias, rounded once."""
    z = torch.erf(widen_number(alpha) * widen(x) + widen_number(shift))
    return apply_affine(z, weight, bias).to(x.dtype)


def scale_to_unit(x: Tensor, dim: int = -1) -> Tensor:
    """Compute x / |x|, zero for zero, not rounded yet."""
    z = widen(x)
    length = torch.linalg.vector_norm(z, dim=dim, keepdim=True)
    return z / length.masked_fill(length == 0, 1)


def step_towards(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Compute x + |alpha| ⊙ (unit(branch) − x), not rounded yet."""
    return widen(x) + widen(alpha).abs() * (scale_to_unit(branch) - widen(x))


def ngpt_update(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Move towards the branch, divide by the length, round once."""
    step = step_towards(x, branch, alpha)
    return scale_to_unit(step).to(torch.promote_types(x.dtype, branch.dtype))


def unit_rows_(weight: Tensor, dim: int = -1) -> Tensor:
    """Scale every vector along `dim` to length 1, in place."""
    return weight.copy_(scale_to_unit(weight, dim))
