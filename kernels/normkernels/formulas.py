"""Each kernel's formula in plain PyTorch, where neither labkit nor the tests are.

They are what kernels are held against (in float64), the benchmark's peer `eager`, and what its peer
`compile` compiles. They compute in at least float32 and round as the kernels do; names and
arguments are the kernels'.
"""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Promote half precision to float32; leave the rest alone."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def affine(y: Tensor, weight: Tensor | None, bias: Tensor | None = None) -> Tensor:
    """Multiply by the gain and add the shift, where given."""
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias)


def standard(x: Tensor, eps: float) -> Tensor:
    """Compute x / sqrt(mean(x²) + eps), not yet rounded."""
    return wide(x) * torch.rsqrt(wide(x).square().mean(-1, keepdim=True) + eps)


def rms_norm(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Compute x / sqrt(mean(x²) + eps) · weight, rounded once."""
    return affine(standard(x, eps), weight).to(x.dtype)


def rms_norm_llama(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Round before the gain."""
    y = standard(x, eps).to(x.dtype)
    return y if weight is None else weight * y


def rms_norm_gemma(x: Tensor, weight: Tensor | None = None, eps: float = 1e-6) -> Tensor:
    """Multiply by 1 + weight, rounded once."""
    return affine(standard(x, eps), None if weight is None else 1 + wide(weight)).to(x.dtype)


def layer_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Compute (x − mean) / sqrt(variance + eps) · weight + bias, rounded once."""
    z = wide(x)
    return affine(standard(z - z.mean(-1, keepdim=True), eps), weight, bias).to(x.dtype)


def add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor | None = None, eps: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it; the sum is a result too."""
    h = x + residual
    return rms_norm(wide(h), weight, eps).to(x.dtype), h


def add_layer_norm(
    x: Tensor,
    residual: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor]:
    """Round the sum to the wider dtype, then normalize it; the sum is a result too."""
    h = x + residual
    return layer_norm(wide(h), weight, bias, eps).to(x.dtype), h


def deep_norm(
    x: Tensor,
    branch: Tensor,
    alpha: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Round alpha · x + branch to the wider dtype, then normalize it."""
    total = alpha * wide(x) + wide(branch)
    return layer_norm(total.to(torch.promote_types(x.dtype, branch.dtype)), weight, bias, eps)


def turned(x: Tensor, angles: Tensor) -> Tensor:
    """Turn channel i with channel i + pairs by the position's angle; the rest stays."""
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    pairs = angles.shape[1]
    a, b, rest = x.split((pairs, pairs, x.shape[-1] - 2 * pairs), -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos, rest), -1)


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
) -> tuple[Tensor, Tensor]:
    """Apply norm, gain and rotation to q and k, in either order, rounded once."""

    def one(x: Tensor, weight: Tensor | None) -> Tensor:
        y = wide(x)
        if after_rope and angles is not None:
            y = turned(y, angles)
        if norm == "rms":
            y = standard(y, eps)
        elif norm == "l2":
            length = torch.linalg.vector_norm(y, dim=-1, keepdim=True).clamp_min(eps)
            y = y / length.masked_fill(length == 0, 1)
        y = y if weight is None else y * (wide(weight) + offset)
        if angles is not None and not after_rope:
            y = turned(y, angles)
        return (y if scale == 1 else scale * y).to(x.dtype)

    return one(q, q_weight), one(k, k_weight)


def _number(value: Tensor | float) -> Tensor | float:
    """Promote a tensor with one element, and let it multiply anything."""
    return wide(value).reshape(()) if isinstance(value, Tensor) else value


def dynamic_tanh(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute tanh(alpha · x) · weight + bias, rounded once."""
    return affine(torch.tanh(_number(alpha) * wide(x)), weight, bias).to(x.dtype)


def dynamic_erf(
    x: Tensor,
    alpha: Tensor | float = 0.5,
    shift: Tensor | float = 0.0,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute erf(alpha · x + shift) · weight + bias, rounded once."""
    z = torch.erf(_number(alpha) * wide(x) + _number(shift))
    return affine(z, weight, bias).to(x.dtype)


def unit(x: Tensor, dim: int = -1) -> Tensor:
    """Compute x / |x|, zero for zero, not yet rounded."""
    z = wide(x)
    length = torch.linalg.vector_norm(z, dim=dim, keepdim=True)
    return z / length.masked_fill(length == 0, 1)


def step_towards(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Compute x + |alpha| ⊙ (unit(branch) − x), not yet rounded."""
    return wide(x) + wide(alpha).abs() * (unit(branch) - wide(x))


def ngpt_update(x: Tensor, branch: Tensor, alpha: Tensor) -> Tensor:
    """Step towards the branch, divide by the length, round once."""
    step = step_towards(x, branch, alpha)
    return unit(step).to(torch.promote_types(x.dtype, branch.dtype))


def unit_rows_(weight: Tensor, dim: int = -1) -> Tensor:
    """Give every vector along `dim` length 1, in place."""
    return weight.copy_(unit(weight, dim))
