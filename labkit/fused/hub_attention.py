"""Attention of transformers' models that rotates queries and keys in one kernel.

    q, k ← rotate(N(q)), rotate(N(k))     Qwen 3, Gemma 3: with the norm over head_dim
    q, k ← rotate(q), rotate(k)           Llama, Gemma 2, and OLMo 2, whose norm is over all heads

It runs transformers' own code with a different function under the name `apply_rotary_pos_emb`;
everything else, caches and masks included, is theirs. In half precision norm and rotation round
once, while theirs round after each operation. If only a part of a head is rotated, their function
runs.
"""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from labkit.fused.seam import accepts_tensors, get_kernels, is_plain
from labkit.fused.sums import KERNELS, ORDERS

ROTATION = "apply_rotary_pos_emb"
Pair = tuple[Any, Any]


class FusedAttention(nn.Module):
    """Attention with `normkernels.qk_norm_rope`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call transformers' forward with the kernel in place of norms and rotation."""
        if torch.compiler.is_compiling():
            return super().forward(*args, **kwargs)
        plain: Any = super().forward
        plain = plain.__func__
        norms = _read_norms(self)
        rotate = partial(_rotate, plain.__globals__[ROTATION], norms)
        names = {**plain.__globals__, ROTATION: rotate}
        code, defaults = plain.__code__, plain.__defaults__
        forward = FunctionType(code, names, argdefs=defaults, closure=plain.__closure__)
        forward.__kwdefaults__ = plain.__kwdefaults__
        return forward(self if norms is None else _omit_norms(self), *args, **kwargs)


def _read_norms(attention: Any) -> Pair | None:
    """Return the norms of q and k if the kernel supports them, else None."""
    q, k = (getattr(attention, name, None) for name in ("q_norm", "k_norm"))
    if q is None or k is None or not (is_plain(q) and is_plain(k)):
        return None
    kernel, shape = KERNELS.get(type(q)), (attention.head_dim,)
    if kernel in (None, "layer_norm") or kernel != KERNELS.get(type(k)):
        return None
    each = all(norm.weight is not None and norm.weight.shape == shape for norm in (q, k))
    return (q, k) if each and q.eps == k.eps and q.eps is not None else None


def _omit_norms(attention: nn.Module) -> Any:
    """Return a copy of the attention that shares its parts, but without norms of q and k."""
    same = object.__new__(type(attention))
    same.__dict__.update(attention.__dict__, q_norm=_keep, k_norm=_keep)
    return same


def _keep(x: Tensor) -> Tensor:
    return x


def _rotate(
    plain: Callable[..., Pair],
    norms: Pair | None,
    q: Tensor,
    k: Tensor,
    cos: Tensor,
    sin: Tensor,
    *args: Any,
    **kwargs: Any,
) -> Pair:
    """Normalize and rotate q and k (batch, heads, time, head_dim); `plain` is the original code."""
    weights, options = (None, None), {"norm": None}
    if norms is not None:
        weights = tuple(norm.weight for norm in norms)
        offset, _ = ORDERS[KERNELS[type(norms[0])]]
        options = {"norm": "rms", "eps": norms[0].eps, "offset": offset}
    batch, *_, time, size = q.shape
    fits = cos.shape == sin.shape and cos.shape in ((1, time, size), (batch, time, size))
    fits = fits and size % 2 == 0 and not (args or kwargs)
    if not (fits and accepts_tensors(q, k, cos, sin, *weights)) or (
        size > get_kernels().heads.MAX_HEAD_DIM or cos.requires_grad or sin.requires_grad
    ):
        q, k = (q, k) if norms is None else (norms[0](q), norms[1](k))
        return plain(q, k, cos, sin, *args, **kwargs)
    q, k = q.transpose(1, 2), k.transpose(1, 2)
    q, k = get_kernels().qk_norm_rope(q, k, *weights, _halve(cos, sin), **options)
    return q.transpose(1, 2), k.transpose(1, 2)


def _halve(cos: Tensor, sin: Tensor) -> Pair:
    """Return cos and sin of each pair in float32; the first layer stores them on cos."""
    made = getattr(cos, "halved_by_labkit", None)
    if made is None or made[0] is not sin:
        cut = cos.shape[-1] // 2
        halves = [table[..., :cut].float().contiguous() for table in (cos, sin)]
        if len(cos) == 1:  # for all sequences
            halves = [half[0] for half in halves]
        made = sin, (halves[0], halves[1])
        setattr(cos, "halved_by_labkit", made)  # noqa: B010
    return made[1]
