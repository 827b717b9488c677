"""A sum of skip and branch, and its norm: the operations between two sublayers.

    add_rms_norm, add_layer_norm      h = residual + x      y = norm(h)
    deep_norm                         y = LayerNorm(alpha · x + branch)

Pre-Norm needs both results of the first two functions: h is the stream, y the next sublayer's
input. Post-Norm needs only y. Sum and norm are one function because a fused kernel reads memory
once for both; these are the formulas of the kernels of the same names. Sources: He et al. 2016a,
arXiv 1512.03385, for the sum; Wang et al. 2022, arXiv 2203.00555, for alpha.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from labkit.norms import layer_norm, rms_norm
from labkit.norms._common import at_least_float32, check_input


def add_rms_norm(
    x: Float[Tensor, "*leading dim"],
    residual: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-6,
    round_sum: bool = True,
    *,
    offset: float = 0.0,
    round_first: bool = False,
) -> tuple[Float[Tensor, "*leading dim"], Float[Tensor, "*leading dim"]]:
    """Return RMSNorm(h) in x's dtype and h = residual + x in the wider dtype of the two.

    The norm reads h as it is stored; with `round_sum=False`, the sum in at least float32. The gain
    is weight + `offset` (Gemma: 1); `round_first` rounds x̂ to h's dtype before it, as Llama does.
    """
    h, read = _add_residual("add_rms_norm", x, residual, 1.0, eps)
    read = at_least_float32(h) if round_sum else read
    gain = weight if weight is None or offset == 0 else at_least_float32(weight) + offset
    if round_first:
        y = rms_norm(read, None, eps).to(h.dtype)
        return (y if gain is None else gain * y).to(x.dtype), h
    return rms_norm(read, gain, eps).to(x.dtype), h


def add_layer_norm(
    x: Float[Tensor, "*leading dim"],
    residual: Float[Tensor, "*leading dim"],
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-5,
    round_sum: bool = True,
) -> tuple[Float[Tensor, "*leading dim"], Float[Tensor, "*leading dim"]]:
    """Return LayerNorm(h) in x's dtype and h = residual + x in the wider dtype of the two.

    The norm reads h as it is stored; with `round_sum=False`, the sum in at least float32.
    """
    h, read = _add_residual("add_layer_norm", x, residual, 1.0, eps)
    return layer_norm(at_least_float32(h) if round_sum else read, weight, bias, eps).to(x.dtype), h


def deep_norm(
    x: Float[Tensor, "*leading dim"],
    branch: Float[Tensor, "*leading dim"],
    alpha: float,
    weight: Float[Tensor, " dim"] | None = None,
    bias: Float[Tensor, " dim"] | None = None,
    eps: float = 1e-5,
) -> Float[Tensor, "*leading dim"]:
    """Return LayerNorm(alpha · x + branch): the skip x has weight alpha, the branch 1.

    Sum and result are rounded once each, to the wider dtype of the two. `deepnorm_constants`
    gives alpha for the depth of the stack.
    """
    return layer_norm(_add_residual("deep_norm", branch, x, alpha, eps)[0], weight, bias, eps)


def _add_residual(
    name: str, x: Tensor, residual: Tensor, alpha: float, eps: float
) -> tuple[Tensor, Tensor]:
    """Return alpha · residual + x twice: rounded to the wider dtype of the two, and unrounded."""
    check_input(name, x, eps)
    check_input(name, residual, eps)
    if x.shape != residual.shape:
        raise ValueError(
            f"{name} needs two tensors of the same shape, got {tuple(x.shape)} and "
            f"{tuple(residual.shape)}; expand one of them first"
        )
    total = at_least_float32(x) + alpha * at_least_float32(residual)
    return total.to(torch.promote_types(x.dtype, residual.dtype)), total
