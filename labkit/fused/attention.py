"""Attention that normalizes and rotates queries and keys in one kernel.

    q, k ← rotate(N(q)), rotate(N(k))      or N after the rotation; both read and written once

It supports RMSNorm (torch's or Gemma's gain) and L2 norms with a shared gain or a gain per head,
rotation only, and nGPT's unit vectors. In half precision it rounds once, while the formula rounds
after each operation. Other norms stay modules, and the kernel rotates their results.
"""

from typing import Any

import torch
from torch import Tensor, nn

from labkit import norms
from labkit.attention import Attention
from labkit.attention.parts import OwnGains, apply_temperature
from labkit.attention.sphere import SphereAttention
from labkit.context import Context
from labkit.fused.norms import FusedGemmaRMSNorm, FusedRMSNorm
from labkit.fused.seam import accepts_tensors, get_kernels, is_plain


class FusedAttention(Attention):
    """Attention with `normkernels.qk_norm_rope`."""

    def project(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v of shape (batch, heads, time, head_dim): normalized, rotated, scaled."""
        asked = self._norm_of_both()
        turned = context.angles is not None
        # The dtype of the projections: autocast, if it is on, decides it.
        if asked is None or self.cross or not (asked["norm"] or turned) or not accepts_tensors(x):
            return super().project(x, context)
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_dim)) for layer in (self.q, self.k, self.v)
        )
        if not (accepts_tensors(q, k) and self.head_dim <= get_kernels().heads.MAX_HEAD_DIM):
            return super().project(x, context)
        if self.norms is not None and asked["norm"] is None:
            q, k = self._apply_norm("q", q), self._apply_norm("k", k)
        scale = 1.0 if self.norms is None else self.norms.times
        turns = _cache_rotations(context) if turned else None
        q, k = get_kernels().qk_norm_rope(q, k, angles=turns, scale=scale, **asked)
        q, k, v = (t.transpose(1, 2) for t in (q, k, self._apply_norm("v", v)))
        return apply_temperature(q, self.norms, self.temperature), k, v

    def _norm_of_both(self) -> dict[str, Any] | None:
        """Return the kernel's keyword arguments for q and k; None if the kernel cannot be used."""
        if self.norms is None or "q" not in self.norms.tensors:
            return {"norm": None}
        if "k" not in self.norms.tensors:
            return None
        q, k = (_read_norm_options(self.get_submodule(f"norm_{name}")) for name in "qk")
        if self.norms.share != "width" and q and k and q[1] == k[1]:
            both = {"q_weight": q[0], "k_weight": k[0], **q[1]}
            return {**both, "after_rope": self.norms.after_rope}
        return None if self.norms.after_rope else {"norm": None}


class FusedSphereAttention(SphereAttention):
    """nGPT's attention with `normkernels.qk_norm_rope`: rotation, then unit vectors times s_qk."""

    def project(self, x: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return q, k, v; q is also multiplied by head_dim, so logits scale by sqrt(head_dim)."""
        q, k, v = (
            layer(x).unflatten(-1, (-1, self.head_dim)) for layer in (self.q, self.k, self.v)
        )
        scale = self.s_qk().view(self.heads, self.head_dim)
        if not (
            is_plain(self.unit)
            and accepts_tensors(q, k, scale)
            and self.head_dim <= get_kernels().heads.MAX_HEAD_DIM
        ):
            return super().project(x, context)
        turns = None if context.angles is None else _cache_rotations(context)
        q, k = get_kernels().qk_norm_rope(
            q, k, self.head_dim * scale, scale, turns, norm="l2", eps=0.0, after_rope=True
        )
        return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


def _cache_rotations(context: Context) -> tuple[Tensor, Tensor]:
    """Return cos and sin of all angles; the first layer of a forward pass computes them."""
    if context.turns is None:
        assert context.angles is not None
        context.turns = context.angles.cos().float(), context.angles.sin().float()
    return context.turns


def _read_norm_options(norm: Any) -> tuple[Tensor | None, dict[str, Any]] | None:
    """Return the gain and options of a norm on q or k; None if the kernel does not support it."""
    if not all(is_plain(module) for module in norm.modules()):
        return None
    own = norm.weight if type(norm) is OwnGains else None
    norm = norm.norm if type(norm) is OwnGains else norm
    kind, weight = type(norm), getattr(norm, "weight", None)
    if getattr(norm, "bias", None) is not None or (own is not None and weight is not None):
        return None
    gain = weight if own is None else own
    if kind in (norms.RMSNorm, FusedRMSNorm):
        eps = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        return gain, {"norm": "rms", "eps": eps}
    if kind in (norms.GemmaRMSNorm, FusedGemmaRMSNorm):
        return gain, {"norm": "rms", "eps": norm.eps, "offset": 0.0 if weight is None else 1.0}
    if kind is norms.L2Norm and weight is None:
        return gain, {"norm": "l2", "eps": norm.eps}
    return None


FUSED: dict[type[nn.Module], type[nn.Module]] = {
    Attention: FusedAttention,
    SphereAttention: FusedSphereAttention,
}
